"""Names of a program as names of attributes and variables, none of which is text that does anything."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection

MAX_LENGTH = 100
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


def identifier(text: str, fallback: str = "x", reserved: Collection[str] | None = None) -> str:
    """An identifier like a text: other characters become `_`.

    Args:
        text: the text.
        fallback: what stands in place of nothing.
        reserved: names that get a `_` behind them; without these, keywords get an `x_` before them.
    """
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text[:MAX_LENGTH])).strip("_")
    if not f"x{name}".isidentifier():
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    name = name or fallback
    if reserved is not None:
        name = name if name.isidentifier() else f"{fallback}_{name}"
        return f"{name}_" if name in reserved else name
    return f"x_{name}" if not name.isidentifier() or keyword.iskeyword(name) else name
