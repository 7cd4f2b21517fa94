"""`ReferenceRuns`: the reference run on probes in float64, once for all sides that are asked the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import is_floating
from ...sides.records import INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from ...sides.reported_cells import require_elements, require_finite
from ...sides.run import Call, Run, Wanted
from ...sides.side import Side
from ...verdicts.deviations import size
from .inside import layers_of, with_other_values
from .probe import Change, Probe

OnReference = tuple[Run, Records]
"""The settings of a run of the reference, with which a side is run on the same, and its records."""
GRADIENTS = (INPUT_GRADIENT, OUTPUT_GRADIENT)


@dataclass
class ReferenceRuns:
    """Runs of the reference on probes.

    Attributes:
        reference: the reference.
        truth: its records in float64, on the given inputs.
        replayed: the settings of its run.
        kept: whether the runs are kept, since several sides are judged.
    """

    reference: Side
    truth: Records
    replayed: Run
    kept: bool
    _runs: dict[tuple[str, bool, bool], list[tuple[Probe, OnReference | None]]] = field(default_factory=dict)

    def on(self, probe: Probe, *, grads: bool, calls: bool) -> OnReference | None:
        """Return the settings and records of a run in float64; None if it can't be judged by.

        Args:
            probe: the probe.
            grads: whether it runs backward.
            calls: whether the calls of Cells are recorded, too, which a port counts.
        """
        runs = self._runs.setdefault((probe.name, grads, calls), [])
        # probes of one name differ where they come from the side: the values at which its operations switch
        for earlier, on_reference in runs:
            if earlier.asks_the_same(probe):
                return on_reference
        try:
            on_reference = self.run(probe, grads=grads, calls=calls)
        except CellbridgeError:  # it doesn't take these inputs, or its outputs aren't finite
            on_reference = None
        if self.kept:
            runs.append((probe, on_reference))
        return on_reference

    def run(self, probe: Probe, *, grads: bool, calls: bool) -> OnReference | None:
        """Return the same, run anew.

        Raises:
            CellbridgeError: the reference doesn't take the inputs, or its outputs aren't finite.
        """
        settled = replace(self.replayed.reference, cotangents=None, choices={})
        run = replace(self.replayed, reference=settled).want(grads=grads)
        if probe.inside is not None:
            feed = with_other_values(self.truth, layers_of(self.reference), probe.inside)
            if feed is None:
                return None
            cotangents = self.replayed.reference.cotangents if grads else None
            run = replace(run, feed=feed, reference=replace(settled, cotangents=cotangents))
            truth = self.reference.run(run)
            if grads and not _has_finite_gradients(truth):
                return None
            finite = {key: array for key, array in truth.values.items() if key.path == "" or share_finite(array) == 1}
            return run, replace(truth, values=finite)
        if probe.needs_live:
            run = Run("float64", Wanted(grads))
        run = replace(run, call=Call(probe.arguments, probe.before, other_mode=probe.other_mode))
        if probe.cotangents is not None:
            changed = [_changed(g, probe.cotangents) for g in self.truth.gradients.cotangents]
            run = replace(run, reference=replace(run.reference, cotangents=changed))
        # without gradients, only the root is judged
        inner = grads or probe.needs_live or bool(self.truth.draws) or calls
        truth = self.reference.run(run.want(inner=inner))
        slots = truth.slots if inner else {**self.truth.slots, **truth.slots}
        require_elements(truth)
        outputs = [truth.values[key] for key in truth.root_keys(OUTPUT)]
        if not probe.not_finite:
            require_finite(truth, "float64")
        elif not any(map(share_finite, outputs)):
            return None
        if grads and not _has_finite_gradients(truth):
            return None
        cotangents = truth.gradients.cotangents if grads else None
        settled = replace(run.reference, slots=slots, result=truth.result, draws=truth.draws, cotangents=cotangents)
        run = replace(run, reference=settled).want(inner=False)
        return run, replace(truth, values=_at_root(truth))


def share_finite(array: Array) -> float:
    """The share of a tensor's elements that are finite, from 0 to 1."""
    return float(np.isfinite(array.astype(np.float64)).mean()) if is_floating(array.dtype) and array.size else 1.0


def _changed(array: Array | None, change: Change) -> Array | None:
    return None if array is None else change(torch.from_numpy(array)).numpy()


def _has_finite_gradients(truth: Records) -> bool:
    gradients = [array for key, array in truth.values.items() if key.kind in GRADIENTS]
    gradients += [gradient for gradient in truth.gradients.parameters.values() if gradient is not None]
    return all(share_finite(gradient) == 1 for gradient in gradients if gradient.size)


def _at_root(truth: Records) -> dict[Key, Array]:
    """The values at the root, and the sizes of the gradients inside, since all values take much memory."""
    of_gradients = {
        key: np.asarray(size(array)) for key, array in truth.values.items() if key.path and key.kind in GRADIENTS
    }
    return {key: array for key, array in truth.values.items() if not key.path} | of_gradients
