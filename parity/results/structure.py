"""`StructureDifference`: a difference between two networks in how they are divided, not in what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

NOT_CALLED = "not called"
CALLED_DIFFERENTLY = "called differently"
ADDITIONAL_CELL = "additional Cell"
LONE_PARAMETER = "lone parameter"
PREFIX = "prefix"
MODE = "mode"
OTHER_PARTS = "other parts"
OTHER_RESULT = "other result"


@dataclass(frozen=True, slots=True)
class StructureDifference:
    """A difference that is no failure as long as the Cell around it computes the same.

    Attributes:
        kind: NOT_CALLED, CALLED_DIFFERENTLY, ADDITIONAL_CELL (the candidate has it and the reference hasn't),
            LONE_PARAMETER, PREFIX, MODE (in train mode on one side alone), OTHER_RESULT (a result in another container)
            or OTHER_PARTS (a parameter that the candidate has in part, in copies or as one with another).
        name: path of the Cell, qualified name of the parameter, or the prefix.
        around: path of the Cell that was judged for it.
        text: the difference in words.
    """

    kind: str
    name: str
    around: str
    text: str

    def to_dict(self) -> dict[str, str]:
        """Return the fields as JSON values."""
        return asdict(self)


def join_differences(differences: list[StructureDifference], others: Sequence[StructureDifference]) -> None:
    """Add the differences that aren't in the list yet."""
    differences += [difference for difference in others if difference not in differences]
