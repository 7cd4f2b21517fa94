"""Conversion of a program's names to safe names of attributes and variables, which can't act as code."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection

MAX_LENGTH = 100
"""Characters of a generated name; an original name may be longer."""
KEYWORDS = frozenset(keyword.kwlist)
_HARMLESS = re.compile(r"[A-Za-z0-9_:/-]+")


def is_harmless(name: str) -> bool:
    """Whether a name can be an attribute unchanged: in no text can it end a string or call anything.

    Such names are identifiers, and names of ASCII letters, digits, `_`, `-`, `:` and `/`, such as keys of
    `nn.ModuleDict` and other exporters' names of tensors (`1x1`, `conv-1`, `onnx::Conv_12`).
    """
    if name.isascii():
        return _HARMLESS.fullmatch(name) is not None
    return name.isidentifier() and unicodedata.normalize("NFKC", name) == name


def identifier(text: str, fallback: str = "x", reserved: Collection[str] = KEYWORDS) -> str:
    """Turn a text into an identifier; other characters become `_`.

    Args:
        text: the text.
        fallback: the result for an empty text, and a prefix for one that begins with a digit.
        reserved: names that get the suffix `_`, as PEP 8 recommends.
    """
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text[:MAX_LENGTH])).strip("_")
    if not f"x{name}".isidentifier():
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    name = name or fallback
    name = name if name.isidentifier() else f"{fallback}_{name}"
    return f"{name}_" if name in reserved else name
