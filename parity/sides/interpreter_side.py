"""The interpreter side: a program run by the interpreter, observed at its `boundary` nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ...converter.capture.other_numbers import other_numbers
from ...runtime import tree
from ...runtime.ir.dims import substitute, symbols_in
from ...runtime.ir.passes.split_shared import split_shared
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT32, FLOAT64, Node, Value, as_dtype, is_floating
from ...runtime.ops.registry import get
from ...runtime.programs.call import as_array
from ...runtime.programs.gradient_program import GradientProgram, differentiate
from ...runtime.programs.interpreter import bind, execute
from ..dtypes import cast_floating, in_single
from .boundary_keys import BoundaryKeys, match_root
from .feeding import feed_value_like
from .parameter_users import parameter_users_of
from .records import Array, Draw, Key, ParameterUsers, Records
from .remembered import evaluate_or_remember
from .replay import Replay
from .rounded_numbers import SAMPLES, perturb_program
from .run import Arguments, Run, random_cotangents
from .side import Capabilities, OwnCalls, OwnNumbers, ParameterInfo, native_checks

Arrange = Callable[[tuple[Any, ...], Mapping[str, Any]], list[Array]]
"""Returns the arguments of the reference as the inputs of a program, in its order."""


class InterpreterSide:
    """A program and the inputs that it is run on.

    The weights named in `rounded` may have been computed, and rounded to float32, differently, and those in `computed`
    were; see `rounded_numbers`.
    Without `second_call` it is called only once, because the other side keeps no state between calls. What each Cell
    contributes to the gradients of the parameters in `shared` is recorded, as it is for those that several Cells own.
    `arrange` is for a program whose inputs aren't arranged as the reference's arguments are.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        working_dtype: str = "float32",
        seed: int = 0,
        rounded: Collection[str] = (),
        computed: Collection[str] = (),
        second_call: bool = True,
        shared: Collection[str] = (),
        arrange: Arrange | None = None,
    ) -> None:
        self.name = name
        self.program = program
        self.shared = shared
        self.arrange = arrange
        self.working_dtype = as_dtype(working_dtype)
        numbers = OwnNumbers(perturbations=SAMPLES if rounded else 1)
        self.rounded = rounded
        self.computed = computed
        self.keeps_all = False
        if (
            self.working_dtype == FLOAT64
        ):  # only for a program in float32 are the dtypes of a run in another dtype known
            values = (*program.inputs, *(parameter.value for parameter in program.parameters.values()))
            dtypes = {value.dtype for value in values if is_floating(value.dtype)}
            numbers = replace(numbers, own_precision=dtypes <= {FLOAT32})
            self.keeps_all = len(dtypes) > 1  # computes in float64, parts of it in float32: a run in float32 is its own
        self.capabilities = Capabilities(
            native_checks(working_dtype), numbers=numbers, calls=OwnCalls(keeps_state=second_call)
        )
        self.seed = seed
        self.inputs = [as_array(leaf) for leaf in tree.match_call(program.arguments, args, kwargs)]
        self._programs: dict[tuple[str, int], Program] = {}
        self._gradients: dict[tuple[str, int], GradientProgram] = {}

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by qualified name."""
        return {name: ParameterInfo(p.data, p.trainable) for name, p in self.program.parameters.items()}

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return this side, which is a program already, on the inputs of a run."""
        if run is None or run.call.arguments is None:
            return self
        other = copy(self)
        other.inputs = self.arrays(run.call.arguments)
        return other

    def settings(self, path: str) -> dict[str, Any]:
        """The attributes of the module at a path: a program has none."""
        return {}

    def arrays(self, arguments: Arguments) -> list[Array]:
        """Return the program's inputs, from arguments of the reference."""
        if self.arrange is not None:
            return self.arrange(*arguments)
        return [as_array(leaf) for leaf in tree.match_call(self.program.arguments, *arguments)]

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        program = _with_steps(self._program(run.dtype, run.numbers.perturbed), run.numbers.parameter_steps)
        arrays = self.inputs if run.call.arguments is None else self.arrays(run.call.arguments)
        inputs = _as_declared(program, [self._in_dtype(x, run.dtype) for x in arrays])
        records = Records(calls=list(program.calls), users=ParameterUsers(parameter_users_of(program)))
        records.state.buffers = {name: b.data for name, b in program.buffers.items() if name not in program.updates}
        draws = recorded_draws(program, run)
        updates = program.updates
        if run.call.second is not None:
            program = _with_updated_buffers(program, inputs, draws)
            if run.call.second == "varied":
                others = [other_numbers(in_single(x, self.working_dtype)) for x in self.inputs]
                inputs = _as_declared(program, [self._in_dtype(x, run.dtype) for x in others])
        for arguments in run.call.before:
            earlier = _as_declared(program, [self._in_dtype(x, run.dtype) for x in self.arrays(arguments)])
            program = _with_updated_buffers(program, earlier, draws)
        result, match, names = match_root(program, inputs, run)
        records.record_result(result, match)
        cotangents = None if run.reference.cotangents is None else run.reference.root_cotangents(match.partners)
        lacking = run.reference.lacks_outputs(match.partners) or not _accepts_cotangents(
            program, inputs, cotangents or []
        )
        records.faults.broken = run.wanted.grads and cotangents is not None and lacking
        if not run.wanted.grads or records.faults.broken:
            observer = _BoundaryObserver(BoundaryKeys.of(program, run, names), records)
            wanted = [*program.outputs, *updates.values()]
            results = execute(
                program, inputs, wanted=wanted, draws=draws, observe=observer, evaluate=evaluate_or_remember
            )
            records.state.updates = dict(zip(updates, results[len(program.outputs) :], strict=True))
            return records
        backward = self._gradient(run.dtype, run.numbers.perturbed)
        observer = _BoundaryObserver(BoundaryKeys.of(program, run, names, backward.program), records)
        records.gradients.cotangents = (
            self._random_cotangents(program, inputs, draws) if cotangents is None else cotangents
        )
        seeds = [
            cotangent.astype(value.dtype) if cotangent is not None else np.zeros(_shape(value), value.dtype)
            for value, cotangent in zip(program.outputs, records.gradients.cotangents, strict=True)
            if is_floating(value.dtype)
        ]
        of_parameters = {n: v for n, v in backward.parameter_gradients.items() if v is not None}
        wanted = [*program.outputs, *updates.values(), *of_parameters.values()]
        wanted += [value for value in backward.input_gradients if value is not None]
        with_gradients = _with_data_of(program, backward.program)
        results = execute(
            with_gradients,
            [*inputs, *seeds],
            wanted=wanted,
            draws=draws,
            observe=observer,
            evaluate=evaluate_or_remember,
        )
        computed = dict(zip(wanted, results, strict=True))
        records.state.updates = {name: computed[value] for name, value in updates.items()}
        records.gradients.parameters = dict.fromkeys(backward.parameter_gradients)
        records.gradients.parameters |= {name: computed[value] for name, value in of_parameters.items()}
        return records

    def release(self) -> None:
        """Forget the programs in other dtypes, each of which has its own weights; a run makes them again."""
        self._programs.clear()
        self._gradients.clear()

    def _program(self, dtype: str, perturbed: int) -> Program:
        if (dtype, perturbed) not in self._programs:
            for way in {way for _, way in self._programs} - {
                0,
                perturbed,
            }:  # float64 weights that aren't needed again
                self._programs.pop((dtype, way), None)
                self._gradients.pop((dtype, way), None)
            # the float64 truth keeps its precision where the network casts to float32; so does this side
            same = as_dtype(dtype) == self.working_dtype and dtype != "float64"
            own = self.keeps_all or self.capabilities.numbers.own_precision
            same |= dtype == "float32" and self.working_dtype == FLOAT64 and own
            program = self.program
            if perturbed:
                program = perturb_program(program, self.rounded, perturbed, self.computed)
            self._programs[dtype, perturbed] = split_shared(program if same else program.astype(dtype), self.shared)
        return self._programs[dtype, perturbed]

    def _gradient(self, dtype: str, perturbed: int) -> GradientProgram:
        if (dtype, perturbed) not in self._gradients:
            self._gradients[dtype, perturbed] = differentiate(self._program(dtype, perturbed), every_boundary=True)
        return self._gradients[dtype, perturbed]

    def _in_dtype(self, array: Array, dtype: str) -> Array:
        if self.keeps_all and dtype != "float64":
            return array
        return cast_floating(cast_floating(array, self.working_dtype), as_dtype(dtype))

    def _random_cotangents(self, program: Program, inputs: list[Array], draws: dict[str, Array]) -> list[Array | None]:
        return random_cotangents(execute(program, inputs, draws=draws), self.working_dtype, self.seed)


def _with_updated_buffers(program: Program, inputs: list[Array], draws: dict[str, Array]) -> Program:
    """Return the program with its buffers as a call leaves them."""
    updates = program.updates
    new_values = dict(zip(updates, execute(program, inputs, wanted=list(updates.values()), draws=draws), strict=True))
    buffers = {name: replace(b, data=new_values.get(name, b.data)) for name, b in program.buffers.items()}
    return program.replace(buffers=buffers)


def _with_data_of(program: Program, other: Program) -> Program:
    """Return another program with the parameters and buffers of this one, which may have been changed."""
    same = all(p.data is program.parameters[name].data for name, p in other.parameters.items())
    if same and all(b.data is program.buffers[name].data for name, b in other.buffers.items()):
        return other  # whose plans are made already
    parameters = {name: replace(p, data=program.parameters[name].data) for name, p in other.parameters.items()}
    buffers = {name: replace(b, data=program.buffers[name].data) for name, b in other.buffers.items()}
    return other.replace(parameters=parameters, buffers=buffers)


def _with_steps(program: Program, steps: Mapping[str, Array]) -> Program:
    """Return the program with arrays added to its parameters."""
    if not steps:
        return program
    parameters = {n: replace(p, data=p.data + steps[n]) if n in steps else p for n, p in program.parameters.items()}
    return program.replace(parameters=parameters)


def _shape(value: Value) -> tuple[int, ...]:
    """The shape of an output without a cotangent."""
    return tuple(int(size) for size in value.shape)


class _BoundaryObserver:
    """Records the value at each boundary node, or replaces it."""

    def __init__(self, keys: BoundaryKeys, records: Records) -> None:
        self.keys = keys
        self.run = keys.run
        self.records = records
        self.producers = keys.program.producers
        self.source_lines: dict[Node, str] = keys.program.__dict__.setdefault("_source_lines", {})
        self.replay = Replay(keys.run)
        self._fed: dict[tuple[int, np.dtype[Any]], tuple[Array, Array]] = {}

    def __call__(self, node: Node, array: Array) -> Array:
        if self.is_passed_on(node):
            return array
        keys = self.keys.keys(node)
        key = keys[0]
        if key.kind == "parameter_gradient":
            self.records.gradients.add_share(key.slot, key.path, array)
        if key.kind in ("parameter", "parameter_gradient"):
            return array
        array = self.replay.value(key, array)
        if self.run.wanted.inner or not key.path:
            for one in keys:
                if self.run.wanted.passes is None or not self.run.wanted.passes(one, array):
                    self.records.add(one, array)
                self.records.boundaries.sources[one] = self._source_line(node)
            array = self._feed_or_keep(key, array)
        return self.replay.gradient(key, array)

    def _feed_or_keep(self, key: Key, array: Array) -> Array:
        """Return the value to feed; values at several boundaries that are one array are converted once."""
        value = feed_value_like(self.run.feed, key, array)
        if value is None:
            return array
        place = id(value), array.dtype
        if place not in self._fed:
            self._fed[place] = value, value.astype(array.dtype, copy=False)
        return self._fed[place][1]

    def is_passed_on(self, node: Node) -> bool:
        """Whether nothing is recorded or replaced at a boundary."""
        attributes, run = node.attributes, self.run
        if run.wanted.inner or run.reference.choices or attributes["kind"] == "parameter_gradient":
            return False
        return self.keys.program.calls[attributes["call"]].path != ""

    def _source_line(self, node: Node) -> str:
        """The source line of the op that computed the value at the boundary, looked up once for all runs."""
        line = self.source_lines.get(node)
        if line is None:
            line = self.source_lines[node] = self._look_up_source(node)
        return line

    def _look_up_source(self, node: Node) -> str:
        """The source line of the op that computed the value at the boundary."""
        value: Value | None = node.inputs[0]
        producer = self.producers.get(value) if value is not None else None
        while producer is not None and producer.op == "boundary":
            node, value = producer, producer.inputs[0]
            producer = self.producers.get(value) if value is not None else None
        source = (producer or node).source
        return str(source) if source is not None else ""


def _as_declared(program: Program, inputs: list[Array]) -> list[Array]:
    """Return floating-point inputs in the dtypes that the program declares, which may be several."""
    if len(inputs) != len(program.inputs):
        return inputs
    return [
        cast_floating(x, value.dtype) if is_floating(value.dtype) else x
        for x, value in zip(inputs, program.inputs, strict=True)
    ]


def _accepts_cotangents(program: Program, inputs: Sequence[Array], cotangents: Sequence[Array | None]) -> bool:
    """Whether the reference's cotangents fit these outputs, as far as their shapes are known before the run."""
    if len(cotangents) != len(program.outputs):
        return False
    sizes = bind(program, inputs)

    def like(value: Value, cotangent: Array | None) -> bool:
        if cotangent is None or not is_floating(value.dtype):
            return cotangent is None and not is_floating(value.dtype)
        if len(value.shape) != cotangent.ndim:
            return False
        pairs = zip(value.shape, cotangent.shape, strict=True)
        return all(substitute(dim, sizes) == size for dim, size in pairs if symbols_in(dim) <= sizes.keys())

    return all(map(like, program.outputs, cotangents))


def without_leading_ones(array: Array, rank: int) -> Array:
    """Return `array` without leading axes of size 1 in excess of this rank.

    Since torch 2.14, three-dimensional attention draws its dropout mask with a fourth, leading dimension.
    """
    excess = max(0, array.ndim - rank)
    return array.reshape(array.shape[excess:]) if array.shape[:excess] == (1,) * excess else array


def recorded_draws(program: Program, run: Run) -> dict[str, Array]:
    """Return the draws that were recorded in the Cells of the program's random nodes, in order, by value name."""
    counts: dict[tuple[str, int], int] = {}
    draws: dict[str, Array] = {}
    for node in program.nodes:
        if get(node.op).traits.draws:
            call, value = program.calls[node.cell], node.outputs[0]
            cell = (call.path, call.index)
            recorded = run.reference.draws.get(Draw(*cell, counts.get(cell, 0)))
            counts[cell] = counts.get(cell, 0) + 1
            if recorded is not None:
                recorded = without_leading_ones(recorded, len(value.shape))
                if len(recorded.shape) == len(value.shape):
                    draws[value.name] = recorded.astype(value.dtype)
    return draws
