"""`CheckpointResult`: what became of a checkpoint, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..readers.tensor import StoredCheckpoint
from .derivation import Derivation
from .findings.finding import LOOK, WRONG, Finding


@dataclass
class CheckpointResult:
    """The verdict on a converted checkpoint, as data; `CheckpointReport` displays it.

    Attributes:
        before: the checkpoint that was converted.
        after: what it was converted to.
        derivation: what became of each tensor.
        findings: what is wrong, or looks so, the worst first.
        notes: remarks for the reader.
    """

    before: StoredCheckpoint
    after: StoredCheckpoint
    derivation: Derivation
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[Finding]:
        """The findings of something that is wrong."""
        return [finding for finding in self.findings if finding.rank == WRONG]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    @property
    def to_look_at(self) -> int:
        """The number of findings that should be looked at."""
        return sum(finding.rank == LOOK for finding in self.findings)

    @property
    def headline(self) -> str:
        """The first mistake."""
        return self.wrong[0].text if self.wrong else self.sentence

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        explained, total = len(self.derivation.origins), len(self.derivation.after)
        known = f"{explained} of {total} tensors of {self.after.path} come from {self.before.path}"
        if not self.ok:
            return f"{len(self.wrong)} mistake{'s' * (len(self.wrong) > 1)} in {self.after.path}; {known}"
        if self.to_look_at:
            return f"Nothing is wrong, and {self.to_look_at} should be looked at: {known}"
        return f"The weights arrived whole: {known}"
