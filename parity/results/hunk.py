"""`Hunk`: the lines of the reference and of the candidate at a place where the two networks part."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

_IN_A_FILE = re.compile(r"(.*?):(\d+): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of a network's code, or a node of a network without code.

    Attributes:
        file: the file; empty if there is none, or it isn't known.
        line: the number of the line, from 1; 0 without a file.
        text: the text of the line, or of the statement that begins there; without a file, the node of an ONNX file or
            the like; empty if neither is known.
        ops: the ops of the program that stand there and differ, or compute what differs.
    """

    file: str = ""
    line: int = 0
    text: str = ""
    ops: tuple[str, ...] = ()

    @classmethod
    def read(cls, source: str) -> CodeLine:
        """Return the line that `file:line: text`, or the name of a node, says."""
        match = _IN_A_FILE.fullmatch(source)
        return cls(match[1], int(match[2]), match[3].strip()) if match else cls(text=source)

    @property
    def in_words(self) -> str:
        """The text or, where it isn't known, the ops."""
        return self.text or ", ".join(self.ops)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"ops": list(self.ops)}


@dataclass(frozen=True, slots=True)
class Hunk:
    """The lines of both sides, in the order in which they are computed; none where a side's aren't known.

    Attributes:
        reference: the reference's.
        candidate: the candidate's. Of what is left out there, they are those of what goes on in its place.
    """

    reference: tuple[CodeLine, ...] = ()
    candidate: tuple[CodeLine, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.reference or self.candidate)

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        """The texts of the lines of each side, without files and numbers."""
        return [line.text for line in self.reference], [line.text for line in self.candidate]

    def filled_from(self, other: Hunk) -> Hunk:
        """Return the hunk with the other's lines of a side of which it has none."""
        return Hunk(self.reference or other.reference, self.candidate or other.candidate)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "reference": [line.to_dict() for line in self.reference],
            "candidate": [line.to_dict() for line in self.candidate],
        }


NOWHERE = Hunk()
"""Of a place of which nothing is known."""
