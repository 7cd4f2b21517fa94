"""Runs of a network's own training script, with parameters and buffers recorded after each step."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....converter.dtypes import as_tensor
from ....converter.seed import manual_seed
from ....runtime.ir.types import as_dtype
from ....runtime.programs.call import as_array
from ...dtypes import cast_floating
from ...sides.frameworks import Framework, checks_of
from ...sides.precision import DoublePrecision, add_jitter
from ...sides.records import Array, Draw
from ...sides.torch_modes import Draws
from ...weights.mapping import Weights
from .quantities import LOSS, Quantities, Quantity, TrainingRecord
from .torch_updates import TorchUpdates
from .trial import TrainingSide

TrainingScript = Callable[[Any, list[Any]], Iterable[Any]]
"""Trains a network on batches, and yields after each step."""


@dataclass(frozen=True, eq=False)
class TorchTraining:
    """A torch module and its training script; a copy of the module is trained."""

    module: torch.nn.Module
    script: TrainingScript
    batches: Sequence[Any]
    working_dtype: str
    seed: int

    def run(
        self,
        dtype: str,
        draws: Mapping[Draw, Array] | None = None,
        jitter: int | None = None,
        units: float = 0.5,
        updates: TorchUpdates | None = None,
    ) -> TrainingRecord:
        """Train.

        Args:
            dtype: dtype of parameters, buffers and batches, which are rounded to the working dtype first.
            draws: random draws to replay.
            jitter: seed of an error in every trained parameter before every step, as another order of operations might
                cause; None for none.
            units: size of that error, in units in the last place.
            updates: records the updates, and leads the network along another training.
        """
        working, target = getattr(torch, self.working_dtype), getattr(torch, dtype)
        network = copy.deepcopy(self.module).to(working).to(target)
        training = TrainingRecord(network_state(network))
        generator = np.random.default_rng(jitter) if jitter is not None else None
        sampled = Draws(draws or {}, lambda: ("", 0))
        manual_seed(self.seed)
        batches = [_cast(batch, self.working_dtype, dtype, as_tensor) for batch in self.batches]
        with contextlib.ExitStack() as stack:
            if dtype == "float64":
                stack.enter_context(DoublePrecision(working))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(sampled)
            if updates is not None:
                stack.enter_context(updates.watch(network, batches))
            _jitter_parameters(network, generator, units)
            for loss in self.script(network, batches):
                training.steps.append(network_state(network) | _loss(loss))
                if updates is not None:
                    updates.end_step(network)
                _jitter_parameters(network, generator, units)
        training.trained = {name: p.requires_grad for name, p in network.named_parameters()}
        training.draws = sampled.recorded
        return training


class ScriptSide(TrainingSide, Protocol):
    """A network with its own training script, to be compared with a torch module and its script.

    Attributes:
        noun: what the network is, in messages.
        network: the network, to be compared with the reference.
        weighs_old: whether its layers call the weight of an old statistic `momentum`, as MindSpore's do, and not that
            of the new one, as torch's do.
    """

    noun: str
    network: Any
    weighs_old: bool

    def mismatches(self) -> Iterator[str]:
        """Yield the parameters that can't be compared, each with the reason."""

    def not_compared(self, of_reference: Quantities, own_quantities: Quantities) -> set[str]:
        """Names of the reference's other quantities that the network lacks, from both records of the start."""


@dataclass(eq=False)
class CellTraining:
    """A Cell and its training script; the Cell is left unchanged."""

    noun = "port"
    weighs_old = True

    framework: Framework
    network: Any
    script: TrainingScript
    batches: Sequence[Any]
    weights: Weights
    working_dtype: str

    def __post_init__(self) -> None:
        self.name = self.framework.name
        self.checks = checks_of(self.framework, self.working_dtype)

    def run_perturbed(self, draws: Mapping[Draw, Array]) -> TrainingRecord:
        """Train in float64 with the script's and the Cell's float32 numbers perturbed by a rounding."""
        return self.run("float64", draws, perturbed=True)

    def run(self, dtype: str, draws: Mapping[Draw, Array], *, perturbed: bool = False) -> TrainingRecord:
        """Train from the module's weights with its random draws; for `perturbed`, see `rounded_numbers`."""
        training = TrainingRecord({})
        working = as_dtype(self.working_dtype)
        values = {
            id(entry.parameter): cast_floating(np.asarray(self.weights.value(entry)), working)
            for entry in self.weights.unique()
        }

        def sampled(_: str, array: Array) -> Array:
            draw = Draw("", 0, len(training.draws))
            recorded = draws.get(draw)
            if recorded is not None and recorded.size == array.size:
                array = recorded.reshape(array.shape).astype(array.dtype)
            training.draws[draw] = array
            return array

        step: dict[str, Array] = {}

        def updated(gradients: Mapping[int, Array]) -> None:
            arrays = self.weights.to_module({key: np.asarray(array, np.float64) for key, array in gradients.items()})
            if arrays.keys() & step.keys():  # updated twice in a step
                training.gradients = None
            step.update(arrays)

        with self.framework.prepare(self.network, values, dtype, False, perturbed), contextlib.ExitStack() as stack:
            if self.framework.sees_updates and not perturbed:
                training.gradients = []
                stack.enter_context(self.framework.observe_updates(updated))
            if self.framework.replays:
                stack.enter_context(self.framework.observe_draws(sampled))
            batches = [_cast(batch, self.working_dtype, dtype, self.framework.tensor) for batch in self.batches]
            training.start = self._tensors()
            for loss in self.script(self.network, batches):
                training.steps.append(self._tensors() | _loss(loss))
                if training.gradients is not None:
                    training.gradients.append(dict(step))
                step.clear()
            for name in self.weights.trainable:
                flags = {bool(entry.parameter.requires_grad) for entry in self.weights.of(name)}
                if flags:
                    training.trained[name] = any(flags)
        return training

    def mismatches(self) -> Iterator[str]:
        """Yield the parameters without a counterpart."""
        for mismatch in self.weights.mismatches:
            yield f"{mismatch.name}: {mismatch.reason}"

    def not_compared(self, of_reference: Quantities, own_quantities: Quantities) -> set[str]:
        """Names of the parameters and buffers from which no Parameter of the port is computed."""
        missing = {quantity.name for quantity in of_reference.keys() - own_quantities.keys()}
        return missing - self.weights.ignored - {mismatch.name for mismatch in self.weights.mismatches}

    def _tensors(self) -> Quantities:
        arrays = {id(e.parameter): np.array(self.framework.array(e.parameter)) for e in self.weights.unique()}
        trainable = self.weights.trainable
        return {
            Quantity("parameter" if name in trainable else "buffer", name): array
            for name, array in self.weights.values_in_module(arrays).items()
        }


def network_state(network: torch.nn.Module) -> Quantities:
    """Return a copy of parameters and buffers, with shared ones once."""
    tensors: dict[Quantity, torch.Tensor] = {Quantity("parameter", name): p for name, p in network.named_parameters()}
    tensors |= {Quantity("buffer", name): tensor for name, tensor in network.named_buffers()}
    return {quantity: as_array(tensor).copy() for quantity, tensor in tensors.items()}


def _loss(yielded: Any) -> Quantities:
    """Return the loss that a script yielded, if it is a number."""
    if isinstance(yielded, (int, float)):
        return {LOSS: np.asarray(float(yielded))}
    return {LOSS: as_array(yielded).reshape(()).copy()} if getattr(yielded, "shape", None) in ((), (1,)) else {}


def _jitter_parameters(network: torch.nn.Module, generator: np.random.Generator | None, units: float) -> None:
    if generator is None:
        return
    with torch.no_grad(), torch._C.DisableTorchFunction():  # which would tell the working dtype in a float64 run
        for parameter in network.parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                parameter.copy_(add_jitter(parameter, generator, parameter.dtype, units))


def _cast(batch: Any, through: str, dtype: str, tensor: Callable[[Array], Any]) -> Any:
    """Return a batch as tensors, the floating-point ones rounded to the dtype `through` and then cast to `dtype`."""

    def cast(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return tensor(np.array(cast_floating(cast_floating(leaf, as_dtype(through)), as_dtype(dtype))))

    return pytree.tree_map(cast, batch)
