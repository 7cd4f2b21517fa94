"""The torch side: a module run as torch runs it, eager, with its own autograd, watched at every module boundary."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.cell_hooks import watch
from ...converter.capture.checkpoints import keep_activations
from ...converter.capture.export_errors import eager_error
from ...converter.capture.other_numbers import with_other_numbers
from ...converter.dtypes import numpy_dtype
from ...converter.structure.depth import depth_of, raise_recursion_limit
from ...converter.structure.program_names import named_buffers, named_modules, named_parameters
from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.ir.types import is_floating
from ...runtime.programs.call import as_array
from .control_flow import ControlFlowInPython
from .precision import (
    DoublePrecision,
    Working,
    converted,
    default_dtype,
    in_dtype,
    is_inexact,
)
from .records import (
    INPUT,
    Array,
    ParameterInfo,
    Records,
    Run,
    native_capabilities,
    random_cotangents,
)
from .rounded_numbers import perturb_attributes
from .torch_modes import Draws, JitteredOperators, KeptGradients, StableSorts
from .torch_recorder import Recorder


class TorchSide:
    """A torch module with the inputs it is run on; the module is left as it was.

    With `watched`, only the modules at these paths are Cells: what the others do belongs to the Cells around them.
    `ignored` are parameters whose gradient, and buffers whose update, isn't recorded; `rounded` are buffers that
    another side may hold as numbers of its own.
    """

    def __init__(
        self,
        name: str,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        train: bool = False,
        loss: Callable[[Any], torch.Tensor] | None = None,
        working_dtype: str = "float32",
        seed: int = 0,
        watched: Collection[str] | None = None,
        ignored: Collection[str] = (),
        rounded: Collection[str] = (),
    ) -> None:
        raise_recursion_limit(depth_of(module))
        self.name = name
        self.module = module
        self.watched = watched
        self.ignored = ignored
        self.rounded = rounded
        self.args = args
        self.kwargs = dict(kwargs)
        self.train = train
        self.loss = loss
        self.working_dtype: torch.dtype = getattr(torch, working_dtype)
        self.capabilities = native_capabilities(working_dtype, second_call=True)
        self.seed = seed
        self.shared = _shared_parameters(module, watched)
        self._takes_numbers = True  # whether a Cell's input is floating-point, as the last run showed

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by qualified name."""
        working, named = Working(self.module, self.working_dtype), named_parameters(self.module)
        return {name: ParameterInfo(as_array(working(p)), p.requires_grad) for name, p in named}

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        dtype: torch.dtype = getattr(torch, run.dtype)
        recorder = Recorder(run, self.shared)
        torch.manual_seed(self.seed)
        with contextlib.ExitStack() as stack:
            # each of them leads through torch's graph to the recorder, and Python's garbage collector doesn't see how
            stack.callback(recorder.fed_outputs.clear)
            stack.enter_context(in_dtype(self.module, dtype, through=self.working_dtype, train=self.train))
            args, kwargs, leaves = self._inputs(dtype, grads=run.grads, varied=run.second == "varied")
            before_inputs = self._inputs(dtype, grads=False)[:2] if run.second is not None else None
            if dtype == torch.float64:
                stack.enter_context(default_dtype(torch.float64))
                stack.enter_context(DoublePrecision(self.working_dtype, perturbed=bool(run.perturbed)))
            if run.perturbed:
                perturb_attributes(self.module, self.rounded)
            if run.jitter is not None and not self._takes_numbers:
                stack.enter_context(JitteredOperators(run.jitter, run.jitter_units))
            if before_inputs is not None:
                self._call_before(run, recorder, *before_inputs)
            sampled = Draws(run.draws, recorder.cell)
            before = {name: b.clone() for name, b in named_buffers(self.module)}
            stack.enter_context(ControlFlowInPython())
            stack.enter_context(keep_activations())
            stack.enter_context(torch.enable_grad())
            with watch(self.module, recorder, self.watched), KeptGradients(), StableSorts(), sampled:  # type: ignore[no-untyped-call]
                result = self._called(args, kwargs)
            outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            records = recorder.records
            if run.grads:
                records.cotangents = self._cotangents(run, result, outputs, recorder.partners)
                records.broken = run.lacks_outputs(recorder.partners) or not _take(outputs, records.cotangents)
                if not records.broken:
                    self._backward(recorder, outputs, leaves)
            for name, buffer in named_buffers(self.module):
                if name in self.ignored:
                    continue
                changed = not torch.equal(before[name], buffer)
                (records.updates if changed else records.buffers)[name] = as_array(buffer).copy()
        records.draws = sampled.recorded
        if run.inner and run.jitter is None:
            self._takes_numbers = any(k.kind == INPUT and is_floating(v.dtype) for k, v in records.values.items())
        return records

    def _call_before(self, run: Run, recorder: Recorder, args: Any, kwargs: Any) -> None:
        """Call the module once, for what it keeps; it draws what its second call will draw."""
        draws = Draws(run.draws, recorder.cell)
        with ControlFlowInPython(), watch(self.module, recorder, self.watched), StableSorts(), draws:  # type: ignore[no-untyped-call]
            self._called(args, kwargs)
        recorder.restart()

    def _called(self, args: Any, kwargs: Any) -> Any:
        try:
            return self.module(*args, **kwargs)
        except CellbridgeError:
            raise
        except Exception as error:
            # the model's own code raises it, or torch for a dtype
            raise eager_error(error, self.module, args, kwargs) from error

    def _differentiated(self, roots: list[tuple[torch.Tensor, torch.Tensor]], wanted: list[torch.Tensor]) -> Any:
        try:
            return torch.autograd.grad([out for out, _ in roots], wanted, [g for _, g in roots], allow_unused=True)
        except CellbridgeError:
            raise
        except Exception as error:  # a backward of the model's own may raise anything
            raise UsageError(
                f"the model's backward doesn't run: {type(error).__name__}: {error}\n"
                "  compare the outputs alone: --no-grad, or grads=False"
            ) from error

    def _inputs(self, dtype: torch.dtype, *, grads: bool, varied: bool = False) -> tuple[Any, Any, list[torch.Tensor]]:
        """The inputs in `dtype` as fresh leaves, with other numbers if `varied`; those that gradients are taken of."""
        leaves: list[torch.Tensor] = []

        def fresh(tensor: torch.Tensor) -> torch.Tensor:
            copy = tensor.detach().clone()
            if is_inexact(copy):
                # through the working dtype, so that every precision starts from the same numbers
                copy = converted(converted(copy, self.working_dtype), dtype).requires_grad_(grads)
                leaves.append(copy)
                if grads:
                    return copy.clone()  # torch lets no leaf be changed in place, and a first layer may do that
            return copy

        given = (self.args, self.kwargs)
        args, kwargs = pytree.tree_map_only(torch.Tensor, fresh, with_other_numbers(given) if varied else given)
        return args, kwargs, leaves

    def _cotangents(
        self, run: Run, result: Any, outputs: list[torch.Tensor], partners: Sequence[int | None]
    ) -> list[Array | None]:
        """One per output: given, or the gradient of the loss, or drawn; None for outputs without a gradient."""
        if run.cotangents is not None:
            return run.root_cotangents(partners)
        if self.loss is not None:
            return _loss_gradients(self.loss, result, outputs)
        return random_cotangents([as_array(out) for out in outputs], numpy_dtype(self.working_dtype), self.seed)

    def _backward(self, recorder: Recorder, outputs: list[torch.Tensor], leaves: list[torch.Tensor]) -> None:
        roots = [
            (out, _as_tensor(cotangent, out))
            for out, cotangent in zip(outputs, recorder.records.cotangents, strict=True)
            if cotangent is not None and out.requires_grad
        ]
        # every Cell output is a root too, with cotangent zero: so each is fed, whatever becomes of it downstream
        roots += [(out, torch.zeros_like(out)) for out in recorder.fed_outputs]
        named = {name: p for name, p in named_parameters(self.module) if p.requires_grad}
        wanted = [*named.values(), *leaves]
        gradients: tuple[torch.Tensor | None, ...] = (None,) * len(wanted)
        if roots and wanted:
            gradients = self._differentiated(roots, wanted)
        for name, gradient in zip(named, gradients, strict=False):
            if name in self.ignored:
                continue
            recorder.records.parameter_gradients[name] = None if gradient is None else as_array(gradient)


def require_gradient(loss: Any) -> None:
    """`UsageError` unless a loss has a gradient."""
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        raise UsageError("loss(outputs) returned no tensor with a gradient: it must depend on the outputs smoothly")


def _loss_gradients(
    loss: Callable[[Any], torch.Tensor], result: Any, outputs: list[torch.Tensor]
) -> list[Array | None]:
    value = loss(result)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        raise UsageError(f"loss(outputs) must return a scalar tensor, it returned {shown}")
    require_gradient(value)
    differentiable = [out for out in outputs if out.requires_grad]
    gradients = torch.autograd.grad(value.sum(), differentiable, retain_graph=True, allow_unused=True)
    found = dict(zip(map(id, differentiable), gradients, strict=True))
    return [
        None
        if not is_inexact(out)
        else as_array(torch.zeros_like(out)).astype(np.float64)
        if found.get(id(out)) is None
        else as_array(found[id(out)]).astype(np.float64)
        for out in outputs
    ]


def _take(outputs: Sequence[torch.Tensor], cotangents: Sequence[Array | None]) -> bool:
    """Whether the cotangents are for outputs like these: as many, and of their shapes."""
    shapes = [(*out.shape, 2) if out.is_complex() else tuple(out.shape) for out in outputs]
    return len(cotangents) == len(shapes) and all(
        cotangent is None or cotangent.shape == shape for cotangent, shape in zip(cotangents, shapes, strict=True)
    )


def _as_tensor(array: Array, like: torch.Tensor) -> torch.Tensor:
    """An array in the dtype of a tensor; pairs of reals as complex numbers if that is complex."""
    tensor = torch.from_numpy(np.array(array))
    return (torch.view_as_complex(tensor) if like.is_complex() else tensor).to(like.dtype)


def _shared_parameters(
    module: torch.nn.Module, watched: Collection[str] | None
) -> dict[torch.nn.Module, dict[str, str]]:
    """For the modules that hold a parameter which another one holds too: qualified names by attribute names."""
    names = {p: name for name, p in named_parameters(module)}
    holders: dict[torch.nn.Parameter, list[tuple[torch.nn.Module, str]]] = {}
    for path, _, owner in named_modules(module):
        if watched is not None and path not in watched:
            continue
        for attribute, parameter in owner._parameters.items():
            if parameter is not None and not isinstance(owner, torch.nn.RNNBase):  # keeps a list of its own
                holders.setdefault(parameter, []).append((owner, attribute))
    shared: dict[torch.nn.Module, dict[str, str]] = {}
    for parameter, places in holders.items():
        if len(places) > 1 and parameter.requires_grad:
            for owner, attribute in places:
                shared.setdefault(owner, {})[attribute] = names[parameter]
    return shared
