"""Operators on quantized codes, and the floating-point operators that they correspond to."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto

STANDARD, MICROSOFT = "", "com.microsoft"

Operator = tuple[str, str]


def operator_of(node: NodeProto) -> Operator:
    """The domain and the type of a node; the standard domain has two names."""
    return STANDARD if node.domain == "ai.onnx" else node.domain, node.op_type


@dataclass(frozen=True)
class FloatOperator:
    """The floating-point operator that an operator on codes corresponds to.

    Attributes:
        name: name of the floating-point operator, in the standard domain.
        values: positions of each operand's codes, scale and zero point.
        axes: axis of each operand's scales, if it has several.
        plain: positions of operands that are passed on unchanged, before the others.
        bias: position of a bias whose scale is the product of those of the first two operands; -1 for none.
        output: positions of the scale and the zero point of the result.
        dropped: attributes that the floating-point operator doesn't have.
    """

    name: str
    values: tuple[tuple[int, int, int], ...]
    output: tuple[int, int]
    axes: tuple[int, ...] = (1, 1)
    plain: tuple[int, ...] = ()
    bias: int = -1
    dropped: tuple[str, ...] = ()


_TWO = ((0, 1, 2), (3, 4, 5))
_ONE = ((0, 1, 2),)

ON_CODES: dict[Operator, FloatOperator] = {
    (STANDARD, "QLinearConv"): FloatOperator("Conv", _TWO, (6, 7), axes=(1, 0), bias=8),
    (STANDARD, "QLinearMatMul"): FloatOperator("MatMul", _TWO, (6, 7), axes=(-2, -1)),
    (MICROSOFT, "QGemm"): FloatOperator("Gemm", _TWO, (7, 8), bias=6),  # its axis depends on transB
    (MICROSOFT, "QLinearAdd"): FloatOperator("Add", _TWO, (6, 7)),
    (MICROSOFT, "QLinearMul"): FloatOperator("Mul", _TWO, (6, 7)),
    (MICROSOFT, "QLinearSigmoid"): FloatOperator("Sigmoid", _ONE, (3, 4)),
    (MICROSOFT, "QLinearLeakyRelu"): FloatOperator("LeakyRelu", _ONE, (3, 4)),
    (MICROSOFT, "QLinearSoftmax"): FloatOperator("Softmax", _ONE, (3, 4), dropped=("opset",)),
    (MICROSOFT, "QLinearGlobalAveragePool"): FloatOperator(
        "GlobalAveragePool", _ONE, (3, 4), dropped=("channels_last",)
    ),
    (MICROSOFT, "QLinearAveragePool"): FloatOperator("AveragePool", _ONE, (3, 4), dropped=("channels_last",)),
    (MICROSOFT, "QLinearWhere"): FloatOperator("Where", ((1, 2, 3), (4, 5, 6)), (7, 8), plain=(0,)),
}

QUANTIZE: frozenset[Operator] = frozenset({(STANDARD, "QuantizeLinear"), (MICROSOFT, "QuantizeLinear")})
DEQUANTIZE: frozenset[Operator] = frozenset({(STANDARD, "DequantizeLinear"), (MICROSOFT, "DequantizeLinear")})
DYNAMIC: Operator = (STANDARD, "DynamicQuantizeLinear")
INTEGER: dict[Operator, tuple[str, int]] = {
    (STANDARD, "MatMulInteger"): ("MatMul", -1),
    (STANDARD, "ConvInteger"): ("Conv", 0),
}
"""Products of codes: the floating-point operator, and the axis of the weight's scales."""
CONCAT: Operator = (MICROSOFT, "QLinearConcat")
LSTM: Operator = (MICROSOFT, "DynamicQuantizeLSTM")

BLOCKS: Operator = (MICROSOFT, "MatMulNBits")
QUANTIZED: frozenset[Operator] = frozenset(
    {*ON_CODES, *QUANTIZE, *DEQUANTIZE, DYNAMIC, *INTEGER, CONCAT, LSTM, (MICROSOFT, "QAttention"),
     (MICROSOFT, "QEmbedLayerNormalization"), (MICROSOFT, "DynamicQuantizeMatMul"),
     (MICROSOFT, "MatMulIntegerToFloat"), BLOCKS}
)  # fmt: skip
"""Operators that occur only in quantized files."""

ON_BOTH = frozenset(
    {"Identity", "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Resize", "Split", "Slice",
     "Pad", "Gather", "GatherElements", "Concat", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Relu", "Clip"}
)  # fmt: skip
"""Operators that work on codes as they do on floating-point numbers."""
ABOUT = frozenset({"Shape", "Size", "ArgMax", "ArgMin"})
"""Operators that take codes and return something else: sizes or indices."""
