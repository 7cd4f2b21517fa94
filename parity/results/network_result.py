"""`NetworkResult`: the result of a comparison of networks, Cell by Cell, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .cell_report import CellReport, is_inside
from .common_ground import nothing_in_common
from .comparison import (
    AFFECTED,
    FAIL,
    NOT_COMPARED,
    NOT_KNOWN,
    NOT_REACHED,
    REFERENCE_WRONG,
    SCHEMA_VERSION,
    Comparison,
)
from .conditions import Conditions
from .correspondence import Correspondence
from .coverage import Coverage
from .error_shares import ErrorShares
from .hunk import NOWHERE
from .network_verdict import LESS_PRECISE, SAME, NetworkVerdict, network_verdict
from .origin import Origin
from .quantization_costs import QuantizationCosts
from .reproducible import Reproducible
from .structure import LONE_PARAMETER, StructureDifference, join_differences


@dataclass(repr=False)
class NetworkResult:
    """The verdict on two or more sides of a network, as data; `Report` displays it.

    Attributes:
        model: name of the network, as the user gave it; of two, that of the candidate.
        reference: name of the reference side.
        sides: names of the other sides.
        dtype: working dtype.
        train: whether the run was in train mode.
        grads: whether gradients were compared.
        seed: seed of the random numbers.
        cells: reports by module path, parents before children.
        notes: remarks for the reader, e.g. that the run stopped early.
        correspondence: how Cells and parameters of the other sides were paired with the reference's.
        structure: differences in how the network is divided, which are no failures.
        sizes: further sizes of the dynamic dimensions, as `batch=1, length=7`, at which everything was compared.
        probes: what was different about further inputs, derived from the given ones, on which outputs were compared.
        probing_seconds: how long that took, the only number of a report that depends on the machine.
        inputs: number of inputs on which everything was compared; the worst of each comparison is kept.
        strict: whether differences in structure are failures, and so are modules and Cells without a partner.
        error_shares: for the sides of which a Cell's forward pass fails, how much each Cell contributes to the error.
        reproducible: the failing Cells whose causes were looked for, each with its inputs and weights.
        quantization: what 8 bits cost, if that was measured.
        conditions: settings that make the verdict say less, which it therefore names.
        not_known: why parity can't be judged, though nothing that was compared fails; empty if it can.
        coverage: by side, of which of the reference's parameters gradients were compared; of networks that run.
    """

    model: str
    reference: str
    sides: list[str]
    dtype: str
    train: bool
    grads: bool
    seed: int
    cells: dict[str, CellReport]
    notes: list[str] = field(default_factory=list)
    correspondence: Correspondence = field(default_factory=Correspondence)
    structure: list[StructureDifference] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)
    probing_seconds: float = 0.0
    inputs: int = 1
    strict: bool = False
    error_shares: list[ErrorShares] = field(default_factory=list)
    reproducible: list[Reproducible] = field(default_factory=list)
    quantization: QuantizationCosts | None = None
    conditions: Conditions = field(default_factory=Conditions)
    not_known: str = ""
    coverage: dict[str, Coverage] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin, compare=False)

    @property
    def ok(self) -> bool:
        """Whether at least one comparison was made, none failed, and none that should have been made is missing.

        Parity doesn't hold either where a gradient of the reference is wrong, where something is too ill-conditioned to
        be judged, or where too little was compared to know it, though nothing `failed`.
        """
        return (
            not self.failed
            and not self.not_known
            and not any(cell.status in (REFERENCE_WRONG, NOT_KNOWN) for cell in self.cells.values())
        )

    @property
    def failed(self) -> bool:
        """Whether a comparison failed or is missing, or nothing was compared; that may be why parity is `not_known`."""
        compared = [cell for cell in self.cells.values() if cell.comparisons]
        agree = bool(compared or self.not_known) and not any(cell.status in (FAIL, NOT_COMPARED) for cell in compared)
        return not agree or (self.strict and bool(self.divided_differently))

    @property
    def reference_wrong(self) -> list[str]:
        """Paths of the Cells in which the reference's own gradients are wrong, and the others' are right."""
        return [path for path, cell in self.cells.items() if cell.is_reference_wrong]

    @property
    def cells_not_known(self) -> list[str]:
        """Paths of the Cells that can't be judged: too ill-conditioned, or NaN in the reference."""
        unclear = [path for path, cell in self.cells.items() if cell.is_not_known]
        return unclear or [path for path, cell in self.cells.items() if cell.status == NOT_KNOWN]

    @property
    def is_not_known(self) -> bool:
        """Whether nothing failed, and parity can't be judged in some Cells or at all."""
        return not self.failed and bool(self.not_known or self.cells_not_known)

    @property
    def why_not_known(self) -> str:
        """Why parity can't be judged, though nothing failed; empty if it can."""
        if self.not_known or not self.is_not_known:
            return self.not_known
        cells = ", ".join(path or "(root)" for path in self.cells_not_known)
        return f"too ill-conditioned to be judged, or NaN in the reference: {cells}"

    @property
    def divided_differently(self) -> list[str]:
        """The differences in structure, in words: all that `strict` doesn't allow."""
        alone = [f"module {path} is judged in the Cell around it" for path in self.correspondence.unpaired]
        alone += [f"Cell {cell} is the port of no module" for cell in self.correspondence.lone_cells]
        return [*(difference.text for difference in self.structure), *alone]

    @property
    def network_verdict(self) -> NetworkVerdict:
        """Whether the networks as a whole are the same function, whatever their Cells do."""
        comparisons = [(path, c) for path, cell in self.cells.items() for c in cell.comparisons]
        lone = sum(difference.kind == LONE_PARAMETER for difference in self.structure)
        verdict = network_verdict(self.sides, comparisons, lone, self.conditions.tolerance)
        if self.not_known and verdict.verdict in (SAME, LESS_PRECISE):
            return NetworkVerdict(NOT_KNOWN, self.not_known, verdict.side)
        return verdict

    @property
    def nothing_in_common(self) -> str:
        """That the two networks have nothing in common, in a sentence; empty if they have."""
        if not self.failed:
            return ""
        return nothing_in_common(self.sides, self.cells, self.correspondence, self.network_verdict)

    @property
    def conditions_in_words(self) -> list[str]:
        """The conditions of the verdict as phrases, `within the tolerance atol=1e-5, ...`; empty if there are none."""
        phrases = self.conditions.in_words(self.cells)
        for side, coverage in self.coverage.items():
            if coverage.missing:
                phrases.append(coverage.in_words + (f" of the {side}" if len(self.sides) > 1 else ""))
        return phrases

    @property
    def failing(self) -> list[str]:
        """Paths of the Cells that are wrong themselves.

        A Cell whose isolated comparisons fail is wrong by its own ops. If there is none, the Cells that fail end to end
        are listed, without those that contain another failing Cell.
        """
        failing = {path: cell.failures for path, cell in self.cells.items() if cell.failures}
        wrong_alone = [path for path, failures in failing.items() if any(c.of_cell_alone for c in failures)]
        return wrong_alone or [path for path in failing if not any(is_inside(other, path) for other in failing)]

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each Cell by path: its status, or AFFECTED if it differs only because of other Cells.

        It is what all views of a report show, and the Cells that fail are those with the verdict FAIL or NOT_COMPARED.
        """
        wrong = set(self.failing)
        at_fault = {
            FAIL: wrong,
            NOT_COMPARED: wrong,
            NOT_KNOWN: set(self.cells_not_known),
            REFERENCE_WRONG: set(self.reference_wrong),
        }
        return {
            path: AFFECTED if cell.comparisons and path not in at_fault.get(cell.status, {path}) else cell.status
            for path, cell in self.cells.items()
        }

    @property
    def not_reached(self) -> list[str]:
        """Paths of the Cells that no input reached."""
        return [path for path, cell in self.cells.items() if cell.status == NOT_REACHED]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; `docs/report-schema.md` documents the schema, and `schema_version` is its version."""
        verdicts = self.verdicts
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "origin": self.origin.to_dict(),
            "ok": self.ok,
            "network_verdict": self.network_verdict.to_dict(),
            "failing": self.failing,
            "nothing_in_common": self.nothing_in_common,
            "not_known": self.why_not_known,
            "reference_wrong": self.reference_wrong,
            "not_reached": self.not_reached,
            "unpaired": self.correspondence.unpaired,
            "lone_cells": self.correspondence.lone_cells,
            "pairs": [pair.to_dict() for pair in self.correspondence.cells],
            "weights": [weight.to_dict() for weight in self.correspondence.parameters],
            "structure": [difference.to_dict() for difference in self.structure],
            "reference": self.reference,
            "sides": self.sides,
            "dtype": self.dtype,
            "train": self.train,
            "grads": self.grads,
            "seed": self.seed,
            "sizes": self.sizes,
            "probes": self.probes,
            "probing_seconds": round(self.probing_seconds, 1),
            "inputs": self.inputs,
            "strict": self.strict,
            "conditions": self.conditions.to_dict(self.cells) | {"in_words": self.conditions_in_words},
            "worst_input": self.worst[1].input if self.worst else None,
            "error_shares": [shares.to_dict() for shares in self.error_shares],
            "quantization": None if self.quantization is None else self.quantization.to_dict(),
            "notes": self.notes,
            "cells": [cell.to_dict() | {"verdict": verdicts[path]} for path, cell in self.cells.items()],
        }

    def __repr__(self) -> str:
        verdict = "parity holds" if self.ok else f"parity fails in {', '.join(map(repr, self.failing)) or 'no Cell'}"
        if self.is_not_known:
            verdict = f"parity is not known: {self.why_not_known}"
        verdict = ", ".join([verdict, *self.conditions_in_words])
        return f"<{type(self).__name__} of {self.model}, {', '.join(self.sides)} against {self.reference}: {verdict}>"

    def name_networks(self, reference: object, candidate: object) -> None:
        """Name both networks by their classes, with the modules that define them if the classes have the same name."""
        classes = type(reference), type(candidate)
        names = [cls.__name__ for cls in classes]
        if names[0] == names[1] and classes[0] is not classes[1]:
            names = [f"{cls.__module__}.{cls.__name__}" for cls in classes]
        self.origin, self.model = replace(self.origin, reference=names[0]), names[1]

    def join(self, other: NetworkResult) -> None:
        """Add the sides of another report on the same module, run with the same options."""
        self.sides += other.sides
        self._join_probes(other)
        self.correspondence = self.correspondence.joined(other.correspondence)
        join_differences(self.structure, other.structure)
        self.notes += [note for note in other.notes if note not in self.notes]
        self.not_known = self.not_known or other.not_known
        self.reproducible += other.reproducible
        self.error_shares += other.error_shares
        for path, cell in other.cells.items():
            own_cell = self.cells.setdefault(path, replace(cell, comparisons=[]))
            own_cell.comparisons += cell.comparisons
            own_cell.counterpart = own_cell.counterpart or cell.counterpart
            own_cell.explanations += cell.explanations
            own_cell.causes += [cause for cause in cell.causes if cause not in own_cell.causes]
            own_cell.take_findings(cell)

    def join_sizes(self, other: NetworkResult, sizes: str) -> None:
        """Add the comparisons of another report on the same sides, made at other sizes of the dynamic dimensions."""
        self.sizes.append(sizes)
        self._join_probes(other)
        self.not_known = self.not_known or other.not_known
        self.notes += [f"at {sizes}: {note}" for note in other.notes if note not in self.notes]
        self._join_findings(other)
        for path, cell in other.cells.items():
            own_cell = self.cells.setdefault(path, replace(cell, comparisons=[]))
            own_cell.comparisons += [replace(c, sizes=sizes) for c in cell.comparisons]
            own_cell.causes = own_cell.causes or cell.causes
            own_cell.take_findings(cell)

    def join_input(self, other: NetworkResult) -> None:
        """Add a report on one more input: the worse of each two comparisons stays."""
        self.inputs += 1
        self._join_probes(other)
        join_differences(self.structure, other.structure)
        self.not_known = self.not_known or other.not_known
        self.notes += [f"input {self.inputs}: {note}" for note in other.notes if note not in self.notes]
        self._join_findings(other)
        for path, cell in other.cells.items():
            own_cell = self.cells.setdefault(path, replace(cell, comparisons=[]))
            if own_cell.presence == NOT_REACHED:
                own_cell.presence, own_cell.calls, own_cell.entry = cell.presence, cell.calls, cell.entry
            worst = {c.identity: c for c in own_cell.comparisons}
            for c in cell.comparisons:
                if c.identity not in worst or c.severity > worst[c.identity].severity:
                    worst[c.identity] = replace(c, input=self.inputs)
            own_cell.comparisons = list(worst.values())
            own_cell.causes = own_cell.causes or cell.causes
            own_cell.take_findings(cell)

    def replace_probe(self, other: NetworkResult, probe: str, side: str) -> None:
        """Replace what was found in a side with a probe by what another report found on the same inputs.

        The other report has divided the network anew by the values that it has there.
        """
        self.error_shares = [shares for shares in self.error_shares if shares.side != side]
        self.reproducible = []
        self._join_findings(other)
        for cell in self.cells.values():
            cell.comparisons = [c for c in cell.comparisons if (c.side, c.probe) != (side, probe)]
            cell.causes, cell.explanations, cell.graph, cell.hunk, cell.wrong_side = [], [], None, NOWHERE, ""
        for path, cell in other.cells.items():
            own_cell = self.cells.setdefault(path, replace(cell, comparisons=[]))
            failures = [c for c in cell.comparisons if c.side == side and c.status == FAIL]
            own_cell.comparisons += [replace(c, probe=probe) for c in failures]
            own_cell.causes, own_cell.explanations = cell.causes, cell.explanations
            own_cell.take_findings(cell)

    def _join_findings(self, other: NetworkResult) -> None:
        """Keep what the other report has of Cells, and of the errors of sides, of which this one has nothing."""
        sides = {shares.side for shares in self.error_shares}
        self.error_shares += [shares for shares in other.error_shares if shares.side not in sides]
        paths = {reproducible.path for reproducible in self.reproducible}
        self.reproducible += [reproducible for reproducible in other.reproducible if reproducible.path not in paths]

    def _join_probes(self, other: NetworkResult) -> None:
        self.probing_seconds += other.probing_seconds
        self.probes += [probe for probe in other.probes if probe not in self.probes]

    @property
    def worst(self) -> tuple[str, Comparison] | None:
        """The worst comparison and the path of its Cell; a failing one, if there is any."""
        failing = self.failing
        candidates = [(p, c) for p in (failing or self.cells) for c in self.cells[p].comparisons]
        return max(candidates, key=lambda candidate: candidate[1].severity, default=None)
