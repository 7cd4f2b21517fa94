"""`TorchCandidate`: a second torch module with its own training script, compared with the first."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ...pairing.modules.prefixes import Prefixes
from ...sides.records import Array, Draw
from ...sides.side import native_checks
from .losses.calls import Change
from .losses.parting import ScriptTrace
from .quantities import Quantities, Quantity, TrainingRecord
from .scripts import TorchTraining, TrainingScript, network_state
from .torch_updates import TorchUpdates

NAME = "candidate"


class TorchCandidate:
    """A torch module that is trained by its own script, from the reference's weights.

    Parameters and buffers are paired by name, without the prefixes of wrappers. The given module is left unchanged.

    Args:
        reference: the module that it is compared with.
        candidate: the module.
        script: trains it.
        batches: the batches.
        working_dtype: the working dtype.
        seed: seed of torch's random numbers, for draws that the reference doesn't make.
        cells: paths in the reference by paths in the candidate, where they can't be found by name.

    Raises:
        UsageError: `cells` names a path that doesn't exist.
    """

    noun = NAME
    weighs_old = False

    def __init__(
        self,
        reference: torch.nn.Module,
        candidate: torch.nn.Module,
        script: TrainingScript,
        batches: Sequence[Any],
        working_dtype: str,
        seed: int,
        cells: Mapping[str, str] | None,
    ) -> None:
        self.name = NAME
        self.checks = native_checks(working_dtype)
        self._reference = network_state(reference)
        self._prefixes = Prefixes.between(reference, candidate, cells)
        self.network = copy.deepcopy(candidate)
        self._own = network_state(self.network)
        self._load(self.network, reference)
        self._training = TorchTraining(self.network, script, batches, working_dtype, seed)
        self._own_names: dict[Quantity, Quantity] = {}

    def _load(self, module: torch.nn.Module, reference: torch.nn.Module) -> None:
        """Give a module the reference's values where names and shapes are the same."""
        values = reference.state_dict(keep_vars=True) | dict(reference.named_buffers())
        with torch.no_grad():
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                value = values.get(self._prefixes.rename(name))
                if value is not None and value.shape == tensor.shape:
                    tensor.copy_(value)

    def run(self, dtype: str, draws: Mapping[Draw, Array]) -> TrainingRecord:
        """Train with the reference's random draws; the record has the reference's names."""
        return self._run(dtype, draws, TorchUpdates([]))

    def run_along(
        self, record: TrainingRecord, draws: Mapping[Draw, Array], change: Change | None, trace: ScriptTrace | None
    ) -> TrainingRecord:
        """Train in float64, led along an earlier training, and return the record.

        Args:
            record: the earlier training.
            draws: random draws to replay.
            change: computes another loss; None for the script's own.
            trace: records what the script computes; None if that isn't needed.
        """
        guide = [
            {self._own_names[q]: array for q, array in step.items() if q in self._own_names} for step in record.steps
        ]
        return self._run("float64", draws, TorchUpdates(guide, change=change, trace=trace))

    def _run(self, dtype: str, draws: Mapping[Draw, Array], updates: TorchUpdates) -> TrainingRecord:
        record = self._training.run(dtype, draws, updates=updates)
        self._own_names = {Quantity(q.kind, self._prefixes.rename(q.name)): q for q in record.start}
        record.start = self._renamed(record.start)
        record.steps = [self._renamed(step) for step in record.steps]
        record.trained = {self._prefixes.rename(name): trained for name, trained in record.trained.items()}
        record.losses = updates.losses
        if not any(step.repeated for step in updates.steps):
            record.gradients = [self._renamed_gradients(step.gradients) for step in updates.steps]
            record.passes = [
                [self._renamed_gradients(gradients) for gradients in step.passes] for step in updates.steps
            ]
        return record

    def _renamed_gradients(self, gradients: Mapping[str, Array]) -> dict[str, Array]:
        return {self._prefixes.rename(name): gradient for name, gradient in gradients.items()}

    def run_perturbed(self, draws: Mapping[Draw, Array]) -> None:
        """Return None: both sides hold the same numbers in the same precision."""

    def mismatches(self) -> Iterator[str]:
        """Yield the parameters that only one side has, or that have another shape."""
        own_quantities = self._renamed(self._own)
        for quantity in self._reference | own_quantities:
            if quantity.kind != "parameter":
                continue
            if quantity not in own_quantities:
                yield f"{quantity.name}: the candidate has no such parameter"
            elif quantity not in self._reference:
                yield f"{quantity.name}: only the candidate has this parameter"
            elif self._reference[quantity].shape != own_quantities[quantity].shape:
                shape, reference_shape = list(own_quantities[quantity].shape), list(self._reference[quantity].shape)
                yield f"{quantity.name}: {shape} in the candidate, {reference_shape} in the reference"

    def not_compared(self, of_reference: Quantities, own_quantities: Quantities) -> set[str]:
        """Names of the reference's buffers that the candidate doesn't have."""
        return {quantity.name for quantity in of_reference.keys() - own_quantities.keys() if quantity.kind == "buffer"}

    def _renamed(self, quantities: Quantities) -> Quantities:
        return {Quantity(q.kind, self._prefixes.rename(q.name)): array for q, array in quantities.items()}
