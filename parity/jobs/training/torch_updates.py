"""What a torch script does with gradients: recorded while it trains, without changing it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ....runtime.programs.call import as_array
from ...sides.records import Array
from .losses.calls import Change, LossCall, LossCalls, RecordedLoss, Surroundings
from .losses.offsets import offset_of
from .losses.parting import ScriptTrace
from .quantities import Quantities, Quantity
from .updates.rules import Rule
from .updates.torch_rules import rule_of

Layers = Callable[[torch.nn.Module], Iterable[torch.nn.Module]]


@dataclass
class TorchUpdate:
    """One step of a script.

    Attributes:
        passes: for each backward pass, its gradient by parameter.
        gradients: by parameter, what the optimizer got.
        rules: by parameter, the optimizer's rule; None for an optimizer whose formula isn't known.
        roots: the numbers on which the backward passes were started.
        repeated: whether a parameter was updated more than once.
    """

    passes: list[dict[str, Array]] = field(default_factory=list)
    gradients: dict[str, Array] = field(default_factory=dict)
    rules: dict[str, Rule | None] = field(default_factory=dict)
    roots: list[float] = field(default_factory=list)
    repeated: bool = False


class TorchUpdates:
    """Records each step of a script that trains a network, and leads the network along another training.

    Args:
        guide: the quantities of the other training after each step: the network gets its parameters and buffers.
        in_eval_mode: returns the layers that stay in eval mode, whatever the script does.
        change: computes another loss than the script's; None for the script's own.
        trace: records what the script computes outside of the network; None if that isn't needed.

    Attributes:
        steps: the steps of the script.
        losses: the script's calls of loss functions, in order.
        arguments: positional and keyword arguments of the network's first call; None before it.
    """

    def __init__(
        self,
        guide: Sequence[Quantities],
        in_eval_mode: Layers = lambda network: (),
        change: Change | None = None,
        trace: ScriptTrace | None = None,
    ) -> None:
        self.guide = guide
        self.in_eval_mode = in_eval_mode
        self.trace = trace
        self.losses: list[RecordedLoss] = []
        self._loss_calls = LossCalls(change, self._record_loss)
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.steps: list[TorchUpdate] = []
        self._current = TorchUpdate()
        self._names: dict[int, str] = {}

    @contextlib.contextmanager
    def watch(self, network: torch.nn.Module, batches: Sequence[Any]) -> Iterator[None]:
        """Within the context, losses, gradients and updates of the network's parameters are recorded."""
        labels = tuple(leaf for leaf in pytree.tree_leaves(batches) if _is_tensor(leaf, floating=False))
        self._loss_calls.surroundings = Surroundings((), labels)
        self._names = {id(parameter): name for name, parameter in network.named_parameters()}
        with contextlib.ExitStack() as stack:
            for name, parameter in network.named_parameters():
                stack.callback(self._watch_gradient(name, parameter).remove)
            stack.callback(register_optimizer_step_pre_hook(self._before_update).remove)
            stack.callback(network.register_forward_pre_hook(self._before_call, with_kwargs=True).remove)
            for layer in self.in_eval_mode(network):
                layer.eval()
                setattr(layer, "train", lambda mode=True, layer=layer: layer)  # noqa: B010
            stack.callback(network.register_forward_hook(self._after_call).remove)
            stack.enter_context(_Roots(self._begin_pass))
            stack.enter_context(self._loss_calls)
            if self.trace is not None:
                stack.enter_context(self.trace)
            yield

    def _watch_gradient(self, name: str, parameter: torch.nn.Parameter) -> Any:
        def add(gradient: torch.Tensor) -> None:
            passes = self._current.passes
            if not passes:  # torch.autograd.grad, which isn't seen
                passes.append({})
            array = _copy(gradient)
            passes[-1][name] = passes[-1][name] + array if name in passes[-1] else array

        trained = parameter.requires_grad
        parameter.requires_grad_(True)  # torch refuses hooks on others, which the script may train all the same
        handle = parameter.register_hook(add)  # type: ignore[no-untyped-call]
        parameter.requires_grad_(trained)
        return handle

    def _before_call(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.trace is not None:
            self.trace.inside += 1
        if self.arguments is None:
            self.arguments = args, kwargs

    def _after_call(self, _: torch.nn.Module, __: Any, output: Any) -> None:
        if self.trace is not None:
            self.trace.inside -= 1
        outputs = tuple(leaf for leaf in pytree.tree_leaves(output) if _is_tensor(leaf, floating=True))
        self._loss_calls.surroundings = replace(self._loss_calls.surroundings, outputs=outputs)

    def _record_loss(self, call: LossCall, around: Surroundings) -> None:
        target = call.target.detach().clone()
        shape, offset = tuple(call.predictions.shape), offset_of(call, around)
        self.losses.append(RecordedLoss(call.name, call.settings, shape, target, offset, call.source))

    def _begin_pass(self, root: float | None) -> None:
        self._current.passes.append({})
        if root is not None:
            self._current.roots.append(root)

    def _before_update(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        update = self._current
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = self._names.get(id(parameter))
                if name is None or parameter.grad is None:
                    continue
                update.repeated |= name in update.gradients
                update.gradients[name] = _copy(parameter.grad)
                update.rules[name] = rule_of(optimizer, group)

    def end_step(self, network: torch.nn.Module) -> None:
        """End a step, and give the network the state that the other training has after it."""
        self.steps.append(self._current)
        self._current = TorchUpdate()
        if len(self.steps) <= len(self.guide):
            load(network, self.guide[len(self.steps) - 1])


class _Roots(TorchFunctionMode):
    """Reports the number on which each backward pass is started; None for a tensor of several elements."""

    def __init__(self, begin: Callable[[float | None], None]) -> None:
        super().__init__()
        self.begin = begin

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.backward:
            self.begin(float(args[0].detach()) if args[0].numel() == 1 else None)
        return func(*args, **(kwargs or {}))


def load(network: torch.nn.Module, state: Mapping[Quantity, Array]) -> None:
    """Give a network the parameters and buffers that a training recorded."""
    tensors: dict[Quantity, torch.Tensor] = {Quantity("parameter", name): p for name, p in network.named_parameters()}
    tensors |= {Quantity("buffer", name): tensor for name, tensor in network.named_buffers()}
    with torch.no_grad():
        for quantity, tensor in tensors.items():
            if quantity in state:
                tensor.copy_(torch.from_numpy(np.array(state[quantity])).to(tensor.dtype))


def _is_tensor(leaf: Any, *, floating: bool) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() == floating


def _copy(tensor: torch.Tensor) -> Array:
    return np.asarray(as_array(tensor.detach()), np.float64).copy()
