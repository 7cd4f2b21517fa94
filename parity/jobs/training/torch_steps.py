"""torch's training steps: eager module, autograd, autocast, `GradScaler`, `torch.optim`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....converter.capture.checkpoints import keep_activations
from ....converter.capture.copying import copy_module
from ....converter.capture.export_errors import eager_error
from ....converter.dtypes import is_inexact
from ....converter.seed import manual_seed
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.nn.wrap.loss_scalers import DynamicLossScaler
from ....runtime.programs.call import as_array
from ...sides.cotangents import require_gradient
from ...sides.precision import DoublePrecision, add_jitter, convert, in_dtype
from ...sides.records import Array, Draw
from ...sides.torch_modes import Draws, RecordableCalls
from .loss_network import Loss, LossNetwork, autocast_dtype, under_autocast
from .quantities import LOSS, OVERFLOW, Quantities, Quantity, TrainingRecord, optimizer_state
from .scripts import network_state
from .training_config import DYNAMIC, TrainingConfig

Batch = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


@dataclass(frozen=True, eq=False)
class TorchSteps:
    """A torch module and the batches that it is trained on; a copy of the module is trained.

    Attributes:
        module: the module to train.
        loss: maps the module's result to a scalar; None for the mean of squares.
        batches: arguments of the calls, `config.batches` of them.
        config: the training configuration.
        dtype: working dtype, of the parameters, or of autocast if it is half precision.
        seed: seed of torch's random numbers.
    """

    module: torch.nn.Module
    loss: Loss | None
    batches: Sequence[Batch]
    config: TrainingConfig
    dtype: str
    seed: int

    def run(
        self,
        dtype: str,
        draws: Mapping[Draw, Array] | None = None,
        jitter: int | None = None,
        skipped: Collection[int] = (),
        units: float = 0.5,
    ) -> TrainingRecord:
        """Train.

        Args:
            dtype: the dtype to compute in; in "float64" nothing is rounded to another dtype.
            draws: random draws to replay.
            jitter: seed of an error in every parameter that a step computes with, as another order of operations might
                cause; None for none.
            skipped: steps, from 0, whose update is skipped as if a gradient weren't finite.
            units: size of that error, in units in the last place.

        Raises:
            UsageError: the module doesn't take the batches, or has no gradient.
        """
        run_dtype = torch.float64 if dtype == "float64" else torch.float32
        network = LossNetwork(copy_module(self.module), self.loss, autocast_dtype(dtype))
        for name, parameter in network.network.named_parameters(remove_duplicate=False):
            parameter.grad = None
            if self.config.is_frozen(name):
                parameter.requires_grad_(False)
        manual_seed(self.seed)
        parameter_dtype = torch.float64 if self.dtype == "float64" else torch.float32
        with in_dtype(network, run_dtype, through=parameter_dtype, train=True), keep_activations():
            loop = _TrainingLoop(network, self.config, dtype, parameter_dtype, jitter, draws or {}, units)
            batches = iter([_cast(batch, parameter_dtype, run_dtype) for batch in self.batches])
            training = TrainingRecord(network_state(network.network))
            for step in range(self.config.steps):
                training.steps.append(loop.step(batches, step in skipped))
        training.trained = {name: p.requires_grad for name, p in network.network.named_parameters()}
        training.draws = loop.draws.recorded
        return training


def _cast(batch: Batch, through: torch.dtype, dtype: torch.dtype) -> Batch:
    """Return a copy of a batch, rounded to the dtype `through` and then cast to `dtype`."""

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        return convert(convert(copy, through), dtype) if is_inexact(copy) else copy

    result: Batch = pytree.tree_map_only(torch.Tensor, cast, batch)
    return result


@dataclass(eq=False)
class _TrainingLoop:
    """The training loop, with the state between steps: optimizer and loss scale."""

    network: LossNetwork
    config: TrainingConfig
    dtype: str
    parameter_dtype: torch.dtype
    jitter: int | None
    replayed: Mapping[Draw, Array]
    units: float

    def __post_init__(self) -> None:
        self.parameters = dict(self.network.network.named_parameters())
        self.trained = {name: p for name, p in self.parameters.items() if p.requires_grad}
        if not self.trained:
            raise UsageError("there is nothing to train: the model has no parameter, or every one is frozen")
        trained = list(self.trained.values())
        self.optimizer: torch.optim.Optimizer = self.config.make_optimizer(torch.optim, trained)
        self.updates = 0
        self.optimizer.register_step_post_hook(lambda *_: self._count_update())
        self.scaler = _grad_scaler(self.config)
        self.batch_count = 0
        self.draws = Draws(self.replayed, lambda: ("", self.batch_count))
        self.generator = None if self.jitter is None else np.random.default_rng(self.jitter)

    def _count_update(self) -> None:
        self.updates += 1

    def step(self, batches: Iterator[Batch], skipped: bool) -> Quantities:
        """Make a step, and return its quantities."""
        quantities: Quantities = {}
        self.optimizer.zero_grad()
        for number in range(self.config.accumulate):
            name = LOSS.name if self.config.accumulate == 1 else f"{LOSS.name} of batch {number + 1}"
            quantities[Quantity(LOSS.kind, name)] = self._backward(*next(batches))
            self.batch_count += 1
        before = self.updates
        if self.scaler is not None:
            self._unscale(self.scaler, skipped)
        quantities |= self._gradients("gradient")
        if self.config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(self.trained.values()), self.config.clip_norm)
            quantities |= self._gradients("clipped gradient")
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update(None if self._is_dynamic else self._scale)
            overflow = self.updates == before
            if overflow:  # no gradient is valid, so there is nothing to compare
                quantities = {q: array for q, array in quantities.items() if q.kind == LOSS.kind}
            quantities[OVERFLOW] = np.asarray(overflow)
            quantities |= self._loss_scale(self.scaler)
        return quantities | self._optimizer_state() | network_state(self.network.network)

    def _backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
        with _jitter_parameters(list(self.parameters.values()), self.generator, self.dtype, self.units):
            try:
                with self._running():
                    loss = self.network(*args, **kwargs)
            except CellbridgeError:
                raise
            except Exception as error:  # raised by the model's code, or by torch because of a dtype
                message = eager_error(error, self.network.network, args, kwargs)
                raise UsageError(f"{under_autocast(self.dtype)}{message}") from error
            require_gradient(loss)
            share: Any = loss / self.config.accumulate
            scaled = share if self.scaler is None else self.scaler.scale(share)
            try:
                with self._running():
                    scaled.backward()
            except Exception as error:  # a custom backward may raise anything
                raise UsageError(f"the model's backward pass fails: {type(error).__name__}: {error}") from error
        return as_array(loss).reshape(()).copy()

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Within the context, the modes for running the network forward and backward are on."""
        with contextlib.ExitStack() as stack:
            if self.dtype == "float64":
                stack.enter_context(DoublePrecision(self.parameter_dtype))
            stack.enter_context(RecordableCalls())
            stack.enter_context(torch.enable_grad())
            stack.enter_context(self.draws)
            yield

    def _unscale(self, scaler: torch.amp.GradScaler, skipped: bool) -> None:
        gradients = [p.grad for p in self.trained.values() if p.grad is not None]
        if skipped and gradients:
            gradients[0].fill_(torch.inf)
        scale = scaler.get_scale()
        scaler.unscale_(self.optimizer)
        if self.dtype == "float64":  # the scaler multiplies by an inverse rounded to float32
            for gradient in gradients:
                gradient *= (1 / scale) / float(np.float32(1 / scale))

    def _gradients(self, kind: str) -> Quantities:
        return {
            Quantity(kind, name): as_array(torch.zeros_like(p) if p.grad is None else p.grad).copy()
            for name, p in self.trained.items()
        }

    @property
    def _is_dynamic(self) -> bool:
        return not isinstance(self.config.loss_scale, (int, float))

    @property
    def _scale(self) -> float:
        assert isinstance(self.config.loss_scale, (int, float))
        return float(self.config.loss_scale)

    def _loss_scale(self, scaler: torch.amp.GradScaler) -> Quantities:
        state = {"loss_scale": np.asarray(scaler.get_scale(), np.float32)}
        if self._is_dynamic:
            state["steps_without_overflow"] = np.asarray(scaler.state_dict()["_growth_tracker"], np.int32)
        return {Quantity("loss scale", name): array for name, array in state.items()}

    def _optimizer_state(self) -> Quantities:
        """The optimizer's state, which is zero before the first update."""
        quantities = {Quantity("optimizer state", "step"): np.asarray(self.updates, np.int32)}
        for name, p in self.trained.items():
            state = self.optimizer.state.get(p, {})
            for key in self.config.state_names:
                tensor = state.get(key, torch.zeros_like(p))
                quantities |= optimizer_state(f"{key}.{name}", as_array(tensor).copy())
        return quantities


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
def _jitter_parameters(
    parameters: Sequence[torch.nn.Parameter], generator: np.random.Generator | None, dtype: str, units: float
) -> Iterator[None]:
    """Within the context, the parameters are perturbed by up to `units` units in the last place of `dtype`."""
    if generator is None:
        yield
        return
    inexact = [p for p in parameters if is_inexact(p)]
    before = [p.detach().clone() for p in inexact]
    with torch.no_grad():
        for p in inexact:
            p.copy_(add_jitter(p, generator, getattr(torch, dtype), units))
    yield
    with torch.no_grad():
        for p, value in zip(inexact, before, strict=True):
            p.copy_(value)
