"""The supported versions of the operator set, and the choice of one if the user requests none.

The default is the lowest that can express the model without loss. Lowering starts with `OLDEST`. An op's rule calls
`Graph.has` for a newer operator that it would otherwise have to decompose although ONNX Runtime has a kernel for it.
An op that an opset can't express raises `NewerOpset`, and the model is lowered again in the opset that the error
names.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import onnx

from ..errors import ConversionError, UsageError
from ..onnxruntime_package import require_intact
from ..providers import find

OLDEST = 17  # the first with LayerNormalization
BEST = 23  # the best for ONNX Runtime: the newest that adds an operator with a kernel of its own (Attention)
WITH_DRAWS = 21  # the newest in which ONNX Runtime has kernels for RandomNormal, RandomUniform, Bernoulli and the like
ON_CUDA = 21  # ONNX Runtime has no GPU kernels for some operators that opset 22 revised, such as MaxPool
NEWEST = int(onnx.defs.onnx_opset_version())  # the newest that onnx knows
_OF_DTYPES = {
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 19),
    **dict.fromkeys(("int4", "uint4"), 21), "float4_e2m1fn": 23, "float8_e8m0fnu": 24,
    **dict.fromkeys(("int2", "uint2"), 25),
}  # fmt: skip
"""The first opset whose Cast knows a dtype, by its name."""
WHY = "cellbridge.opset"  # metadata of a model: the reason for its opset
METADATA_IR_VERSION = 10  # the first ONNX IR whose nodes have metadata


class NewerOpset(ConversionError):
    """Only a newer opset can express the model.

    Attributes:
        opset: the first that can.
        what: the operator, or the use of one.
    """

    def __init__(self, opset: int, what: str, where: str = "") -> None:
        super().__init__(f"{where}ONNX has {what} from opset {opset} on: export with opset {opset} or a newer one")
        self.opset = opset
        self.what = what

    def at(self, where: str) -> NewerOpset:
        """Return the same error with the location of a node."""
        return NewerOpset(self.opset, self.what, f"{where} can't be written in ONNX: ")


@dataclass(frozen=True)
class Choice:
    """The opset of a model.

    Attributes:
        opset: the version.
        ceiling: in a search for the lowest possible opset, the newest that may be chosen to keep an operator whole;
            None if the user requested `opset`.
        reason: the operator that needs this opset rather than an older one; empty if there is none.
    """

    opset: int
    ceiling: int | None = None
    reason: str = ""

    def after(self, newer: NewerOpset) -> Choice:
        """Return the next choice to try after `newer` was raised; raise `newer` if there is none."""
        if self.ceiling is None or not self.opset < newer.opset <= newest():
            raise newer
        return Choice(newer.opset, self.ceiling, newer.what)


def best(*, draws: bool, provider: str = "cpu") -> int:
    """Return the best opset for a provider of the installed ONNX Runtime.

    Args:
        draws: whether the program draws random numbers.
        provider: name of the execution provider.
    """
    return min(WITH_DRAWS if draws else BEST, ON_CUDA if find(provider).device == "cuda" else BEST)


def choose(opset: int | None, *, draws: bool = False) -> Choice:
    """Return the choice for the requested opset; if None, the start of the search for the lowest possible one.

    Raises:
        UsageError: the requested opset isn't supported; the message names the range.
    """
    if opset is None:
        return Choice(OLDEST, best(draws=draws))
    if not OLDEST <= opset <= NEWEST:
        raise UsageError(f"opset must be {OLDEST} to {NEWEST}, given {opset}")
    return Choice(opset)


def require_loadable(opset: int) -> None:
    """Raise `UsageError` if the installed ONNX Runtime can't load models of an opset."""
    if opset > BEST and opset > newest():
        import onnxruntime

        raise UsageError(
            f"ONNX Runtime {onnxruntime.__version__} loads models up to opset {newest()}: one of opset {opset} can't "
            "be checked with it; to write it without a check, use converter.to_onnx or parity export --no-check"
        )


def metadata(choice: Choice) -> onnx.StringStringEntryProto:
    """Return the metadata that record how the opset of a model was chosen; `describe` reads them."""
    why = "asked for" if choice.ceiling is None else f"the lowest with {choice.reason}" if choice.reason else ""
    return onnx.StringStringEntryProto(key=WHY, value=why or "the lowest that is written")


def describe(model: onnx.ModelProto) -> str:
    """Describe the opset of a model that `to_onnx` wrote, and its choice: "opset 20, the lowest with Gelu"."""
    (version,) = (entry.version for entry in model.opset_import if not entry.domain)
    why = next(entry.value for entry in model.metadata_props if entry.key == WHY)
    return f"opset {version}, {why}"


@functools.cache
def newest() -> int:
    """Return the newest opset that the installed onnx knows and the installed ONNX Runtime loads."""
    require_intact()
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # fatal errors only
    for opset in range(NEWEST, BEST, -1):
        try:
            onnxruntime.InferenceSession(_smallest(opset), options, providers=["CPUExecutionProvider"])
        except Fail:  # "... is under development": it can't load models of this opset
            continue
        return opset
    return BEST


def _smallest(opset: int) -> bytes:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "smallest", [x], [y])
    operators = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=operators, ir_version=ir_version(opset))
    return bytes(model.SerializeToString())


def ir_version(opset: int) -> int:
    """Return the version of the ONNX IR for models of an opset."""
    operators = [onnx.helper.make_opsetid("", opset)]
    return max(METADATA_IR_VERSION, int(onnx.helper.find_min_ir_version_for(operators)))


def require_dtype(dtype: str, opset: int) -> None:
    """Raise `NewerOpset` if the opset lacks a dtype."""
    if opset < (first := _OF_DTYPES.get(dtype, OLDEST)):
        raise NewerOpset(first, f"tensors of {dtype}")


@functools.cache
def require_bfloat16(op_type: str, index: int, opset: int) -> None:
    """Raise `NewerOpset` if the operator takes bfloat16 as its input at a place only in a newer opset."""
    versions = [opset, *(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op_type)]
    for version in sorted(version for version in versions if version >= opset):
        inputs = onnx.defs.get_schema(op_type, version).inputs
        if "tensor(bfloat16)" in inputs[min(index, len(inputs) - 1)].types:
            if version > opset:
                raise NewerOpset(version, f"{op_type} in bfloat16")
            return


@functools.cache
def require_operator(op_type: str, opset: int) -> None:
    """Raise `NewerOpset` if the opset lacks the operator."""
    if not onnx.defs.has(op_type, opset):
        schemas = onnx.defs.get_all_schemas_with_history()
        raise NewerOpset(min(s.since_version for s in schemas if s.name == op_type and not s.domain), op_type)
