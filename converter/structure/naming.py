"""Names of a program as names of attributes and variables, none of which is text that does anything."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable

LONGEST = 100
"""Characters of a name that is made; one that is kept may be longer."""
_HARMLESS = re.compile(r"[A-Za-z0-9_:/-]+")


def is_harmless(name: str) -> bool:
    """Whether a name can stand for an attribute as it is: whatever text it is put into, it can't end or call anything.

    That is an identifier, or a name of ASCII letters, digits, `_`, `-`, `:` and `/`, as keys of `nn.ModuleDict` and
    names of other exporters' tensors have them (`1x1`, `conv-1`, `onnx::Conv_12`).
    """
    if name.isascii():
        return _HARMLESS.fullmatch(name) is not None
    return name.isidentifier() and unicodedata.normalize("NFKC", name) == name


def identifier(text: str, fallback: str = "x") -> str:
    """An identifier, no keyword, like a text: other characters become `_`."""
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text[:LONGEST])).strip("_")
    if not f"x{name}".isidentifier():
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    name = name or fallback
    return f"x_{name}" if not name.isidentifier() or keyword.iskeyword(name) else name


class Namespace:
    """Names in one place, each of which is given once.

    Args:
        taken: names that are never given.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, name: str) -> None:
        """Let a name not be given from now on."""
        self._taken.add(name)

    def free(self, wanted: str) -> str:
        """A name that is `wanted`, or that with a number if it was given before; taken from now on."""
        name, count = wanted, self._counts.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._counts[wanted] = count
        self._taken.add(name)
        return name
