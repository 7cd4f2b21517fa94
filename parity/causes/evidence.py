"""`Evidence`: what a candidate computed in a Cell, and whether a program of the Cell computes the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Value, is_floating
from ...runtime.programs.gradient_program import differentiate
from ...runtime.programs.interpreter import execute
from ..results.comparison import PASS
from ..sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records, gradient_key, value_key
from ..verdicts.deviations import error, size
from ..verdicts.judge import Tolerance, judge
from .budget import Budget, work_of, work_of_run
from .cell_program import CellProgram, TensorKey

_ABSENT = np.zeros((0,))
"""In place of a tensor that wasn't recorded; it has the shape of none."""
BACKWARD = 2
"""What a backward pass costs, in forward passes."""


@dataclass(frozen=True)
class Agreement:
    """How a program of a Cell agrees with what the candidate computed.

    Attributes:
        worst: the largest error, in units of its bar; 1 and less agree.
        relative: the largest error, relative to the largest element of its tensor, or of all gradients.
        tensors: number of tensors that were compared.
        failing: keys of those that don't agree.
        gradients: whether gradients are among them.
    """

    worst: float
    relative: float
    tensors: int
    failing: frozenset[TensorKey]
    gradients: bool

    @property
    def holds(self) -> bool:
        """Whether all tensors agree, and there is at least one."""
        return not self.failing and self.tensors > 0


@dataclass(frozen=True)
class Evidence:
    """The records of a candidate in float64, isolated, by which programs of Cells are judged.

    Attributes:
        truth: the reference's records.
        candidate: the candidate's.
        noise: the reference's rounding error in a tensor, which its bar is computed from.
        dtype: the dtype that this error was measured in.
        grads: whether gradients are compared.
        parameters: the candidate's parameters by name, as far as they are known.
        reference_parameters: the reference's.
        end_to_end: whether the candidate's backward pass was its own, so that other gradients arrived at its outputs.
        budget: what may be computed; judging a program takes from it.
        excused: what isn't compared, since the candidate's records have the reference's in its place.
    """

    truth: Records
    candidate: Records
    noise: Callable[[TensorKey], float]
    dtype: str
    grads: bool
    parameters: Mapping[str, Array] = field(default_factory=dict)
    reference_parameters: Mapping[str, Array] = field(default_factory=dict)
    end_to_end: bool = False
    budget: Budget = field(default_factory=Budget)
    excused: Collection[TensorKey] = ()

    @property
    def of_reference(self) -> Evidence:
        """The same with the reference in the candidate's place."""
        return replace(self, candidate=self.truth)

    def without(self, keys: Collection[TensorKey]) -> Evidence:
        """Return the same without some tensors."""
        return replace(self, excused={*self.excused, *keys}) if keys else self

    def _trained_otherwise(self, program: Program) -> set[TensorKey]:
        """The parameters of a program that are trained there and not in the candidate, or the other way round."""
        trained = {name for name, parameter in program.parameters.items() if parameter.trainable}
        known = set(program.parameters) & {*self.truth.gradients.parameters, *self.candidate.gradients.parameters}
        return {
            ("parameter", name) for name in trained.symmetric_difference(self.candidate.gradients.parameters) & known
        }

    def judge(self, cell: CellProgram, program: Program | None = None) -> Agreement:
        """Compare a program of a Cell, by default the reference's own, with the candidate.

        Gradients are computed only if the outputs agree: no program of which the outputs differ is the candidate's.
        The reference's own program, which says whether there is a cause to look for, is judged without end.

        Raises:
            CellbridgeError: the program doesn't run on the recorded values.
            BudgetSpentError: nothing may be computed any more.
        """
        if program is not None:
            self.budget.spend(work_of(program))
        program = program or cell.program
        forward = self._agreement(self._forward(cell, program), gradients=False)
        if forward.failing or not self.grads or not self._has_gradients(cell):
            return forward
        self.budget.spent += BACKWARD * work_of(program)
        backward = self._agreement(self._backward(cell, program), gradients=True)
        return Agreement(
            max(forward.worst, backward.worst),
            max(forward.relative, backward.relative),
            forward.tensors + backward.tensors,
            backward.failing | self._trained_otherwise(program),
            gradients=True,
        )

    def spend_run(self) -> None:
        """Take a run of the whole network from the budget.

        Raises:
            BudgetSpentError: nothing may be computed any more.
        """
        self.budget.spend(work_of_run(self.truth))

    def of_reference_holds(self, path: str) -> bool:
        """Whether the reference itself agrees with the candidate in a Cell."""
        return self.judge_records(path, self.truth).holds

    def judge_records(self, path: str, records: Records) -> Agreement:
        """Compare what another run of the reference recorded in a Cell with the candidate."""
        outputs = list(self._recorded(path, records, gradients=False))
        forward = self._agreement(iter(outputs), gradients=False)
        if forward.failing or not self.grads:
            return forward
        backward = self._agreement(self._recorded(path, records, gradients=True), gradients=True)
        return Agreement(
            max(forward.worst, backward.worst),
            max(forward.relative, backward.relative),
            forward.tensors + backward.tensors,
            backward.failing,
            gradients=True,
        )

    def _recorded(self, path: str, records: Records, *, gradients: bool) -> Iterator[tuple[TensorKey, Array, Array]]:
        """Yield the key of each tensor that a Cell computes, the array in the records, and the candidate's."""
        calls = records.calls
        inside = {call.path for call in calls if call.parent is not None and calls[call.parent].path == path}
        own, passed = (INPUT_GRADIENT, OUTPUT_GRADIENT) if gradients else (OUTPUT, INPUT)
        for key, expected in self.candidate.values.items():
            computed = (key.path == path and key.kind == own) or (key.path in inside and key.kind == passed)
            if computed and key in self.truth.values:
                yield key, records.values.get(key, _ABSENT), expected
        arrays = records.gradients.parameters if gradients else records.state.updates | records.state.buffers
        candidate_arrays = (
            self.candidate.gradients.parameters
            if gradients
            else self.candidate.state.updates | self.candidate.state.buffers
        )
        for name, array in arrays.items():
            if name.rpartition(".")[0] == path and name in candidate_arrays:
                like = self.reference_parameters.get(name, _ABSENT) if gradients else _ABSENT
                kind = "parameter" if gradients else "update"
                yield (kind, name), self._or_zeros(array, like), self._or_zeros(candidate_arrays[name], like)

    def distance(self, cell: CellProgram, program: Program) -> float:
        """Return the largest error of a program's outputs against the candidate's, in units of the bar of each tensor.

        Raises:
            CellbridgeError: the program doesn't run on the recorded values.
            BudgetSpentError: nothing may be computed any more.
        """
        self.budget.spend(work_of(program))
        return self._agreement(self._forward(cell, program), gradients=False).worst

    def _forward(self, cell: CellProgram, program: Program) -> Iterator[tuple[TensorKey, Array, Array]]:
        """Yield the key of each output and buffer update, the program's array, and the candidate's."""
        updates = program.updates
        results = execute(program, cell.arrays, wanted=[*program.outputs, *updates.values()])
        keys: list[TensorKey] = [*cell.output_keys, *(("update", name) for name in updates)]
        for key, array in zip(keys, results, strict=True):
            expected = self._expected_value(key)
            if expected is not None:
                yield key, array, expected

    def _expected_value(self, key: TensorKey) -> Array | None:
        if isinstance(key, Key):
            return self.candidate.values.get(key)
        name = key[1]
        return self.candidate.state.updates.get(name, self.candidate.state.buffers.get(name))

    def _has_gradients(self, cell: CellProgram) -> bool:
        """Whether the recorded gradients fit the candidate's outputs."""
        return all(
            cotangent is None or expected is None or cotangent.shape == expected.shape
            for cotangent, expected in zip(cell.cotangents, map(self._expected_value, cell.output_keys), strict=True)
        )

    def _backward(self, cell: CellProgram, program: Program) -> Iterator[tuple[TensorKey, Array, Array]]:
        """Yield the key of each gradient, the program's array, and the candidate's; zeros if none arrives."""
        gradient = differentiate(program)
        seeds = [
            np.zeros(value.type.sizes or (), value.dtype) if cotangent is None else cotangent.astype(value.dtype)
            for value, cotangent in zip(program.outputs, self._cotangents(cell), strict=True)
            if is_floating(value.dtype)
        ]
        pairs: list[tuple[TensorKey, Value | None, Array]] = []
        for boundary, value, array in zip(cell.input_keys, gradient.input_gradients, cell.arrays, strict=True):
            if boundary is not None and is_floating(array.dtype) and self._is_tracked(boundary):
                pairs.append((boundary, value, self._or_zeros(self.candidate.values.get(boundary), array)))
        for name, value in gradient.parameter_gradients.items():
            if name in cell.own_parameters and name in self.candidate.gradients.parameters:
                expected = self._or_zeros(self.candidate.gradients.parameters[name], program.parameters[name].data)
                pairs.append((("parameter", name), value, expected))
        values = [value for _, value, _ in pairs if value is not None]
        results = dict(zip(values, execute(gradient.program, [*cell.arrays, *seeds], wanted=values), strict=True))
        for key, value, expected in pairs:
            yield key, np.zeros_like(expected) if value is None else results[value], expected

    def _cotangents(self, cell: CellProgram) -> Iterator[Array | None]:
        """Yield the gradients of the outputs: what is fed, or what arrives in the candidate alone or end to end."""
        for key, cotangent in zip(cell.output_keys, cell.cotangents, strict=True):
            if self._expected_value(key) is None:
                yield None  # a Cell that the candidate doesn't call
            elif cotangent is None or self.end_to_end:
                yield self.candidate.values.get(gradient_key(key))
            else:
                yield cotangent

    def _is_tracked(self, key: Key) -> bool:
        """Whether the reference has a gradient there, and the candidate's is known."""
        value = value_key(key)
        return value not in self.truth.boundaries.untracked and (
            key in self.truth.values or key in self.candidate.values
        )

    @staticmethod
    def _or_zeros(gradient: Array | None, like: Array) -> Array:
        return np.zeros(like.shape) if gradient is None else gradient

    def _agreement(self, triples: Iterator[tuple[TensorKey, Array, Array]], *, gradients: bool) -> Agreement:
        worst, relative, count, failing = 0.0, 0.0, 0, set[TensorKey]()
        compared = [triple for triple in triples if triple[0] not in self.excused]
        group = max((size(expected) for _, _, expected in compared), default=0.0) if gradients else 0.0
        tolerance = Tolerance(self.dtype)
        for key, array, expected in compared:
            count += 1
            if array.shape != expected.shape:
                failing.add(key)
                worst = relative = np.inf
                continue
            fields = judge("meaning", array, expected, expected, self.noise(key), tolerance, group)
            off = error(array, expected)[0] if is_floating(expected.dtype) else 0.0
            largest = max(size(expected), group) if is_floating(expected.dtype) else 0.0
            relative = max(relative, off / largest if largest else off)
            worst = max(worst, float(fields.get("ratio", 0.0)))
            if fields["status"] != PASS:
                failing.add(key)
        return Agreement(worst, relative, count, frozenset(failing), gradients)
