"""The torch side: a module run eagerly with torch's autograd, watched at every module boundary."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...converter.capture.cell_hooks import input_slots, watch
from ...converter.capture.export_errors import eager_error
from ...converter.capture.modes import in_mode
from ...converter.dtypes import numpy_dtype, torch_dtype
from ...converter.seed import manual_seed
from ...converter.structure.depth import depth_of, raise_recursion_limit
from ...converter.structure.program_names import named_buffers, named_modules, named_parameters
from ...runtime.errors import CellbridgeError
from ...runtime.ir.program import Program
from ...runtime.ir.types import as_dtype, is_floating
from ...runtime.programs.call import as_array
from ..correspondence.same_inputs import Calls
from ..options import Options
from ..results.hunk import CodeLine
from ..support.tensors import dense
from ..weights.coverage import Ties
from .cotangents import cotangents_fit, loss_gradients
from .definitions import construction_of, definition_of
from .gradient_code import cells_with_gradient_code
from .interpreter_side import InterpreterSide
from .kept_state import KeptState
from .parameter_users import shared_parameters
from .precision import WorkingDtypeCaster, in_dtype
from .records import INPUT, Array, Records
from .rounded_numbers import SAMPLES
from .run import OUTPUTS, Arguments, Call, GivenInputs, Run, random_cotangents
from .side import Capabilities, OwnCalls, OwnNumbers, ParameterInfo, native_checks
from .torch_backward import backward
from .torch_contexts import TorchInputs, inputs_in, observing, other_arguments, other_numbers, recording, same_arguments
from .torch_modes import Draws, RecordableCalls
from .torch_program import capture_program
from .torch_recorder import Recorder

Mode = TypeVar("Mode", bound=TorchDispatchMode)


@dataclass
class _Known:
    """What runs have found out about a module, to be used again.

    Attributes:
        programs: its programs on the given inputs, by mode.
        takes_numbers: whether any Cell had a floating-point input in the last run.
    """

    programs: dict[bool | None, Program] = field(default_factory=dict)
    takes_numbers: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class TorchSide:
    """A torch module and the inputs that it is run on; a run leaves the module unchanged.

    Attributes:
        name: what it is called in reports.
        module: the module.
        args: positional inputs.
        kwargs: keyword inputs.
        train: its mode; None for the modes that its parts are in.
        loss: a scalar function of the result, from whose gradient the backward pass starts; None for random cotangents.
        working_dtype: the dtype whose rounding is judged.
        seed: seed of random draws and cotangents.
        cell_paths: paths of the modules that are Cells; the others belong to the Cells around them. None for all.
        ignored: parameters whose gradient, and buffers whose update, isn't recorded.
        rounded: buffers that another side may have computed itself.
        computed: parameters that were computed from those of another side, and rounded.
        lone: parameters that the other side doesn't have, which aren't recorded at all.
        shared: parameters of which the share of each Cell that holds them is recorded, as if several Cells held them.
        ties: parameters that count as one: the sum of their gradients is recorded.
        joined: inputs that count as one, since the other side takes their tensor once.
        catches: whether an exception of the module is recorded as a mismatch; otherwise it is a `UsageError`.
        rounds: whether parameters are rounded to the working dtype before a run in float64.
        program: the module as a program on these inputs in this mode, if it was captured already.
    """

    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    _: KW_ONLY
    train: bool | None = False
    loss: Callable[[Any], torch.Tensor] | None = None
    working_dtype: str = "float32"
    seed: int = 0
    cell_paths: Collection[str] | None = None
    ignored: Collection[str] = ()
    rounded: Collection[str] = ()
    computed: Collection[str] = ()
    lone: Collection[str] = ()
    shared: Collection[str] = ()
    ties: Ties = field(default_factory=Ties)
    joined: Calls = field(default_factory=dict)
    catches: bool = False
    rounds: bool = True
    program: Program | None = None
    _known: _Known = field(default_factory=_Known, init=False)

    def __post_init__(self) -> None:
        raise_recursion_limit(depth_of(self.module))
        if self.program is not None:
            self._known.programs[self.train] = self.program

    @classmethod
    def of_options(
        cls,
        name: str,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Options,
        **more: Any,
    ) -> Self:
        """Return the side of a module with the mode, loss, dtype and seed of options; `more` as for the class."""
        return cls(
            name,
            module,
            args,
            kwargs,
            train=options.train,
            loss=options.loss,
            working_dtype=options.dtype,
            seed=options.seed,
            **more,
        )

    @property
    def capabilities(self) -> Capabilities:
        """A module can do everything."""
        numbers = OwnNumbers(perturbations=SAMPLES if self.computed else 1)
        calls = OwnCalls(live=True, keeps_state=True)
        return Capabilities(native_checks(self.working_dtype), numbers=numbers, calls=calls)

    @property
    def dtype(self) -> torch.dtype:
        """The working dtype."""
        return torch_dtype(as_dtype(self.working_dtype))

    @property
    def arguments(self) -> Arguments:
        """The given inputs."""
        return self.args, dict(self.kwargs)

    @cached_property
    def shares(self) -> Mapping[torch.nn.Module, Mapping[str, str]]:
        """For modules that share parameters with others, the qualified names of these parameters by attribute."""
        return shared_parameters(self.module, self.cell_paths, self.shared)

    @property
    def shared_names(self) -> set[str]:
        """Names of the parameters of which the shares of Cells are recorded."""
        return {name for names in self.shares.values() for name in names.values()}

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by qualified name."""
        working, named = WorkingDtypeCaster(self.module, self.dtype), named_parameters(self.module)
        return {
            name: ParameterInfo(as_array(working(p)), p.requires_grad) for name, p in named if name not in self.lone
        }

    def given_inputs(self) -> GivenInputs:
        """The arguments, and their tensors with their names, by their places among all leaves."""
        leaves = pytree.tree_leaves(self.arguments)
        slots = input_slots(self.module, *self.arguments)
        return self.arguments, {place: (name, leaves[place]) for place, name in slots}

    def integers(self) -> set[int]:
        """Sizes of parameters and buffers, and integers among the attributes of modules, in any order."""
        sizes = {size for p in (*self.module.parameters(), *self.module.buffers()) for size in p.shape}
        return sizes | {n for inner in self.module.modules() for n in vars(inner).values() if type(n) is int}

    def watch_operators(self, mode: Mode, arguments: Arguments | None = None) -> Mode:
        """Run forward in float64 within a mode, on the given inputs or on others, and return the mode."""
        with mode:
            self.run(Run("float64", OUTPUTS, call=Call(arguments)))
        return mode

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the module as a program, on the inputs and in the mode of a run, by default the given ones.

        Raises:
            ConversionError: it can't be captured.
        """
        train = not self.train if run is not None and run.call.other_mode else self.train
        programs = self._known.programs
        if run is not None and run.call.arguments:
            args, kwargs = run.call.arguments
            program = capture_program(self.module, args, dict(kwargs), None, self.working_dtype, train)
        else:
            args, kwargs = self.arguments
            if train not in programs:
                programs[train] = capture_program(self.module, args, kwargs, None, self.working_dtype, train)
            program = programs[train]
        return InterpreterSide(self.name, program, args, kwargs, working_dtype=self.working_dtype, seed=self.seed)

    def settings(self, path: str) -> dict[str, Any]:
        """The numbers, flags, words and tuples of them among the public attributes of a module, and its class."""
        modules = {name: inner for name, _, inner in named_modules(self.module)}
        if path not in modules:
            return {}
        with in_mode(self.module, self.train):
            attributes = {name: value for name, value in vars(modules[path]).items() if not name.startswith("_")}
        plain = {name: value for name, value in attributes.items() if _is_plain(value)}
        return {"class": type(modules[path]).__name__, **plain}

    def definition(self, path: str) -> CodeLine | None:
        """The line at which `forward` of the module at a path begins; None if there is no such module."""
        modules = (inner for name, _, inner in named_modules(self.module) if name == path)
        module = next(modules, None)
        return None if module is None else definition_of(module.forward)

    def construction(self, path: str) -> CodeLine | None:
        """The statement that makes the module at a path; None if it isn't known."""
        return construction_of({name: inner for name, _, inner in named_modules(self.module)}, path)

    @contextlib.contextmanager
    def with_settings(self, path: str, values: Mapping[str, Any]) -> Iterator[None]:
        """Within the context, attributes of the module at a path, which it has itself, have other values."""
        attributes = vars({name: inner for name, _, inner in named_modules(self.module)}[path])
        before = {name: attributes[name] for name in values}
        attributes.update(values)
        programs, self._known.programs = self._known.programs, {}
        try:
            yield
        finally:
            attributes.update(before)
            self._known.programs = programs

    def cells_with_gradient_code(self) -> set[str]:
        """Paths of the Cells whose own code sets gradients, by a `torch.autograd.Function` or a hook."""
        inputs = self._inputs(self.arguments, torch.float64, grads=True)
        return cells_with_gradient_code(
            self.module, inputs.args, inputs.kwargs, self.dtype, train=self.train, cell_paths=self.cell_paths
        )

    # ---- a run: contexts, one inside the other, of which each prepares one thing ----

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        manual_seed(self.seed)
        with self._in_dtype(run) as kept:
            arguments = self._arguments_of(run)
            dtype = torch_dtype(as_dtype(run.dtype))
            inputs, earlier = self._inputs(arguments, dtype, grads=run.wanted.grads), self._earlier(run, dtype)
            with (
                recording(run, self.dtype, kept, self.shares, self.joined) as recorder,
                other_numbers(self.module, run, self.rounded, self.computed, at_boundaries=self._known.takes_numbers),
            ):
                recorder.records.boundaries.same |= same_arguments(self.module, arguments, self.joined)
                self._call_earlier(recorder, earlier)
                with observing(self.module, recorder) as draws:
                    buffers = {name: dense(buffer).clone() for name, buffer in named_buffers(self.module)}
                    with self._watching(recorder), draws:
                        result = self._call(inputs, recorder)
                    if run.wanted.grads:
                        self._backward(recorder, result, inputs)
                    self._record_buffers(recorder.records, buffers)
        records = recorder.records
        self.ties.merge(records.gradients.parameters, records.gradients.shares)
        records.draws = draws.recorded
        if run.wanted.inner and run.numbers.jitter is None:
            of_inputs = (array for key, array in records.values.items() if key.kind == INPUT)
            self._known.takes_numbers = any(is_floating(array.dtype) for array in of_inputs)
        return records

    def _in_dtype(self, run: Run) -> contextlib.AbstractContextManager[Any]:
        """The module in the dtype and the mode of a run."""
        dtype = torch_dtype(as_dtype(run.dtype))
        train = not self.train if run.call.other_mode else self.train
        return in_dtype(self.module, dtype, through=self.dtype if self.rounds else dtype, train=train)

    def _arguments_of(self, run: Run) -> Arguments:
        """The arguments of the call that is recorded."""
        if run.call.arguments:
            return run.call.arguments
        return other_arguments(self.arguments, self.dtype) if run.call.second == "varied" else self.arguments

    def _earlier(self, run: Run, dtype: torch.dtype) -> list[TorchInputs]:
        """The inputs of the calls before."""
        arguments = [self.arguments] if run.call.second is not None else run.call.before
        return [self._inputs(call, dtype, grads=False) for call in arguments]

    def _inputs(self, arguments: Arguments, dtype: torch.dtype, *, grads: bool) -> TorchInputs:
        return inputs_in(self.module, arguments, dtype, self.dtype, grads=grads)

    def _call_earlier(self, recorder: Recorder, earlier: Sequence[TorchInputs]) -> None:
        """Call the module on its own values, to set its state, with the draws of the call that is recorded."""
        run = recorder.run
        watched = [] if run.call.forget is None else named_modules(self.module)
        state = KeptState((path, inner) for path, _, inner in watched)
        for inputs in earlier:
            before = Recorder(replace(run, feed=None), self.shares, self.joined, recorder.double)
            with (
                RecordableCalls(),
                self._watching(before),
                Draws(run.reference.draws, before.cell),
            ):
                self._call(inputs, before)
            recorder.records.earlier = before.records if run.call.second is not None else None
        recorder.records.state.kept = state.changed()
        state.restore(run.call.forget or ())

    def _watching(self, recorder: Recorder) -> contextlib.AbstractContextManager[None]:
        """The Cells whose boundaries matter in a run are watched; the others run as they are."""
        run = recorder.run
        replayed = run.reference.choices or run.reference.draws
        inside = run.wanted.inner or run.feed is not None or run.numbers.jitter is not None or replayed or self.catches
        paths = self.cell_paths if inside else {""}
        return watch(self.module, recorder, paths, catch=self.catches and run.feed is not None)

    def _call(self, inputs: TorchInputs, recorder: Recorder) -> Any:
        """Call the module; return None if it raises and that is recorded."""
        try:
            return self.module(*inputs.args, **inputs.kwargs)
        except CellbridgeError:
            raise
        except Exception as error:
            # raised by the model's code, or by torch because of a dtype
            if self.catches:
                recorder.note_exception(error)
                return None
            raise eager_error(error, self.module, inputs.args, inputs.kwargs) from error

    def _backward(self, recorder: Recorder, result: Any, inputs: TorchInputs) -> None:
        """Run backward from the cotangents, unless they don't fit the result."""
        records = recorder.records
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        cotangents = self._cotangents(recorder, result, outputs)
        records.gradients.cotangents = cotangents
        lacking = recorder.run.reference.lacks_outputs(recorder.partners)
        records.faults.broken = lacking or not cotangents_fit(outputs, cotangents)
        if records.faults.broken:
            return
        for name, gradient in backward(self.module, recorder, outputs, inputs.leaves, catches=self.catches).items():
            if name not in self.ignored and name not in self.lone:
                records.gradients.parameters[name] = gradient

    def _cotangents(self, recorder: Recorder, result: Any, outputs: list[torch.Tensor]) -> list[Array | None]:
        """Return a cotangent per output: given, from the loss, or random; None for outputs without a gradient."""
        reference = recorder.run.reference
        if reference.cotangents is not None:
            return reference.root_cotangents(recorder.partners)
        if self.loss is not None:
            return loss_gradients(self.loss, result, outputs)
        return random_cotangents([as_array(out) for out in outputs], numpy_dtype(self.dtype), self.seed)

    def _record_buffers(self, records: Records, before: Mapping[str, torch.Tensor]) -> None:
        for name, buffer in named_buffers(self.module):
            if name not in self.ignored:
                changed = not torch.equal(before[name], dense(buffer))
                (records.state.updates if changed else records.state.buffers)[name] = as_array(buffer).copy()


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
