"""What a torch script does with gradients: recorded while it trains, without changing it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from ...runtime.programs.call import as_array
from ..sides.records import Array
from .quantities import Quantities, Quantity
from .updates.rules import Rule
from .updates.torch_rules import rule_of

Layers = Callable[[torch.nn.Module], Iterable[torch.nn.Module]]


@dataclass
class TorchUpdate:
    """One step of a script.

    Attributes:
        sums: by parameter, the sum of the gradients of the backward passes.
        gradients: by parameter, what the optimizer got.
        rules: by parameter, the optimizer's rule; None for an optimizer whose formula isn't known.
        roots: the numbers on which the backward passes were started.
        repeated: whether a parameter was updated more than once.
    """

    sums: dict[str, Array] = field(default_factory=dict)
    gradients: dict[str, Array] = field(default_factory=dict)
    rules: dict[str, Rule | None] = field(default_factory=dict)
    roots: list[float] = field(default_factory=list)
    repeated: bool = False


class TorchUpdates:
    """Records each step of a script that trains a network, and leads the network along another training.

    Args:
        guide: the quantities of the other training after each step: the network gets its parameters and buffers.
        in_eval_mode: returns the layers that stay in eval mode, whatever the script does.

    Attributes:
        steps: the steps of the script.
        arguments: positional and keyword arguments of the network's first call; None before it.
    """

    def __init__(self, guide: Sequence[Quantities], in_eval_mode: Layers = lambda network: ()) -> None:
        self.guide = guide
        self.in_eval_mode = in_eval_mode
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.steps: list[TorchUpdate] = []
        self._current = TorchUpdate()
        self._names: dict[int, str] = {}

    @contextlib.contextmanager
    def watch(self, network: torch.nn.Module) -> Iterator[None]:
        """Within the context, gradients and updates of the network's parameters are recorded."""
        self._names = {id(parameter): name for name, parameter in network.named_parameters()}
        with contextlib.ExitStack() as stack:
            for name, parameter in network.named_parameters():
                stack.callback(self._watch_gradient(name, parameter).remove)
            stack.callback(register_optimizer_step_pre_hook(self._before_update).remove)
            stack.callback(network.register_forward_pre_hook(self._before_call, with_kwargs=True).remove)
            for layer in self.in_eval_mode(network):
                layer.eval()
                setattr(layer, "train", lambda mode=True, layer=layer: layer)  # noqa: B010
            stack.enter_context(_Roots(self._current_roots))
            yield

    def _watch_gradient(self, name: str, parameter: torch.nn.Parameter) -> Any:
        def add(gradient: torch.Tensor) -> None:
            sums, array = self._current.sums, _copy(gradient)
            sums[name] = sums[name] + array if name in sums else array

        trained = parameter.requires_grad
        parameter.requires_grad_(True)  # torch refuses hooks on others, which the script may train all the same
        handle = parameter.register_hook(add)  # type: ignore[no-untyped-call]
        parameter.requires_grad_(trained)
        return handle

    def _before_call(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.arguments is None:
            self.arguments = args, kwargs

    def _current_roots(self) -> list[float]:
        return self._current.roots

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
    """Records the numbers on which backward passes are started."""

    def __init__(self, roots: Any) -> None:
        super().__init__()
        self.roots = roots

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.backward and args[0].numel() == 1:
            self.roots().append(float(args[0].detach()))
        return func(*args, **(kwargs or {}))


def load(network: torch.nn.Module, state: Mapping[Quantity, Array]) -> None:
    """Give a network the parameters and buffers that a training recorded."""
    tensors: dict[Quantity, torch.Tensor] = {Quantity("parameter", name): p for name, p in network.named_parameters()}
    tensors |= {Quantity("buffer", name): tensor for name, tensor in network.named_buffers()}
    with torch.no_grad():
        for quantity, tensor in tensors.items():
            if quantity in state:
                tensor.copy_(torch.from_numpy(np.array(state[quantity])).to(tensor.dtype))


def _copy(tensor: torch.Tensor) -> Array:
    return np.asarray(as_array(tensor.detach()), np.float64).copy()
