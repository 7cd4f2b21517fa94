"""Steps of training as torch makes them: eager module, autograd, autocast, `GradScaler`, `torch.optim`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.checkpoints import keep_activations
from ...converter.capture.copying import copy_module
from ...converter.capture.export_errors import eager_error
from ...runtime.amp.scalers import DynamicLossScaler
from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.programs.call import as_array
from ..sides.control_flow import ControlFlowInPython
from ..sides.precision import DoublePrecision, converted, default_dtype, in_dtype, is_inexact, jittered
from ..sides.records import Array, Draw
from ..sides.torch_modes import Draws, StableSorts
from ..sides.torch_side import require_gradient
from .loss_network import Loss, LossNetwork, autocast_dtype, under_autocast
from .quantities import LOSS, OVERFLOW, Quantities, Quantity, Training, optimizer_state
from .scripts import held_by
from .training_config import DYNAMIC, TrainingConfig

Batch = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


class TorchSteps:
    """A torch module with the batches it is trained on; a copy is trained.

    Args:
        module: what is trained.
        loss: from the module's result to a scalar; None for the mean of squares.
        batches: arguments of the calls, `config.batches` of them.
        config: how it is trained.
        dtype: working dtype: of the parameters, or, in half precision, the one that autocast computes in.
        seed: of torch's random numbers.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Loss | None,
        batches: Sequence[Batch],
        config: TrainingConfig,
        dtype: str,
        seed: int,
    ) -> None:
        self.module = module
        self.loss = loss
        self.batches = batches
        self.config = config
        self.stored = torch.float64 if dtype == "float64" else torch.float32
        self.seed = seed

    def run(
        self,
        dtype: str,
        draws: Mapping[Draw, Array] | None = None,
        jitter: int | None = None,
        left_out: Collection[int] = (),
        units: float = 0.5,
    ) -> Training:
        """Train.

        Args:
            dtype: "float64", in which nothing is rounded to another dtype, or the dtype to compute in.
            draws: random draws to replay.
            jitter: seed of an error in every parameter that a step computes with, as another order of operations might
                make it; None for none.
            left_out: steps, from 0, whose update is left out as if a gradient weren't finite.
            units: how large that error may be, in units in the last place.

        Raises:
            UsageError: the module doesn't take the batches, or has no gradient.
        """
        of_run = torch.float64 if dtype == "float64" else torch.float32
        network = LossNetwork(copy_module(self.module), self.loss, autocast_dtype(dtype))
        for name, parameter in network.network.named_parameters(remove_duplicate=False):
            parameter.grad = None
            if self.config.is_frozen(name):
                parameter.requires_grad_(False)
        torch.manual_seed(self.seed)
        with in_dtype(network, of_run, through=self.stored, train=True), keep_activations():
            loop = _Loop(network, self.config, dtype, self.stored, jitter, draws or {}, units)
            batches = iter([_cast(batch, self.stored, of_run) for batch in self.batches])
            found = Training(held_by(network.network))
            for step in range(self.config.steps):
                found.steps.append(loop.step(batches, step in left_out))
        found.trained = {name: p.requires_grad for name, p in network.network.named_parameters()}
        found.draws = loop.draws.recorded
        return found


def _cast(batch: Batch, through: torch.dtype, dtype: torch.dtype) -> Batch:
    """A copy of a batch, in `dtype` with what the dtype `through` holds of it."""

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        copied = tensor.detach().clone()
        return converted(converted(copied, through), dtype) if is_inexact(copied) else copied

    done: Batch = pytree.tree_map_only(torch.Tensor, cast, batch)
    return done


class _Loop:
    """What goes on from step to step: the optimizer, the loss scale."""

    def __init__(
        self,
        network: LossNetwork,
        config: TrainingConfig,
        dtype: str,
        stored: torch.dtype,
        jitter: int | None,
        draws: Mapping[Draw, Array],
        units: float,
    ) -> None:
        self.units = units
        self.network = network
        self.config = config
        self.dtype = dtype
        self.stored = stored
        self.named = dict(network.network.named_parameters())
        self.trained = {name: p for name, p in self.named.items() if p.requires_grad}
        if not self.trained:
            raise UsageError("there is nothing to train: the model has no parameter, or every one is frozen")
        self.optimizer: torch.optim.Optimizer = config.made_in(torch.optim, list(self.trained.values()))
        self.updates = 0
        self.optimizer.register_step_post_hook(lambda *_: self._updated())
        self.scaler = _grad_scaler(config)
        self.batches_seen = 0
        self.draws = Draws(draws, lambda: ("", self.batches_seen))
        self.generator = None if jitter is None else np.random.default_rng(jitter)

    def _updated(self) -> None:
        self.updates += 1

    def step(self, batches: Iterator[Batch], left_out: bool) -> Quantities:
        """Make a step, and tell what came of it."""
        found: Quantities = {}
        self.optimizer.zero_grad()
        for number in range(self.config.accumulate):
            name = LOSS.name if self.config.accumulate == 1 else f"{LOSS.name} of batch {number + 1}"
            found[Quantity(LOSS.kind, name)] = self._backward(*next(batches))
            self.batches_seen += 1
        before = self.updates
        if self.scaler is not None:
            self._unscale(self.scaler, left_out)
        found |= self._gradients("gradient")
        if self.config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(self.trained.values()), self.config.clip_norm)
            found |= self._gradients("clipped gradient")
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update(None if self._moves else self._scale)
            overflow = self.updates == before
            if overflow:  # no gradient is what it should be: there is nothing to compare
                found = {q: array for q, array in found.items() if q.kind == LOSS.kind}
            found[OVERFLOW] = np.asarray(overflow)
            found |= self._loss_scale(self.scaler)
        return found | self._kept() | held_by(self.network.network)

    def _backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
        with _shaken(list(self.named.values()), self.generator, self.dtype, self.units):
            try:
                with self._running():
                    loss = self.network(*args, **kwargs)
            except CellbridgeError:
                raise
            except Exception as error:  # the model's own code raises it, or torch for a dtype
                told = eager_error(error, self.network.network, args, kwargs)
                raise UsageError(f"{under_autocast(self.dtype)}{told}") from error
            require_gradient(loss)
            share: Any = loss / self.config.accumulate
            scaled = share if self.scaler is None else self.scaler.scale(share)
            try:
                with self._running():
                    scaled.backward()
            except Exception as error:  # a backward of the model's own may raise anything
                raise UsageError(f"the model's backward doesn't run: {type(error).__name__}: {error}") from error
        return as_array(loss).reshape(()).copy()

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """The modes in which the network runs, forward and backward; optimizer and scaler run as they are."""
        with contextlib.ExitStack() as stack:
            if self.dtype == "float64":
                stack.enter_context(default_dtype(torch.float64))
                stack.enter_context(DoublePrecision(self.stored))
            stack.enter_context(ControlFlowInPython())
            stack.enter_context(torch.enable_grad())
            stack.enter_context(StableSorts())  # type: ignore[no-untyped-call]
            stack.enter_context(self.draws)
            yield

    def _unscale(self, scaler: torch.amp.GradScaler, left_out: bool) -> None:
        gradients = [p.grad for p in self.trained.values() if p.grad is not None]
        if left_out and gradients:
            gradients[0].fill_(torch.inf)
        scale = scaler.get_scale()
        scaler.unscale_(self.optimizer)
        if self.dtype == "float64":  # the scaler multiplies by an inverse that has the digits of float32
            for gradient in gradients:
                gradient *= (1 / scale) / float(np.float32(1 / scale))

    def _gradients(self, kind: str) -> Quantities:
        return {
            Quantity(kind, name): as_array(torch.zeros_like(p) if p.grad is None else p.grad).copy()
            for name, p in self.trained.items()
        }

    @property
    def _moves(self) -> bool:
        return not isinstance(self.config.loss_scale, (int, float))

    @property
    def _scale(self) -> float:
        assert isinstance(self.config.loss_scale, (int, float))
        return float(self.config.loss_scale)

    def _loss_scale(self, scaler: torch.amp.GradScaler) -> Quantities:
        state = {"loss_scale": np.asarray(scaler.get_scale(), np.float32)}
        if self._moves:
            state["steps_without_overflow"] = np.asarray(scaler.state_dict()["_growth_tracker"], np.int32)
        return {Quantity("loss scale", name): array for name, array in state.items()}

    def _kept(self) -> Quantities:
        """The optimizer's state; before the first update it is zero."""
        found = {Quantity("optimizer state", "step"): np.asarray(self.updates, np.int32)}
        for name, p in self.trained.items():
            state = self.optimizer.state.get(p, {})
            for key in self.config.kept:
                held = state.get(key, torch.zeros_like(p))
                found |= optimizer_state(f"{key}.{name}", as_array(held).copy())
        return found


def _grad_scaler(config: TrainingConfig) -> torch.amp.GradScaler | None:
    scale = config.loss_scale
    if scale is None:
        return None
    if isinstance(scale, DynamicLossScaler):
        factor = scale.scale_factor
        return torch.amp.GradScaler(
            "cpu",
            init_scale=float(scale.scale_value.asnumpy()),
            growth_factor=float(factor),
            backoff_factor=1 / factor,
            growth_interval=scale.scale_window,
        )
    return torch.amp.GradScaler("cpu") if scale == DYNAMIC else torch.amp.GradScaler("cpu", init_scale=float(scale))


@contextlib.contextmanager
def _shaken(
    parameters: Sequence[torch.nn.Parameter], generator: np.random.Generator | None, dtype: str, units: float
) -> Iterator[None]:
    """Within the context, the parameters are off by up to so many units in the last place of `dtype`."""
    if generator is None:
        yield
        return
    inexact = [p for p in parameters if is_inexact(p)]
    before = [p.detach().clone() for p in inexact]
    with torch.no_grad():
        for p in inexact:
            p.copy_(jittered(p, generator, getattr(torch, dtype), units))
    yield
    with torch.no_grad():
        for p, value in zip(inexact, before, strict=True):
            p.copy_(value)
