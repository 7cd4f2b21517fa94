"""`Finding`: something that is wrong in a checkpoint, or looks so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .....runtime.visible import visible_name

WRONG, LOOK, NOTE = "wrong", "look", "note"
RANKS = (WRONG, LOOK, NOTE)
"""Something is wrong; something may be, and should be looked at; something is worth knowing."""
SHOWN = 4


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or looks so.

    Attributes:
        rank: a member of `RANKS`.
        kind: a short word for what it is, such as "missing".
        tensors: names of the tensors that it is about, of the second checkpoint, or of the first if that lacks them.
        text: what is wrong, as a sentence without its full stop.
        evidence: the numbers that tell so.
        advice: what to do.
    """

    rank: str
    kind: str
    tensors: tuple[str, ...]
    text: str
    evidence: str
    advice: str


def counted(count: int, noun: str) -> str:
    """Return a number of things in words, `1 element` or `2 elements`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def listed(names: Iterable[str]) -> str:
    """Return names for a sentence, the first few of them."""
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(map(visible_name, every[:SHOWN])) + more


def numbers_listed(numbers: Sequence[int]) -> str:
    """Return whole numbers in ascending order for a sentence, successive ones as a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return ", ".join(texts[:SHOWN]) + (f" and {len(texts) - SHOWN} more ranges" if len(texts) > SHOWN else "")
