"""The interpreter side: a program run by the interpreter, observed at its `boundary` nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.other_numbers import other_numbers
from ...converter.dtypes import as_tensor
from ...runtime import tree
from ...runtime.errors import ConversionError
from ...runtime.ir.dims import substitute, symbols_in
from ...runtime.ir.passes.split_shared import split_shared
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT32, FLOAT64, Value, as_dtype, is_floating
from ...runtime.programs.call import as_array
from ...runtime.programs.interpreter import bind, execute
from ..dtypes import cast_floating, in_single
from .boundary_observer import BoundaryKeys, BoundaryObserver, match_root
from .parameter_users import parameter_users_of
from .program_draws import recorded_draws
from .records import Array, ParameterUsers, Records
from .remembered import ProgramForms, evaluate_or_remember
from .rounded_numbers import SAMPLES, perturb_program
from .run import Arguments, GivenInputs, Run, random_cotangents
from .side import Capabilities, OwnCalls, OwnNumbers, ParameterInfo, native_checks

Arrange = Callable[[tuple[Any, ...], Mapping[str, Any]], list[Array]]
"""Returns the arguments of the reference as the inputs of a program, in its order."""


@dataclass(frozen=True, eq=False, repr=False)
class InterpreterSide:
    """A program and the inputs that it is run on.

    Attributes:
        name: what it is called in reports.
        program: the program.
        args: positional inputs.
        kwargs: keyword inputs.
        working_dtype: the dtype whose rounding is judged.
        seed: seed of random cotangents.
        rounded: weights that may have been computed, and rounded to float32, differently; see `rounded_numbers`.
        computed: weights that were.
        second_call: whether it is called again; not if the other side keeps no state between calls.
        shared: parameters of which the share of each Cell is recorded, as it is for those that several Cells own.
        arrange: for a program whose inputs aren't arranged as the reference's arguments are.
    """

    name: str
    program: Program
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    _: KW_ONLY
    working_dtype: str = "float32"
    seed: int = 0
    rounded: Collection[str] = ()
    computed: Collection[str] = ()
    second_call: bool = True
    shared: Collection[str] = ()
    arrange: Arrange | None = None

    def __post_init__(self) -> None:
        tree.match_call(self.program.arguments, self.args, self.kwargs)  # raises `UsageError` before anything is run

    @property
    def capabilities(self) -> Capabilities:
        """Those of a program; only of one in float32 are the dtypes of a run in another dtype known."""
        own_precision = self.dtype != FLOAT64 or self._dtypes <= {FLOAT32}
        numbers = OwnNumbers(own_precision=own_precision, perturbations=SAMPLES if self.rounded else 1)
        calls = OwnCalls(keeps_state=self.second_call)
        return Capabilities(native_checks(self.working_dtype), numbers=numbers, calls=calls)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The working dtype."""
        return as_dtype(self.working_dtype)

    @cached_property
    def _dtypes(self) -> set[np.dtype[Any]]:
        """The floating-point dtypes of inputs and parameters."""
        values = (*self.program.inputs, *(parameter.value for parameter in self.program.parameters.values()))
        return {value.dtype for value in values if is_floating(value.dtype)}

    @property
    def keeps_all(self) -> bool:
        """Whether it computes in float64, and parts of it in float32: then a run in float32 is its own."""
        return self.dtype == FLOAT64 and len(self._dtypes) > 1

    @cached_property
    def inputs(self) -> list[Array]:
        """The program's inputs."""
        return [as_array(leaf) for leaf in tree.match_call(self.program.arguments, self.args, self.kwargs)]

    @cached_property
    def _forms(self) -> ProgramForms:
        return ProgramForms(self._form)

    def _form(self, dtype: str, perturbed: int) -> Program:
        # the float64 truth keeps its precision where the network casts to float32; so does this side
        same = as_dtype(dtype) == self.dtype and dtype != "float64"
        own_precision = self.keeps_all or self.capabilities.numbers.own_precision
        same |= dtype == "float32" and self.dtype == FLOAT64 and own_precision
        program = self.program
        if perturbed:
            program = perturb_program(program, self.rounded, perturbed, self.computed)
        return split_shared(program if same else program.astype(dtype), self.shared)

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by qualified name."""
        return {name: ParameterInfo(p.data, p.trainable) for name, p in self.program.parameters.items()}

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return this side, which is a program already, on the inputs of a run."""
        if run is None or run.call.arguments is None:
            return self
        args, kwargs = tree.unflatten(self.program.arguments, self.arrays(run.call.arguments))
        return replace(self, args=args, kwargs=kwargs)

    def own_program(self) -> Program:
        """The program."""
        return self.program

    def given_inputs(self) -> GivenInputs | None:
        """The arguments, and their tensors with the names of the program's inputs, by their places among all leaves.

        None if torch has no tensors of their dtypes.
        """
        try:
            tensors = [as_tensor(array) for array in self.inputs]
        except ConversionError:
            return None
        arguments = tree.unflatten(self.program.arguments, list(tensors))
        places = [n for n, leaf in enumerate(pytree.tree_leaves(arguments)) if isinstance(leaf, torch.Tensor)]
        names = [value.name for value in self.program.inputs]
        return arguments, dict(zip(places, zip(names, tensors, strict=True), strict=True))

    def arrays(self, arguments: Arguments) -> list[Array]:
        """Return the program's inputs, from arguments of the reference."""
        if self.arrange is not None:
            return self.arrange(*arguments)
        return [as_array(leaf) for leaf in tree.match_call(self.program.arguments, *arguments)]

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        program = _with_steps(self._forms.program(run.dtype, run.numbers.perturbed), run.numbers.parameter_steps)
        arrays = self.inputs if run.call.arguments is None else self.arrays(run.call.arguments)
        inputs = _as_declared(program, [self._in_dtype(x, run.dtype) for x in arrays])
        records = Records(calls=list(program.calls), users=ParameterUsers(parameter_users_of(program)))
        records.state.buffers = {name: b.data for name, b in program.buffers.items() if name not in program.updates}
        draws = recorded_draws(program, run)
        updates = program.updates
        if run.call.second is not None:
            program = _with_updated_buffers(program, inputs, draws)
            if run.call.second == "varied":
                others = [other_numbers(in_single(x, self.dtype)) for x in self.inputs]
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
            observer = BoundaryObserver(BoundaryKeys.of(program, run, names), records)
            values = [*program.outputs, *updates.values()]
            results = execute(
                program, inputs, wanted=values, draws=draws, observe=observer, evaluate=evaluate_or_remember
            )
            records.state.updates = dict(zip(updates, results[len(program.outputs) :], strict=True))
            return records
        backward = self._forms.gradient(run.dtype, run.numbers.perturbed)
        observer = BoundaryObserver(BoundaryKeys.of(program, run, names, backward.program), records)
        records.gradients.cotangents = (
            self._random_cotangents(program, inputs, draws) if cotangents is None else cotangents
        )
        seeds = [
            cotangent.astype(value.dtype) if cotangent is not None else np.zeros(_shape(value), value.dtype)
            for value, cotangent in zip(program.outputs, records.gradients.cotangents, strict=True)
            if is_floating(value.dtype)
        ]
        of_parameters = {n: v for n, v in backward.parameter_gradients.items() if v is not None}
        values = [*program.outputs, *updates.values(), *of_parameters.values()]
        values += [value for value in backward.input_gradients if value is not None]
        with_gradients = _with_data_of(program, backward.program)
        results = execute(
            with_gradients,
            [*inputs, *seeds],
            wanted=values,
            draws=draws,
            observe=observer,
            evaluate=evaluate_or_remember,
        )
        computed = dict(zip(values, results, strict=True))
        records.state.updates = {name: computed[value] for name, value in updates.items()}
        records.gradients.parameters = dict.fromkeys(backward.parameter_gradients)
        records.gradients.parameters |= {name: computed[value] for name, value in of_parameters.items()}
        return records

    def release(self) -> None:
        """Forget the programs in other dtypes, each of which has its own weights; a run makes them again."""
        self._forms.clear()

    def _in_dtype(self, array: Array, dtype: str) -> Array:
        if self.keeps_all and dtype != "float64":
            return array
        return cast_floating(cast_floating(array, self.dtype), as_dtype(dtype))

    def _random_cotangents(self, program: Program, inputs: list[Array], draws: dict[str, Array]) -> list[Array | None]:
        return random_cotangents(execute(program, inputs, draws=draws), self.dtype, self.seed)


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
