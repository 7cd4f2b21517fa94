"""`CheckpointReport`: what became of the tensors of a checkpoint in another, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.text import Text

from ...runtime.visible import visible_name
from ..results.comparison import FAIL, SCHEMA_VERSION
from ..results.conditions import Conditions
from ..results.origin import Origin
from ..weights.audit.derivation import Derivation
from ..weights.audit.findings.finding import Finding
from ..weights.audit.result import CheckpointResult
from ..weights.audit.words import way_in_words
from ..weights.map_text import map_text
from ..weights.readers.tensor import StoredCheckpoint
from .base import BaseReport
from .cases import Case
from .checkpoint import checkpoint_lines, finding_lines
from .html.checkpoint_page import checkpoint_page
from .html.page import Page


class CheckpointReport(CheckpointResult, BaseReport):
    """The verdict on a converted checkpoint.

    Printed, it shows a line for each kind of tensor, what it is made of and how, and the findings.
    """

    def __init__(
        self, before: StoredCheckpoint, after: StoredCheckpoint, derivation: Derivation, findings: list[Finding]
    ) -> None:
        notes = [f"{c.path}: {note}" for c in (before, after) for note in c.notes]
        notes += [f"{c.path}: left out: {', '.join(c.skipped)}" for c in (before, after) if c.skipped]
        super().__init__(before, after, derivation, findings, notes)
        self.origin = Origin(reference=before.path)
        self.model, self.sides, self.dtype, self.conditions = after.path, [after.path], "", Conditions()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        derivation = self.derivation
        return {
            "schema_version": SCHEMA_VERSION,
            "before": {"path": self.before.path, "format": self.before.format, "tensors": len(derivation.before)},
            "after": {"path": self.after.path, "format": self.after.format, "tensors": len(derivation.after)},
            "origin": self.origin.to_dict(),
            "ok": self.ok,
            "sentence": self.sentence,
            "headline": self.headline,
            "findings": [asdict(finding) | {"tensors": list(finding.tensors)} for finding in self.findings],
            "tensors": {
                name: {
                    "shape": list(sketch.tensor.shape),
                    "dtype": sketch.tensor.dtype,
                    "sources": list(derivation.origins[name].sources) if name in derivation.origins else [],
                    "way": way_in_words(derivation, name) if name in derivation.origins else "",
                    "map": derivation.origins[name].join.assembly.as_dict() if name in derivation.origins else None,
                    "error": derivation.origins[name].agreement.error if name in derivation.origins else None,
                }
                for name, sketch in derivation.after.items()
            },
            "unused": derivation.unused,
            "notes": self.notes,
        }

    def map_text(self) -> str:
        """Return what the tensors are made of as a map file, which `parity weights --map` takes."""
        derivation = self.derivation
        assemblies = {name: origin.join.assembly for name, origin in derivation.origins.items()}
        remarks = [f"comes from nowhere: {visible_name(name)}" for name in derivation.unknown]
        reference, port = list(derivation.before), list(derivation.after)
        return map_text(assemblies, {}, remarks, derivation.unused, reference, port)

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """Return a line for each kind of tensor, the findings and the verdict; `verbose` has one for each tensor."""
        return checkpoint_lines(self, width, verbose)

    def failure_lines(self, width: int) -> list[Text]:
        """Return the mistakes."""
        return [line for finding in self.wrong for line in [*finding_lines(finding, width), Text()]]

    def cases(self) -> Iterable[Case]:
        """Return a case for each tensor; it fails if something is wrong with it, or with what it should be made of."""
        names = dict.fromkeys([*self.derivation.after, *(n for f in self.findings for n in f.tensors)])
        for name in names:
            wrong = [finding for finding in self.wrong if name in finding.tensors]
            if wrong:
                detail = "\n".join(f"{finding.evidence}\n{finding.advice}" for finding in wrong)
                yield Case(name, "failure", wrong[0].text, FAIL, detail)
            else:
                yield Case(name)

    def page(self) -> Page:
        """Return the tensors as rows, and the findings."""
        return checkpoint_page(self, self.origin.facts)
