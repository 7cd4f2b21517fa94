"""Operators on codes, and the operators on numbers that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

STANDARD, MICROSOFT = "", "com.microsoft"

Operator = tuple[str, str]


@dataclass(frozen=True)
class FloatOperator:
    """What an operator on codes computes.

    Attributes:
        name: of the operator on numbers, of the standard domain.
        values: positions of each operand's codes, scale and zero point.
        axes: of the scales of each operand, where it has several.
        plain: positions of operands that are passed on; they stand before the others.
        bias: position of a bias whose scale is the product of those of the first two operands; -1 for none.
        output: positions of the scale and the zero point of the result.
        dropped: attributes that the operator on numbers hasn't.
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
"""Products of codes, with the axis of the weight's scales."""
CONCAT: Operator = (MICROSOFT, "QLinearConcat")
LSTM: Operator = (MICROSOFT, "DynamicQuantizeLSTM")

QUANTIZED: frozenset[Operator] = frozenset(
    {*ON_CODES, *QUANTIZE, *DEQUANTIZE, DYNAMIC, *INTEGER, CONCAT, LSTM, (MICROSOFT, "QAttention"),
     (MICROSOFT, "QEmbedLayerNormalization"), (MICROSOFT, "DynamicQuantizeMatMul"),
     (MICROSOFT, "MatMulIntegerToFloat"), (MICROSOFT, "MatMulNBits")}
)  # fmt: skip
"""Operators that only a quantized file has."""

ON_BOTH = frozenset(
    {"Identity", "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Resize", "Split", "Slice",
     "Pad", "Gather", "GatherElements", "Concat", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Relu", "Clip"}
)  # fmt: skip
"""Operators that do to codes what they do to numbers."""
ABOUT = frozenset({"Shape", "Size", "ArgMax", "ArgMin"})
"""Operators that take codes and give no codes."""
