"""Python expressions as text with precedence, and with holes for literals.

A literal (a size, an axis, a rate) is written as a hole, so that classes that differ in literals only can be merged:
where instances differ, the literal becomes an argument.
"""

from __future__ import annotations

import keyword
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....runtime.visible import visible_name
from ...structure import naming

ATOM, POWER, NEGATION, PRODUCT, SUM, SHIFT, BIT_AND, BIT_XOR, BIT_OR, COMPARISON = range(100, 0, -10)
"""Precedence levels, from a name or call down to a comparison."""


_HOLE = re.compile("\x01(\\d+)\x02")
_LIST = re.compile("\x03([^\x03\x05]*)\x05")

RESERVED = frozenset(
    {*keyword.kwlist, "self", "ms", "nn", "ops", "Tensor", "Parameter", "initializer", "attention", "math"}
    | {"super", "getattr", "isinstance", "len", "range", "zip", "enumerate", "reversed", "sorted", "any", "all"}
    | {"tuple", "list", "int", "float", "bool", "str", "type", "max", "min", "load_checkpoint", "load_param_into_net"}
)
"""Names that variables and arguments of the generated source can't have."""


@dataclass(frozen=True)
class Expression:
    """The text of an expression, and its precedence."""

    text: str
    level: int = ATOM

    def within(self, level: int) -> str:
        """The text, in parentheses if its precedence is lower than `level`."""
        return self.text if self.level >= level else f"({self.text})"


def call(function: str, *arguments: str, **named: str | None) -> Expression:
    """`function(arguments, name=argument)`; named arguments that are None are omitted."""
    all_arguments = [*arguments, *(f"{name}={text}" for name, text in named.items() if text is not None)]
    return Expression(f"{function}({', '.join(all_arguments)})")


def method(on: Expression, name: str, *arguments: str, **named: str | None) -> Expression:
    """`on.name(arguments)`."""
    return call(f"{on.within(ATOM)}.{name}", *arguments, **named)


def infix(operator: str, level: int, a: Expression, b: Expression) -> Expression:
    """`a operator b`, left-associative."""
    if level == POWER:
        return Expression(f"{a.within(POWER + 1)} ** {b.within(POWER)}", POWER)
    right = b.within(level + 1)
    left = a.within(level + 1 if level == COMPARISON else level)
    return Expression(f"{left} {operator} {right}", level)


def tuple_literal(texts: list[str]) -> str:
    """The literal of a tuple of expressions."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def number(value: Any) -> str:
    """The literal of a number; for a NumPy number, the shortest literal that restores it."""
    if isinstance(value, (np.bool_, bool)):
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    value = float(str(value)) if isinstance(value, np.floating) else value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def quote(value: Any) -> str:
    """The literal of a constant: strings in double quotes, with escapes for invisible characters."""
    if not isinstance(value, str):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{visible_name(escaped)}"'


def identifier(text: str, fallback: str = "x") -> str:
    """`text` as a name that is valid in a generated source."""
    return naming.identifier(text, fallback, RESERVED)


def attribute_of(on: str, name: str) -> str:
    """`on.name`, for any name."""
    return f"{on}.{name}" if is_attribute(name) else f"getattr({on}, {quote(name)})"


def is_attribute(name: str) -> bool:
    """Whether `self.name` accesses the attribute of exactly that name, also within a class; False for special ones."""
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    return plain and not keyword.iskeyword(name) and not name.startswith("__")


class Literals:
    """The literals of one generated source, each with its name as an argument."""

    def __init__(self) -> None:
        self.values: list[tuple[str, str]] = []

    def hole(self, text: str, name: str) -> str:
        """Add a literal; return the hole that represents it."""
        self.values.append((text, name))
        return f"\x01{len(self.values) - 1}\x02"

    def text(self, hole: int) -> str:
        """The literal of a hole."""
        return self.values[hole][0]

    def name(self, hole: int) -> str:
        """The name of a literal."""
        return self.values[hole][1]


def holes(text: str) -> list[int]:
    """The holes in a text, in order."""
    return [int(number) for number in _HOLE.findall(text)]


def skeleton(text: str) -> str:
    """A text without its literals, which is equal for texts that differ in literals only."""
    return _HOLE.sub("\x01\x02", text)


def fill_holes(text: str, fill: Callable[[int], str]) -> str:
    """The text with its holes filled and its lists expanded."""
    text = _HOLE.sub(lambda match: fill(int(match[1])), text)
    while _LIST.search(text):
        text = _LIST.sub(lambda match: _list_text(match[1].split("\x04")), text)
    return text


def elements(texts: list[str]) -> str:
    """A list, which becomes a comprehension if its elements are equal."""
    return "\x03" + "\x04".join(texts) + "\x05"


def _list_text(texts: list[str]) -> str:
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"[{texts[0]} for _ in range({len(texts)})]"
    return f"[{', '.join(texts)}]"
