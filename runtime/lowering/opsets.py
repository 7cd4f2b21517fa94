"""Which versions of the operator set can be written, and which one is where none is asked for.

That is the lowest that holds the model without loss. Ops are written in `OLDEST` where that loses nothing. An op's rule
that would have to take an operator apart for which ONNX Runtime has a kernel asks for it by `Graph.has`, and what can't
be said at all in an opset raises `NewerOpset`: then the model is written again, in the opset that was asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import onnx

from ..errors import ConversionError, UsageError
from ..onnxruntime_package import require_whole

OLDEST = 17  # the first with LayerNormalization
BEST = 23  # what ONNX Runtime runs best: the newest that has operators with kernels of their own (Attention)
WITH_DRAWS = (
    21  # the newest in which ONNX Runtime has kernels for RandomNormal, RandomUniform, Bernoulli and their like
)
NEWEST = int(onnx.defs.onnx_opset_version())  # that onnx knows
WHY = "cellbridge.opset"  # metadata of a model: why it is of its opset
METADATA_IR_VERSION = 10  # the first ONNX IR whose nodes have metadata


class NewerOpset(ConversionError):
    """What is written is in a newer opset only.

    Attributes:
        opset: the first that has it.
        what: the operator, or the use of one.
    """

    def __init__(self, opset: int, what: str, where: str = "") -> None:
        super().__init__(f"{where}ONNX has {what} from opset {opset} on: export with opset {opset} or a newer one")
        self.opset = opset
        self.what = what

    def at(self, where: str) -> NewerOpset:
        """The same, of a node of a program."""
        return NewerOpset(self.opset, self.what, f"{where} can't be written in ONNX: ")


@dataclass(frozen=True)
class Choice:
    """The opset of a model.

    Attributes:
        opset: the version.
        ceiling: where it is the lowest that holds the model, up to which version it may rise so that an operator is
            kept whole; None where it was asked for.
        reason: the operator for which it is no older one, empty for none.
    """

    opset: int
    ceiling: int | None = None
    reason: str = ""

    def after(self, newer: NewerOpset) -> Choice:
        """The next to try; raises `newer` where there is none."""
        if self.ceiling is None or not self.opset < newer.opset <= newest():
            raise newer
        return Choice(newer.opset, self.ceiling, newer.what)


def best(*, draws: bool) -> int:
    """The opset for ONNX Runtime at hand, of a program that `draws` random numbers or doesn't."""
    return WITH_DRAWS if draws else BEST


def choose(opset: int | None, *, draws: bool = False) -> Choice:
    """The opset to write; not given, the lowest that holds the model.

    Raises:
        UsageError: the one that was asked for can't be written; the message gives the range.
    """
    if opset is None:
        return Choice(OLDEST, best(draws=draws))
    if not OLDEST <= opset <= NEWEST:
        raise UsageError(f"opset must be {OLDEST} to {NEWEST}, given {opset}")
    return Choice(opset)


def require_loadable(opset: int) -> None:
    """Raise `UsageError` if ONNX Runtime, as it is installed, loads no models of that opset."""
    if opset > BEST and opset > newest():
        import onnxruntime

        raise UsageError(
            f"ONNX Runtime {onnxruntime.__version__} loads models up to opset {newest()}: one of opset {opset} can't "
            "be checked with it; converter.to_onnx and parity export --no-check write it all the same"
        )


def metadata(choice: Choice) -> onnx.StringStringEntryProto:
    """What a model says of how its opset was chosen; `describe` reads it."""
    why = "asked for" if choice.ceiling is None else f"the lowest with {choice.reason}" if choice.reason else ""
    return onnx.StringStringEntryProto(key=WHY, value=why or "the lowest that is written")


def describe(model: onnx.ModelProto) -> str:
    """The opset of a model that `to_onnx` wrote, and why it is that: "opset 20, the lowest with Gelu"."""
    (version,) = (entry.version for entry in model.opset_import if not entry.domain)
    why = next(entry.value for entry in model.metadata_props if entry.key == WHY)
    return f"opset {version}, {why}"


@functools.cache
def newest() -> int:
    """The newest opset that onnx knows and ONNX Runtime loads, as both are installed."""
    require_whole()
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # only what is fatal
    for opset in range(NEWEST, BEST, -1):
        try:
            onnxruntime.InferenceSession(_smallest(opset), options, providers=["CPUExecutionProvider"])
        except Fail:  # "... is under development", and it loads no model of it
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
    """The version of the ONNX IR that a model of an opset has."""
    operators = [onnx.helper.make_opsetid("", opset)]
    return max(METADATA_IR_VERSION, int(onnx.helper.find_min_ir_version_for(operators)))


@functools.cache
def require_operator(op_type: str, opset: int) -> None:
    """Raise `NewerOpset` if the opset lacks the operator."""
    if not onnx.defs.has(op_type, opset):
        schemas = onnx.defs.get_all_schemas_with_history()
        raise NewerOpset(min(s.since_version for s in schemas if s.name == op_type and not s.domain), op_type)
