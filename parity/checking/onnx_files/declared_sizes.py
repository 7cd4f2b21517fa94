"""The sizes that two ONNX files declare for their inputs, and those that the candidate turns out to need.

A reference that leaves an axis open takes any size there. A candidate with a fixed one can't stand in for it, whatever
it computes at that size, so it fails, besides being compared there. The other way round it takes more, which is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto, numpy_helper

from ....converter.onnx_in.inputs import Shapes
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.ir.dims import Dim, SymbolicDim, evaluate, symbols_in
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ...inputs.onnx_inputs import DeclaredInputs, default_sizes
from ...inputs.sizes import MAX_NUMBERS, MAX_SIZE, Sizes, format_sizes
from ...report.report import Report
from ..other_sizes import add_refusal

MOST = 8
"""Number of sizes that are tried until a candidate runs."""


@dataclass
class DeclaredSizes:
    """How the declared sizes of two files differ.

    Attributes:
        fixed: sizes of the reference's open axes, by name, that the candidate fixes.
        alone: whether both fix each axis, so that nothing is known of other sizes.
        failures: what the reference takes and the candidate doesn't, in words.
        notes: differences that are no failures.
    """

    fixed: Sizes = field(default_factory=dict)
    alone: bool = False
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def between(cls, reference: Sequence[Value], candidate: Sequence[Value], given_shapes: Shapes) -> DeclaredSizes:
        """Compare the inputs of two files, paired; those of `given_shapes` may have any sizes besides.

        Raises:
            UsageError: both fix an axis, to different sizes.
        """
        open_axes = any(symbols_in(value.shape) for value in (*reference, *candidate))
        result = cls(alone=not given_shapes and not open_axes and any(value.shape for value in reference))
        for value, other in zip(reference, candidate, strict=True):
            if value.name not in given_shapes and len(value.shape) == len(other.shape):
                result._add(value, other)
        return result

    def _add(self, value: Value, other: Value) -> None:
        for axis, (dim, needed) in enumerate(zip(value.shape, other.shape, strict=True)):
            where = f"axis {axis} of {value.name}"
            if isinstance(dim, int) and isinstance(needed, int) and dim != needed:
                raise UsageError(
                    f"{where} is declared as {dim} in the reference and {needed} in the candidate: there is no input "
                    "that both files take\n  what to do: export both with the same size, or with an open one"
                )
            if isinstance(dim, SymbolicDim) and isinstance(needed, int):
                self.fixed.update([solution] if (solution := dim.solve(needed)) else [])
                self.failures.append(f"declares {where} as {needed}, and the reference takes any size ({dim})")
            elif isinstance(dim, int) and isinstance(needed, SymbolicDim):
                self.notes.append(
                    f"{where} was compared at {dim} alone, which the reference fixes; the candidate takes any"
                )
        names = [[str(dim) for dim in x.shape if isinstance(dim, SymbolicDim)] for x in (value, other)]
        if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
            self.notes.append(
                f"the open axes of {value.name} are named {', '.join(names[0])} in the reference and "
                f"{', '.join(names[1])} in the candidate; they were paired by position"
            )

    def add_to(self, report: Report, candidate: str) -> None:
        """Add what differs to the report on the sizes that both files take."""
        if self.alone:
            report.conditions.remarks.append("at the declared sizes alone")
        report.notes += self.notes
        for reason in self.failures:
            add_refusal(report, candidate, reason)
        if self.failures:
            report.notes.append("to compare at the sizes that the candidate takes, and at no others, give --shape")


def compare_outputs(
    report: Report,
    candidate: str,
    models: tuple[ModelProto, ModelProto],
    infer: Callable[[], Program | None],
    *,
    inputs_are_alike: bool,
) -> None:
    """Add how the sizes that two files declare for their outputs differ.

    A declared size fails where the other file declares another one, or where the candidate computes one that follows
    from its inputs. Else one file only says more than the other.

    Args:
        report: the report on the files.
        candidate: name of the candidate.
        models: the reference and the candidate.
        infer: returns the candidate's program, whose outputs have the sizes that it computes; None if it isn't known.
        inputs_are_alike: whether both declare the same sizes of inputs, from which other sizes of outputs follow.
    """
    reference_outputs, candidate_outputs = (_declared_outputs(model) for model in models)
    if len(reference_outputs) != len(candidate_outputs):
        return
    same_names = dict(reference_outputs).keys() == dict(candidate_outputs).keys()
    computed: list[tuple[Dim, ...]] | None = None
    for number, (name, shape) in enumerate(reference_outputs):
        at = [other for other, _ in candidate_outputs].index(name) if same_names else number
        other_shape = candidate_outputs[at][1]
        if shape is None or other_shape is None:
            continue
        if len(shape) != len(other_shape):
            add_refusal(report, candidate, f"declares {len(other_shape)} axes of its output {name}, not {len(shape)}")
            continue
        if any(isinstance(other, int) and dim != other for dim, other in zip(shape, other_shape, strict=True)):
            computed = _computed_sizes(infer) if computed is None else computed
        is_computed = computed is not None and at < len(computed) and len(computed[at]) == len(other_shape)
        sizes = computed[at] if computed is not None and is_computed else other_shape
        for axis, (dim, other, size) in enumerate(zip(shape, other_shape, sizes, strict=True)):
            where = f"axis {axis} of its output {name}"
            if isinstance(dim, int) and isinstance(other, int) and dim != other and size == other and is_computed:
                report.notes.append(f"the reference declares {where} as {dim}, and the candidate computes {other}")
            elif isinstance(dim, int) and isinstance(other, int) and dim != other:
                add_refusal(report, candidate, f"declares {where} as {other}, and the reference as {dim}")
            elif isinstance(other, int) and isinstance(size, SymbolicDim):
                add_refusal(report, candidate, f"declares {where} as {other}, and computes any size there ({size})")
            elif isinstance(dim, int) != isinstance(other, int) and inputs_are_alike:
                words = [f"as {d}" if isinstance(d, int) else "as open" for d in (other, dim)]
                report.notes.append(f"{candidate} declares {where} {words[0]}, and the reference {words[1]}")


def _computed_sizes(infer: Callable[[], Program | None]) -> list[tuple[Dim, ...]]:
    try:
        program = infer()
    except CellbridgeError:  # it can be read at the sizes that were compared alone
        return []
    return [value.shape for value in program.outputs] if program is not None else []


def _declared_outputs(model: ModelProto) -> list[tuple[str, list[int | str] | None]]:
    """Return the name of each output and its declared sizes, "" or a name for open ones; None without a shape."""
    outputs: list[tuple[str, list[int | str] | None]] = []
    for output in model.graph.output:
        kind = output.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in kind.shape.dim]
        outputs.append((output.name, dims if kind.HasField("shape") else None))
    return outputs


def shapes_of(declared: DeclaredInputs, sizes: Sizes) -> Shapes:
    """Return the shapes of all inputs with these sizes of open axes, and the usual ones of others."""
    all_sizes = default_sizes(declared.values) | sizes
    return {value.name: [evaluate(dim, all_sizes) for dim in value.shape] for value in declared.values}


def other_sizes_to_try(declared: DeclaredInputs, model: ModelProto) -> Iterator[Sizes]:
    """Yield sizes that a file may need though it declares them open: integers among its constants."""
    data = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.data_type in (6, 7))
    numbers = {int(n) for array in data if array.size <= MAX_NUMBERS for n in array.ravel() if 1 <= n <= MAX_SIZE}
    names = [*default_sizes(declared.values)][::-1]  # the last axes first: batches are rarely frozen
    choices = [{name: number} for number in sorted(numbers, reverse=True) for name in names]
    yield from choices[:MOST]


def reason_of(error: CellbridgeError, sizes: Sizes) -> str:
    """Return in words that the candidate doesn't take sizes that it declares."""
    return f"declares any size, and doesn't run at {format_sizes(sizes)}, where the reference does: {error}".partition(
        "\n"
    )[0]
