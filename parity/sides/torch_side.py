"""The torch side: a module run eagerly with torch's autograd, watched at every module boundary."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.cell_hooks import input_slots, watch
from ...converter.capture.checkpoints import keep_activations
from ...converter.capture.export_errors import eager_error
from ...converter.capture.modes import in_mode
from ...converter.capture.other_numbers import with_other_numbers
from ...converter.dtypes import as_tensor, is_inexact, numpy_dtype
from ...converter.seed import manual_seed
from ...converter.structure.depth import depth_of, raise_recursion_limit
from ...converter.structure.program_names import named_buffers, named_modules, named_parameters
from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.ir.program import Program
from ...runtime.ir.types import is_floating
from ...runtime.programs.call import as_array
from ..options import Options
from ..pairing.same_inputs import Calls, same_tensors
from ..support.tensors import dense
from ..weights.coverage import Ties
from .gradient_code import cells_with_gradient_code
from .interpreter_side import InterpreterSide
from .kept_state import KeptState
from .operator_faults import RightGradients
from .parameter_uses import ParameterUses
from .precision import DoublePrecision, WorkingDtypeCaster, convert, in_dtype, keeps_all
from .records import INPUT, Array, Records
from .rounded_numbers import perturb_attributes
from .run import Arguments, Run, random_cotangents
from .side import Capabilities, OwnCalls, ParameterInfo, native_checks
from .torch_exceptions import catch_exceptions
from .torch_modes import Draws, JitteredOperators, RecordableCalls
from .torch_program import capture_program
from .torch_recorder import Recorder


class TorchSide:
    """A torch module and the inputs that it is run on; a run leaves the module unchanged.

    With `cell_paths`, only the modules at these paths are Cells; the others belong to the Cells around them. `ignored`
    are parameters whose gradient, and buffers whose update, isn't recorded; `lone` are parameters that the other side
    doesn't have, which aren't recorded at all; `rounded` are buffers that another side may have computed itself.
    `shared` are parameters of which the share of each Cell that holds them is recorded, as if several Cells held them;
    the gradients of those that count as one, `ties`, are recorded as their sum.
    With `catches`, an exception of the module is recorded as a mismatch; otherwise it is a `UsageError`. Without
    `rounds`, parameters aren't rounded to the working dtype before a run in float64.
    """

    def __init__(
        self,
        name: str,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        train: bool | None = False,
        loss: Callable[[Any], torch.Tensor] | None = None,
        working_dtype: str = "float32",
        seed: int = 0,
        cell_paths: Collection[str] | None = None,
        ignored: Collection[str] = (),
        rounded: Collection[str] = (),
        lone: Collection[str] = (),
        shared: Collection[str] = (),
        ties: Ties | None = None,
        catches: bool = False,
        rounds: bool = True,
    ) -> None:
        raise_recursion_limit(depth_of(module))
        self.name = name
        self.module = module
        self.cell_paths = cell_paths
        self.ignored = ignored
        self.rounded = rounded
        self.lone = lone
        self.catches = catches
        self.rounds = rounds
        self.args = args
        self.kwargs = dict(kwargs)
        self.train = train
        self.loss = loss
        self.working_dtype: torch.dtype = getattr(torch, working_dtype)
        self.capabilities = Capabilities(native_checks(working_dtype), calls=OwnCalls(live=True, keeps_state=True))
        self.seed = seed
        self.shared = _shared_parameters(module, cell_paths, shared)
        self.ties = ties or Ties()
        self.joined: Calls = {}  # inputs that count as one, since the other side takes their tensor once
        self._programs: dict[bool | None, Program] = {}  # on the given inputs, by mode
        self._takes_numbers = True  # whether any Cell had a floating-point input in the last run

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
    def shared_names(self) -> set[str]:
        """Names of the parameters of which the shares of Cells are recorded."""
        return {name for names in self.shared.values() for name in names.values()}

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by qualified name."""
        working, named = WorkingDtypeCaster(self.module, self.working_dtype), named_parameters(self.module)
        return {
            name: ParameterInfo(as_array(working(p)), p.requires_grad) for name, p in named if name not in self.lone
        }

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the module as a program, on the inputs and in the mode of a run, by default the given ones.

        Raises:
            ConversionError: it can't be captured.
        """
        working = str(self.working_dtype).removeprefix("torch.")
        train = not self.train if run is not None and run.call.other_mode else self.train
        if run is not None and run.call.arguments:
            args, kwargs = run.call.arguments
            program = capture_program(self.module, args, dict(kwargs), None, working, train)
        else:
            args, kwargs = self.args, self.kwargs
            if train not in self._programs:
                self._programs[train] = capture_program(self.module, args, dict(kwargs), None, working, train)
            program = self._programs[train]
        return InterpreterSide(self.name, program, args, kwargs, working_dtype=working, seed=self.seed)

    def use_program(self, program: Program) -> None:
        """Take a program that was captured on the given inputs in the side's own mode instead of capturing another."""
        self._programs[self.train] = program

    def settings(self, path: str) -> dict[str, Any]:
        """The numbers, flags, words and tuples of them among the public attributes of a module, and its class."""
        modules = {name: inner for name, _, inner in named_modules(self.module)}
        if path not in modules:
            return {}
        with in_mode(self.module, self.train):
            found = {name: value for name, value in vars(modules[path]).items() if not name.startswith("_")}
        plain = {name: value for name, value in found.items() if _is_plain(value)}
        return {"class": type(modules[path]).__name__, **plain}

    @contextlib.contextmanager
    def with_settings(self, path: str, values: Mapping[str, Any]) -> Iterator[None]:
        """Within the context, attributes of the module at a path, which it has itself, have other values."""
        own = vars({name: inner for name, _, inner in named_modules(self.module)}[path])
        before = {name: own[name] for name in values}
        own.update(values)
        programs, self._programs = self._programs, {}
        try:
            yield
        finally:
            own.update(before)
            self._programs = programs

    def cells_with_gradient_code(self) -> set[str]:
        """Paths of the Cells whose own code sets gradients, by a `torch.autograd.Function` or a hook."""
        args, kwargs, _ = self._inputs((self.args, self.kwargs), torch.float64, grads=True)
        paths = self.cell_paths
        return cells_with_gradient_code(
            self.module, args, kwargs, self.working_dtype, train=self.train, cell_paths=paths
        )

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        dtype: torch.dtype = getattr(torch, run.dtype)
        manual_seed(self.seed)
        with contextlib.ExitStack() as stack:
            train = not self.train if run.call.other_mode else self.train
            kept = stack.enter_context(
                in_dtype(self.module, dtype, through=self.working_dtype if self.rounds else dtype, train=train)
            )
            own = (self.args, self.kwargs)
            given = run.call.arguments or (self._other_numbers(own) if run.call.second == "varied" else own)
            args, kwargs, leaves = self._inputs(given, dtype, grads=run.wanted.grads)
            before = [own] if run.call.second is not None else run.call.before
            before_inputs = [self._inputs(arguments, dtype, grads=False)[:2] for arguments in before]
            double = None
            if dtype == torch.float64:
                double = DoublePrecision(self.working_dtype, kept, perturbed=bool(run.numbers.perturbed))
                stack.enter_context(double)
            recorder = Recorder(run, self.shared, self.joined, double)
            recorder.records.boundaries.same |= self._same_arguments(given)
            # each of them refers through torch's graph to the recorder, in a cycle that Python's garbage collector
            # can't see
            stack.callback(recorder.taps.clear)
            stack.callback(recorder.leaves.clear)
            if run.numbers.perturbed:
                perturb_attributes(self.module, self.rounded)
            for name, parameter in named_parameters(self.module):
                if name in run.numbers.parameter_steps:
                    parameter.data = parameter.data + torch.from_numpy(np.asarray(run.numbers.parameter_steps[name]))
            if run.numbers.jitter is not None and not self._takes_numbers:
                stack.enter_context(JitteredOperators(run.numbers.jitter.seed, run.numbers.jitter.units))
            watched = [] if run.call.forget is None else named_modules(self.module)
            state = KeptState((path, inner) for path, _, inner in watched)
            for args_before, kwargs_before in before_inputs:
                earlier = self._call_before(run, args_before, kwargs_before, double)
                recorder.records.earlier = earlier if run.call.second is not None else None
            recorder.records.state.kept = state.changed()
            state.restore(run.call.forget or ())
            if self.catches and run.feed is not None:
                stack.enter_context(catch_exceptions(self.module, recorder, self.cell_paths))
            draws = Draws(run.reference.draws, recorder.cell)
            if not run.wanted.grads and run.wanted.inner:
                uses = ParameterUses({p: name for name, p in named_parameters(self.module)}, lambda: recorder.cell()[0])
                stack.enter_context(uses)
                recorder.records.users.elsewhere = uses.elsewhere
            buffers_before = {name: dense(b).clone() for name, b in named_buffers(self.module)}
            stack.enter_context(keep_activations())
            stack.enter_context(torch.enable_grad())
            stack.enter_context(RecordableCalls())
            with watch(self.module, recorder, self._watched(run)), draws:
                result = self._call(args, kwargs, recorder)
            outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            records = recorder.records
            if run.wanted.grads:
                records.gradients.cotangents = self._cotangents(run, result, outputs, recorder.partners)
                records.faults.broken = run.reference.lacks_outputs(recorder.partners) or not _fit(
                    outputs, records.gradients.cotangents
                )
                if not records.faults.broken:
                    self._backward(recorder, outputs, leaves)
            for name, buffer in named_buffers(self.module):
                if name in self.ignored:
                    continue
                changed = not torch.equal(buffers_before[name], dense(buffer))
                (records.state.updates if changed else records.state.buffers)[name] = as_array(buffer).copy()
        self.ties.merge(records.gradients.parameters, records.gradients.shares)
        records.draws = draws.recorded
        if run.wanted.inner and run.numbers.jitter is None:
            self._takes_numbers = any(k.kind == INPUT and is_floating(v.dtype) for k, v in records.values.items())
        return records

    def inputs_after_call(self) -> tuple[dict[int, Array], dict[int, Array]]:
        """Return the tensors of the given arguments before and after a call in float64, by place among all leaves.

        Raises:
            UsageError: the module doesn't run on them.
        """
        manual_seed(self.seed)
        args, kwargs, _ = self._inputs((self.args, self.kwargs), torch.float64, grads=False)
        with (
            in_dtype(self.module, torch.float64, through=self.working_dtype, train=self.train) as kept,
            DoublePrecision(self.working_dtype, kept),
            torch.no_grad(),
        ):
            leaves = dict(enumerate(pytree.tree_leaves((args, kwargs))))
            tensors = {place: leaf for place, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
            before = {place: as_array(tensor).copy() for place, tensor in tensors.items()}
            try:
                self.module(*args, **kwargs)
            except CellbridgeError:
                raise
            except Exception as error:  # raised by the model's code
                raise eager_error(error, self.module, args, kwargs) from error
            return before, {place: as_array(tensor).copy() for place, tensor in tensors.items()}

    def _call_before(self, run: Run, args: Any, kwargs: Any, double: DoublePrecision | None) -> Records:
        """Call the module once on its own values, to set its state, with the draws of the call that is recorded."""
        recorder = Recorder(replace(run, feed=None), self.shared, self.joined, double)
        draws = Draws(run.reference.draws, recorder.cell)
        with RecordableCalls(), watch(self.module, recorder, self._watched(run)), draws:
            self._call(args, kwargs, recorder)
        return recorder.records

    def _watched(self, run: Run) -> Collection[str] | None:
        """Paths of the Cells whose boundaries matter in a run; None for all. The others then run as they are."""
        inside = (
            run.wanted.inner
            or run.feed is not None
            or run.numbers.jitter is not None
            or run.reference.choices
            or run.reference.draws
            or self.catches
        )
        return self.cell_paths if inside else {""}

    def _call(self, args: Any, kwargs: Any, recorder: Recorder) -> Any:
        """Call the module; return None if it raises and that is recorded."""
        try:
            return self.module(*args, **kwargs)
        except CellbridgeError:
            raise
        except Exception as error:
            # raised by the model's code, or by torch because of a dtype
            if self.catches:
                recorder.note_exception(error)
                return None
            raise eager_error(error, self.module, args, kwargs) from error

    def _autograd(
        self, recorder: Recorder, roots: list[tuple[torch.Tensor, torch.Tensor]], targets: list[torch.Tensor]
    ) -> Any:
        """Return the gradients of targets; None for each if the backward pass raises and that is recorded."""
        try:
            return torch.autograd.grad([out for out, _ in roots], targets, [g for _, g in roots], allow_unused=True)
        except CellbridgeError:
            raise
        except Exception as error:  # a custom backward may raise anything
            if self.catches:
                recorder.note_backward_exception(error)
                return (None,) * len(targets)
            raise UsageError(
                f"the model's backward pass fails: {type(error).__name__}: {error}\n"
                "  compare the outputs alone: --no-grad, or grads=False"
            ) from error

    def _inputs(self, arguments: Arguments, dtype: torch.dtype, *, grads: bool) -> tuple[Any, Any, list[torch.Tensor]]:
        """Return arguments with new tensors in `dtype`, and the leaf tensors."""
        leaves: list[torch.Tensor] = []

        def fresh(tensor: torch.Tensor) -> torch.Tensor:
            copy = tensor.detach().clone()
            if is_inexact(copy):
                # rounded to the working dtype first, so that every precision starts from the same numbers
                as_given = dtype != torch.float64 and keeps_all(self.module, self.working_dtype)
                copy = copy if as_given else convert(convert(copy, self.working_dtype), dtype)
                copy.requires_grad_(grads)
                leaves.append(copy)
                if grads:
                    return copy.clone()  # torch forbids changing a leaf in place, which a first layer may do
            return copy

        args, kwargs = pytree.tree_map_only(torch.Tensor, fresh, arguments)
        return args, kwargs, leaves

    def _same_arguments(self, arguments: Arguments) -> dict[tuple[str, int], dict[int, int]]:
        """Return the arguments that are one tensor, of which a run has several copies."""
        leaves = pytree.tree_leaves(arguments)
        same = same_tensors([leaves[place] for place, _ in input_slots(self.module, *arguments)])
        return {("", 0): same} if same and ("", 0) not in self.joined else {}

    def _other_numbers(self, arguments: Arguments) -> Arguments:
        """Return arguments with other numbers; those of float64 are rounded to float32 first, as on other sides."""

        def rounded(tensor: torch.Tensor) -> torch.Tensor:
            is_double = tensor.dtype in (torch.float64, torch.complex128)
            return convert(tensor, torch.float32) if is_double and self.working_dtype != torch.float64 else tensor

        args, kwargs = with_other_numbers(pytree.tree_map_only(torch.Tensor, rounded, arguments))
        return args, kwargs

    def _cotangents(
        self, run: Run, result: Any, outputs: list[torch.Tensor], partners: Sequence[int | None]
    ) -> list[Array | None]:
        """Return a cotangent per output: given, from the loss, or random; None for outputs without a gradient."""
        if run.reference.cotangents is not None:
            return run.reference.root_cotangents(partners)
        if self.loss is not None:
            return loss_gradients(self.loss, result, outputs)
        return random_cotangents([as_array(out) for out in outputs], numpy_dtype(self.working_dtype), self.seed)

    def _backward(self, recorder: Recorder, outputs: list[torch.Tensor], leaves: list[torch.Tensor]) -> None:
        roots = [
            (out, tensor_like(cotangent, out))
            for out, cotangent in zip(outputs, recorder.records.gradients.cotangents, strict=True)
            if cotangent is not None and out.requires_grad
        ]
        # what crosses a boundary takes part too: it is fed a gradient even if nothing uses it
        roots += [(tap, torch.zeros_like(tap)) for tap in recorder.taps]
        parameters = {name: p for name, p in named_parameters(self.module) if p.requires_grad}
        targets = [*parameters.values(), *leaves]
        gradients: tuple[torch.Tensor | None, ...] = (None,) * len(targets)
        if roots and targets:
            with RightGradients(self.module) as right:
                gradients = self._autograd(recorder, roots, [*targets, *recorder.leaves])
            recorder.records.faults.operators = list(right.faults.values())
        for name, gradient in zip(parameters, gradients, strict=False):
            if name in self.ignored or name in self.lone:
                continue
            recorder.records.gradients.parameters[name] = None if gradient is None else as_array(gradient)


def require_gradient(loss: Any) -> None:
    """Raise `UsageError` unless a loss has a gradient."""
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        raise UsageError(
            "loss(outputs) returned no tensor with a gradient: it must be a differentiable function of the outputs"
        )


def loss_gradients(loss: Callable[[Any], torch.Tensor], result: Any, outputs: list[torch.Tensor]) -> list[Array | None]:
    """Return the gradient of a loss of the result for each of its tensors; None for those without numbers.

    Raises:
        UsageError: the loss isn't a scalar, or has no gradient.
    """
    value = loss(result)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        description = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        raise UsageError(f"loss(outputs) must return a scalar tensor, it returned {description}")
    require_gradient(value)
    differentiable = [out for out in outputs if out.requires_grad]
    gradients: tuple[torch.Tensor | None, ...] = ()
    if differentiable:
        gradients = torch.autograd.grad(value.sum(), differentiable, retain_graph=True, allow_unused=True)
    gradient_of = dict(zip(map(id, differentiable), gradients, strict=True))
    return [
        None
        if not is_inexact(out)
        else as_array(torch.zeros_like(out)).astype(np.float64)
        if gradient_of.get(id(out)) is None
        else as_array(gradient_of[id(out)]).astype(np.float64)
        for out in outputs
    ]


def _fit(outputs: Sequence[torch.Tensor], cotangents: Sequence[Array | None]) -> bool:
    """Whether the cotangents fit these outputs in number and shape."""
    shapes = [(*out.shape, 2) if out.is_complex() else tuple(out.shape) for out in outputs]
    return len(cotangents) == len(shapes) and all(
        cotangent is None or cotangent.shape == shape for cotangent, shape in zip(cotangents, shapes, strict=True)
    )


def tensor_like(array: Array, like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the dtype of `like`; pairs of reals as complex numbers if that is complex."""
    tensor = as_tensor(array)
    return (torch.view_as_complex(tensor) if like.is_complex() else tensor).to(like.dtype)


def _shared_parameters(
    module: torch.nn.Module, cell_paths: Collection[str] | None, also: Collection[str]
) -> dict[torch.nn.Module, dict[str, str]]:
    """For modules that share parameters with others, the qualified names of these parameters by attribute.

    `also` are parameters that count as shared although a single module holds them.
    """
    names = {p: name for name, p in named_parameters(module)}
    holders: dict[torch.nn.Parameter, list[tuple[torch.nn.Module, str]]] = {}
    for path, _, owner in named_modules(module):
        if cell_paths is not None and path not in cell_paths:
            continue
        for attribute, parameter in owner._parameters.items():
            if parameter is not None and not isinstance(
                owner, torch.nn.RNNBase
            ):  # RNNs keep their own list of parameters
                holders.setdefault(parameter, []).append((owner, attribute))
    shared: dict[torch.nn.Module, dict[str, str]] = {}
    for parameter, places in holders.items():
        if (len(places) > 1 or names[parameter] in also) and parameter.requires_grad:
            for owner, attribute in places:
                shared.setdefault(owner, {})[attribute] = names[parameter]
    return shared


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
