"""`ScriptProofs`: why two scripts train differently, found by leading the reference along the candidate's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....runtime.errors import CellbridgeError
from ...causes.budget import Budget
from ...checking.engine import compare
from ...results.cause import Cause
from ...results.comparison import Comparison
from ...sides.records import Array, Draw
from ...verdicts.judge import epsilon
from .loss_proofs import LossTrials
from .losses.calls import Change
from .losses.parting import ScriptTrace, parting
from .proofs import Proofs, budget_of_training, prove, trajectory_of
from .quantities import TrainingRecord
from .scripts import ScriptSide, TorchTraining
from .statistics import causes_of_statistics
from .torch_candidate import TorchCandidate
from .torch_updates import Layers, TorchUpdates
from .updates.trajectory import Trajectory, first_difference

MAX_CELLS = 3
"""The most Cells whose differences are told."""


@dataclass(frozen=True)
class ScriptProofs:
    """Looks for the causes of a candidate's training that differs; see `Prove`.

    Attributes:
        reference: the module and its script.
        side: the port, or another module.
        draws: the reference's random draws.
        cells: as for `compare`.
        weights: as for `compare`.
    """

    reference: TorchTraining
    side: ScriptSide
    draws: Mapping[Draw, Array]
    cells: Mapping[str, str] | None
    weights: Mapping[Any, Any] | None

    def __call__(self, run: TrainingRecord, dtype: str, comparisons: Sequence[Comparison]) -> Proofs:
        """Return the causes."""
        if dtype != "float64":  # the reference's gradients along the candidate's way are known in float64
            return Proofs()
        budget = budget_of_training()
        updates = TorchUpdates(run.steps)
        led = self._lead(updates)
        if isinstance(led, str):
            return Proofs(
                explanations=[f"not looked for: torch's script, led along the candidate's parameters, raises {led}"]
            )
        trajectory = trajectory_of(run, updates.steps, comparisons, epsilon("float64"), self._batch_size())
        proofs = Proofs() if trajectory is None else prove(trajectory, budget)
        if trajectory is not None and proofs.network and not budget.limit:
            explained = self._in_eval_mode(run, comparisons, budget) or self._with_another_loss(
                run, updates, comparisons, trajectory, budget
            )
            proofs.explanations += [] if explained else self._differences(run, updates)
            proofs = explained or proofs
        proofs.explanations += [budget.note] if budget.limit else []
        statistics = causes_of_statistics(self.reference.module, led, run, comparisons, self.side.weighs_old)
        proofs.causes += statistics.values()
        proofs.tensors |= {name for names in statistics for name in names}
        return proofs

    def _lead(self, updates: TorchUpdates) -> TrainingRecord | str:
        """Run torch's script along another training; return the error's text if it raises."""
        try:
            return self.reference.run("float64", self.draws, updates=updates)
        except Exception as error:  # noqa: BLE001 the user's script may refuse what it never meets by itself
            return f"{type(error).__name__}: {error}".partition("\n")[0]

    def _batch_size(self) -> int:
        """The length of all arrays of the first batch; 0 if they have several."""
        leaves = pytree.tree_leaves(self.reference.batches[0])
        lengths = {leaf.shape[0] for leaf in leaves if getattr(leaf, "ndim", 0)}
        return int(lengths.pop()) if len(lengths) == 1 else 0

    def _in_eval_mode(self, run: TrainingRecord, comparisons: Sequence[Comparison], budget: Budget) -> Proofs | None:
        """Return the causes if the candidate trains as the reference does with layers in eval mode; None otherwise."""
        for name, layers in LAYERS.items():
            updates = TorchUpdates(run.steps, layers)
            self.reference.run("float64", self.draws, updates=updates)
            trajectory = trajectory_of(run, updates.steps, comparisons, epsilon("float64"), self._batch_size())
            if (
                trajectory is None
                or first_difference(trajectory.gradients, trajectory.expected, trajectory.unit) is not None
            ):
                continue
            proofs = prove(trajectory, budget)
            if proofs.causes or not trajectory.differing():
                causes = [_eval_mode(name, trajectory), *proofs.causes]
                buffers = {quantity.name for quantity in run.start if quantity.kind == "buffer"}
                return Proofs([replace(cause, together=len(causes)) for cause in causes], tensors=buffers)
        return None

    def _with_another_loss(
        self,
        run: TrainingRecord,
        updates: TorchUpdates,
        comparisons: Sequence[Comparison],
        trajectory: Trajectory,
        budget: Budget,
    ) -> Proofs | None:
        """Return the causes if both sides train alike when one of them computes another loss; None otherwise."""

        def of_reference(change: Change) -> Trajectory | None:
            changed = TorchUpdates(run.steps, change=change)
            if isinstance(self._lead(changed), str):  # the script may not go on with another loss
                return None
            return trajectory_of(run, changed.steps, comparisons, epsilon("float64"), self._batch_size())

        def of_candidate(change: Change) -> list[dict[str, Array]] | None:
            if not isinstance(self.side, TorchCandidate):
                return None
            try:
                return self.side.run_along(run, self.draws, change, None).gradients
            except Exception:  # noqa: BLE001 the user's script may not go on with another loss
                return None

        return LossTrials(updates.losses, run.losses, of_reference, of_candidate).proofs(trajectory, budget)

    def _differences(self, run: TrainingRecord, updates: TorchUpdates) -> list[str]:
        """What differs between the networks, or else between the scripts."""
        words, agree = self._differences_of_cells(updates)
        if agree and isinstance(self.side, TorchCandidate):
            traces = ScriptTrace(), ScriptTrace()
            self._lead(TorchUpdates(run.steps, trace=traces[0]))
            self.side.run_along(run, self.draws, None, traces[1])
            words += [where] if (where := parting(traces[0].calls, traces[1].calls)) else []
        return words

    def _differences_of_cells(self, updates: TorchUpdates) -> tuple[list[str], bool]:
        """What a comparison of the networks in train mode, on the first batch, says, and whether they agree."""
        if updates.arguments is None:
            return [], False
        working = getattr(torch, self.reference.working_dtype)
        args, kwargs = pytree.tree_map_only(torch.Tensor, _rounder(working), updates.arguments)
        try:
            report = compare(
                self.reference.module, self.side.network, args, kwargs, cells=self.cells, weights=self.weights,
                train=True, dtype=self.reference.working_dtype, seed=self.reference.seed,
            )  # fmt: skip
        except CellbridgeError as error:
            return [f"the networks can't be compared on the first batch: {error}".partition("\n")[0]], False
        if not report.failing:
            return [
                "on the first batch, in train mode, the networks agree Cell by Cell: the loss differs, or what the "
                "scripts do with gradients"
            ], True
        words = []
        for path in report.failing[:MAX_CELLS]:
            cell = report.cells[path]
            texts = cell.explanations or [cause.summary for cause in cell.causes[:1]]
            words.append(
                f"on the first batch, {path or 'the network itself'} differs: {'; '.join(texts) or 'see there'}"
            )
        return words, False


def _rounder(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor


def _eval_mode(name: str, trajectory: Trajectory) -> Cause:
    error = max((trajectory.error(*item) for item in trajectory.plan.items()), default=0.0)
    return Cause(
        "state",
        f"{name} in eval mode in the candidate, in train mode in the reference",
        "train in train mode: train() of a module; set_train() of a Cell, with use_batch_statistics=None",
        error=error if np.isfinite(error) else 0.0,
        attribute="training", reference_value=True, candidate_value=False, steps=trajectory.steps,
    )  # fmt: skip


def _norms(network: torch.nn.Module) -> list[torch.nn.Module]:
    return [layer for layer in network.modules() if getattr(layer, "running_mean", None) is not None]


LAYERS: dict[str, Layers] = {
    "the network is": lambda network: [network],
    "the norms use their moving statistics: they are": _norms,
}
"""Layers that may be in eval mode in the candidate."""
