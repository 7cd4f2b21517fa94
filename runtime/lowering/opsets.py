"""Which versions of the operator set can be written, and which one is by default."""

from __future__ import annotations

import functools

import onnx

from ..errors import ConversionError, UsageError
from ..onnxruntime_package import require_whole

OLDEST = 17  # the first with LayerNormalization
DEFAULT = 23  # the first with Attention and RMSNormalization; see docs/decisions.md
WITH_DRAWS = (
    21  # the newest in which ONNX Runtime has kernels for RandomNormal, RandomUniform, Bernoulli and their like
)
METADATA_IR_VERSION = 10  # the first ONNX IR whose nodes have metadata


def chosen(opset: int | None, *, draws: bool = False) -> int:
    """The opset to write, for a program that `draws` random numbers or doesn't.

    Raises:
        UsageError: the one that was asked for can't be written; the message gives the range.
    """
    if opset is None:
        return WITH_DRAWS if draws else DEFAULT
    # what is above the default alone costs looking: that takes ONNX Runtime
    if not OLDEST <= opset <= DEFAULT and opset not in range(OLDEST, newest() + 1):
        raise UsageError(f"opset must be {OLDEST} to {newest()}, given {opset}")
    return opset


@functools.cache
def newest() -> int:
    """The newest opset that onnx knows and ONNX Runtime loads, as both are installed."""
    require_whole()
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # only what is fatal
    for opset in range(onnx.defs.onnx_opset_version(), DEFAULT, -1):
        try:
            onnxruntime.InferenceSession(_smallest(opset), options, providers=["CPUExecutionProvider"])
        except Fail:  # "... is under development", and it loads no model of it
            continue
        return opset
    return DEFAULT


def _smallest(opset: int) -> bytes:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "smallest", [x], [y])
    operators = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=operators, ir_version=ir_version(opset))
    return bytes(model.SerializeToString())


def ir_version(opset: int) -> int:
    """The version of the ONNX IR that a model of an opset has."""
    operators = [onnx.helper.make_opsetid("", opset)]
    return max(METADATA_IR_VERSION, int(onnx.helper.find_min_ir_version_for(operators)))


@functools.cache
def require_operator(op_type: str, opset: int) -> None:
    """Raise `ConversionError` if the opset lacks the operator."""
    if not onnx.defs.has(op_type, opset):
        first = min(
            schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op_type
        )
        raise ConversionError(f"ONNX has {op_type} from opset {first} on: export with opset {first} or a newer one")
