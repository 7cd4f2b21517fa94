"""`NetworkVerdict`: whether two networks as a whole are the same function, beside the verdicts on their Cells.

It is decided end to end: by the root's outputs, the gradients of its inputs, buffer updates, and the gradients of all
parameters; and by the root's outputs in a second call. What happens at the boundaries of Cells doesn't matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .comparison import FAIL, NOT_COMPARED, NOT_KNOWN, PASS, REFERENCE_WRONG, Comparison, times

SAME = "the same function"
NOT_SAME = "not the same function"
LESS_PRECISE = "the same function, less precise"

_WORST_LAST = (SAME, LESS_PRECISE, NOT_KNOWN, NOT_SAME)
_OF_ROOT = ("output", "input gradient", "call")
_OF_ALL = ("parameter gradient", "buffer update")


@dataclass(frozen=True, slots=True)
class NetworkVerdict:
    """The verdict on a network as a whole.

    Attributes:
        verdict: SAME, NOT_SAME, LESS_PRECISE or NOT_KNOWN.
        because: for NOT_SAME and NOT_KNOWN, the reason; for LESS_PRECISE, what is least precise; otherwise what was
            compared.
        side: the side that this is about: the worst, if there are several.
        within: the tolerance that was given, in words; empty where the bars were computed.
    """

    verdict: str
    because: str
    side: str = ""
    within: str = ""

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.verdict == SAME:
            return f"{SAME}{f' within {self.within}' if self.within else ''}, by its {self.because}"
        side = f"{self.side}: " if self.side else ""
        return f"{side}{self.verdict}, because {self.because}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"verdict": self.verdict, "because": self.because, "side": self.side, "sentence": self.sentence}


def network_verdict(
    sides: Sequence[str], comparisons: Iterable[tuple[str, Comparison]], lone_parameters: int = 0, within: str = ""
) -> NetworkVerdict:
    """Return the worst verdict on some sides.

    Args:
        sides: names of the sides.
        comparisons: all comparisons of a report, each with the path of its Cell.
        lone_parameters: number of parameters that only one side has, whose gradients aren't compared.
        within: the tolerance that was given instead of the computed bars, in words.
    """
    decisive = [(path, c) for path, c in comparisons if _is_decisive(path, c)]
    verdicts = [_of_side(side, [(path, c) for path, c in decisive if c.side == side], within) for side in sides]
    if not verdicts:
        return NetworkVerdict(NOT_KNOWN, "nothing was compared")
    worst = max(verdicts, key=lambda verdict: _WORST_LAST.index(verdict.verdict))
    if worst.verdict == SAME and lone_parameters:
        count = f"{lone_parameters} parameter{'' if lone_parameters == 1 else 's'}"
        return replace(worst, because=f"{worst.because} (not compared: {count} that only one side has)")
    return worst


def _is_decisive(path: str, c: Comparison) -> bool:
    if c.feeding == "isolated":
        return False
    return (not path and c.kind in _OF_ROOT) or c.kind in _OF_ALL or (c.kind == "call" and c.status == FAIL)


def _of_side(side: str, decisive: list[tuple[str, Comparison]], within: str) -> NetworkVerdict:
    failed = [(path, c) for path, c in decisive if c.status == FAIL]
    different = [(path, c) for path, c in failed if c.check != "rounding" or c.index is None]
    if different:
        return NetworkVerdict(NOT_SAME, _reason(*different[0], within), side)
    if not any(c.kind == "output" for _, c in decisive):
        return NetworkVerdict(NOT_KNOWN, "its outputs were not compared end to end", side)
    if missing := [(path, c) for path, c in decisive if c.status in (NOT_COMPARED, NOT_KNOWN)]:
        return NetworkVerdict(NOT_KNOWN, _reason(*missing[0], within), side)
    if any(c.status == REFERENCE_WRONG for _, c in decisive):
        return NetworkVerdict(NOT_KNOWN, "gradients of the reference are wrong, which it can't be judged by", side)
    if failed:
        worst = max(failed, key=lambda failure: failure[1].severity)
        if any(c.check == "meaning" for _, c in decisive):
            return NetworkVerdict(LESS_PRECISE, _reason(*worst, within), side)
        return NetworkVerdict(NOT_KNOWN, f"{_reason(*worst, within)}, and nothing was compared in float64", side)
    gradients = any(c.kind.endswith("gradient") and c.status == PASS for _, c in decisive)
    return NetworkVerdict(SAME, "outputs and gradients" if gradients else "outputs", side, within)


def _reason(path: str, c: Comparison, within: str) -> str:
    """Why a comparison fails, in a clause."""
    if c.kind == "call":
        return f"{path or 'it'} {c.reason}"
    call = f" in a {c.feeding}" if c.feeding in ("second call", "third call") else ""
    call += f" with {c.probe}" if c.probe else ""
    name = c.kind if c.tensor in ("", c.kind) else f"{c.kind} {c.tensor}"
    if c.index is None or c.status == NOT_KNOWN:
        return f"of its {name}{call}: {c.reason}"
    off = f"its {name} is off by {c.error:.3g}{call}"
    if c.check == "meaning" and not within:
        return f"{off} in float64, where up to {c.bar:.3g} passes"
    unit = "a step" if c.check == "quantization" else within or "the reference's own rounding error"
    return f"{off}, {times(c.ratio)} {unit}"
