"""The gap lists: what is known not to pass, and why. `page` writes them out as docs/coverage.md."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = ("forward", "backward", "onnx")
UNTAKEN = "untaken"  # torch.export takes none of the samples
OPERATORS = Path(__file__).with_name("operators_gaps.toml")


@dataclass(frozen=True)
class Gap:
    """Entries that fail for one reason: `kind` is one of `KINDS`, or `UNTAKEN`."""

    kind: str
    reason: str
    entries: tuple[str, ...]


def read(path: Path = OPERATORS) -> list[Gap]:
    """The gaps of the operator database; `ValueError` for an entry listed twice in a kind, or a strange kind."""
    gaps = []
    for item in tomllib.loads(path.read_text())["gap"]:
        reason = item.pop("reason")
        gaps += [Gap(kind, reason, tuple(entries)) for kind, entries in item.items()]
    for kind in {gap.kind for gap in gaps}:
        listed = [entry for gap in gaps if gap.kind == kind for entry in gap.entries]
        twice = sorted({entry for entry in listed if listed.count(entry) > 1})
        if kind not in (*KINDS, UNTAKEN) or twice:
            raise ValueError(f"{path.name}: {kind!r} is no kind, or lists twice {twice}")
    return gaps


def listed(gaps: list[Gap], kind: str) -> set[str]:
    """The entries that a kind's gaps name."""
    return {entry for gap in gaps if gap.kind == kind for entry in gap.entries}


@dataclass(frozen=True)
class Share:
    """How many of the entries that there are to try pass."""

    kind: str
    passed: int
    tried: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.passed / self.tried


def shares(gaps: list[Gap], database: dict[str, Any]) -> list[Share]:
    """What passes of each kind, by the gap list; an entry that fails forward fails in every kind."""
    taken = set(database) - listed(gaps, UNTAKEN)
    failing = listed(gaps, "forward")
    to_try = {
        "forward": taken,
        "backward": {name for name in taken if database[name].supports_autograd},
        "onnx": taken,
    }
    return [Share(kind, len(names - failing - listed(gaps, kind)), len(names)) for kind, names in to_try.items()]
