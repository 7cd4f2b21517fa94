"""A network's own training script, run, with what its parameters and buffers are after each step."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...runtime.ir.types import BFLOAT16, as_dtype
from ...runtime.programs.call import as_array
from ..dtypes import cast_floating
from ..sides.frameworks import Framework
from ..sides.precision import DoublePrecision, default_dtype, jittered
from ..sides.records import Array, Draw
from ..sides.torch_modes import Draws
from ..weights.mapping import Weights
from .quantities import LOSS, Quantities, Quantity, Training

Loop = Callable[[Any, list[Any]], Iterable[Any]]
"""Trains a network on batches, and yields after each step."""


class TorchTraining:
    """A torch module and its script; a copy is trained."""

    def __init__(self, module: torch.nn.Module, loop: Loop, batches: Sequence[Any], working_dtype: str, seed: int):
        self.module = module
        self.loop = loop
        self.batches = batches
        self.working_dtype = working_dtype
        self.seed = seed

    def run(
        self, dtype: str, draws: Mapping[Draw, Array] | None = None, jitter: int | None = None, units: float = 0.5
    ) -> Training:
        """Train.

        Args:
            dtype: of parameters, buffers and batches, which hold what the working dtype holds of them.
            draws: random draws to replay.
            jitter: seed of an error in every trained parameter before every step, as another order of operations might
                make it; None for none.
            units: how large that error may be, in units in the last place.
        """
        working, wanted = getattr(torch, self.working_dtype), getattr(torch, dtype)
        network = copy.deepcopy(self.module).to(working).to(wanted)
        found = Training(held_by(network))
        shaken = np.random.default_rng(jitter) if jitter is not None else None
        sampled = Draws(draws or {}, lambda: ("", 0))
        torch.manual_seed(self.seed)
        with contextlib.ExitStack() as stack:
            if dtype == "float64":
                stack.enter_context(default_dtype(torch.float64))
                stack.enter_context(DoublePrecision(working))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(sampled)
            batches = [_cast(batch, self.working_dtype, dtype, _torch_tensor) for batch in self.batches]
            _shake(network, shaken, units)
            for loss in self.loop(network, batches):
                found.steps.append(held_by(network) | _loss(loss))
                _shake(network, shaken, units)
        found.trained = {name: p.requires_grad for name, p in network.named_parameters()}
        found.draws = sampled.recorded
        return found


class CellTraining:
    """A Cell and its script; the Cell is left as it was."""

    def __init__(
        self,
        framework: Framework,
        cell: Any,
        loop: Loop,
        batches: Sequence[Any],
        weights: Weights,
        working_dtype: str,
    ):
        self.framework = framework
        self.cell = cell
        self.loop = loop
        self.batches = batches
        self.weights = weights
        self.working_dtype = working_dtype
        self.name = framework.name
        dtypes = {"meaning": "float64", "rounding": working_dtype}
        # in float64 there is no truth beyond it to judge rounding by
        judged = [check for check in framework.checks if check == "meaning" or working_dtype != "float64"]
        self.checks = tuple((check, dtypes[check]) for check in judged)

    def perturbed(self, draws: Mapping[Draw, Array]) -> Training:
        """Train in float64 with the numbers that the script and the Cell hold in float32 off by a rounding."""
        return self.run("float64", draws, perturbed=True)

    def run(self, dtype: str, draws: Mapping[Draw, Array], *, perturbed: bool = False) -> Training:
        """Train, from the module's weights and with its random draws; `perturbed`: see `rounded_numbers`."""
        found = Training({})
        working = as_dtype(self.working_dtype)
        values = {
            id(entry.parameter): cast_floating(np.asarray(self.weights.value(entry)), working)
            for entry in self.weights.unique()
        }

        def sampled(_: str, array: Array) -> Array:
            draw = Draw("", 0, len(found.draws))
            recorded = draws.get(draw)
            if recorded is not None and recorded.size == array.size:
                array = recorded.reshape(array.shape).astype(array.dtype)
            found.draws[draw] = array
            return array

        with self.framework.prepared(self.cell, values, dtype, False, perturbed), contextlib.ExitStack() as stack:
            if self.framework.replays:
                stack.enter_context(self.framework.drawing(sampled))
            batches = [_cast(batch, self.working_dtype, dtype, self.framework.tensor) for batch in self.batches]
            found.start = self._tensors()
            for loss in self.loop(self.cell, batches):
                found.steps.append(self._tensors() | _loss(loss))
            for name in self.weights.trainable:
                flags = {bool(entry.parameter.requires_grad) for entry in self.weights.of(name)}
                if flags:
                    found.trained[name] = any(flags)
        return found

    def _tensors(self) -> Quantities:
        arrays = {id(e.parameter): np.array(self.framework.array(e.parameter)) for e in self.weights.unique()}
        trainable = self.weights.trainable
        return {
            Quantity("parameter" if name in trainable else "buffer", name): array
            for name, array in self.weights.back(dict(arrays)).items()
        }


def held_by(network: torch.nn.Module) -> Quantities:
    """A copy of parameters and buffers, shared ones once."""
    held: dict[Quantity, torch.Tensor] = {Quantity("parameter", name): p for name, p in network.named_parameters()}
    held |= {Quantity("buffer", name): tensor for name, tensor in network.named_buffers()}
    return {quantity: as_array(tensor).copy() for quantity, tensor in held.items()}


def _loss(yielded: Any) -> Quantities:
    """What a script yields, if it is a number."""
    if isinstance(yielded, (int, float)):
        return {LOSS: np.asarray(float(yielded))}
    return {LOSS: as_array(yielded).reshape(()).copy()} if getattr(yielded, "shape", None) in ((), (1,)) else {}


def _torch_tensor(array: Array) -> torch.Tensor:
    if array.dtype == BFLOAT16:  # which NumPy itself doesn't have
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(array)


def _shake(network: torch.nn.Module, generator: np.random.Generator | None, units: float) -> None:
    if generator is None:
        return
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                parameter.copy_(jittered(parameter, generator, parameter.dtype, units))


def _cast(batch: Any, through: str, dtype: str, tensor: Callable[[Array], Any]) -> Any:
    """A batch as tensors, the floating-point ones in `dtype` with what the dtype `through` holds of them."""

    def cast(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return tensor(np.array(cast_floating(cast_floating(leaf, as_dtype(through)), as_dtype(dtype))))

    return pytree.tree_map(cast, batch)
