"""The gap lists: known failures with reasons. `page` writes them to docs/coverage.md."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = ("forward", "backward", "onnx")
NOT_EXPORTED = "untaken"  # torch.export refuses all samples
OPERATORS = Path(__file__).with_name("operators_gaps.toml")


@dataclass(frozen=True)
class Gap:
    """Entries that fail for one reason: `kind` is one of `KINDS`, or `NOT_EXPORTED`."""

    kind: str
    reason: str
    entries: tuple[str, ...]


def read(path: Path = OPERATORS) -> list[Gap]:
    """Read the gaps of the operator database; raise `ValueError` for duplicates in a kind, or an unknown kind."""
    gaps = []
    for item in tomllib.loads(path.read_text())["gap"]:
        reason = item.pop("reason")
        gaps += [Gap(kind, reason, tuple(entries)) for kind, entries in item.items()]
    for kind in {gap.kind for gap in gaps}:
        entries_of = [entry for gap in gaps if gap.kind == kind for entry in gap.entries]
        twice = sorted({entry for entry in entries_of if entries_of.count(entry) > 1})
        if kind not in (*KINDS, NOT_EXPORTED) or twice:
            raise ValueError(f"{path.name}: {kind!r} is no kind, or lists twice {twice}")
    return gaps


def entries_of(gaps: list[Gap], kind: str) -> set[str]:
    """Return the entries that a kind's gaps name."""
    return {entry for gap in gaps if gap.kind == kind for entry in gap.entries}


@dataclass(frozen=True)
class Share:
    """The number of passing entries among those tried."""

    kind: str
    passed: int
    tried: int

    @property
    def share(self) -> float:
        """The share of passing entries, between 0 and 1."""
        return self.passed / self.tried


def shares(gaps: list[Gap], database: dict[str, Any]) -> list[Share]:
    """Return the shares of each kind by the gap list; an entry that fails forward fails in every kind."""
    exported = set(database) - entries_of(gaps, NOT_EXPORTED)
    failing = entries_of(gaps, "forward")
    to_try = {
        "forward": exported,
        "backward": {name for name in exported if database[name].supports_autograd},
        "onnx": exported,
    }
    return [Share(kind, len(names - failing - entries_of(gaps, kind)), len(names)) for kind, names in to_try.items()]
