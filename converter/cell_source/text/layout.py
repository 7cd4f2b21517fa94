"""Layout of source lines in the style of a formatter: at most 100 characters, broken at brackets."""

from __future__ import annotations

import re
from itertools import pairwise

WIDTH = 100
INDENT = "    "
_STRING = re.compile(r"""(["'])(?:(?!\1)[^\\]|\\.)*\1""")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def lay_out(line: str, depth: int = 0) -> list[str]:
    """One logical line as lines of at most `WIDTH` characters, where brackets allow."""
    margin = INDENT * depth
    if len(margin) + len(line) <= WIDTH:
        return [margin + line]
    start_of_value = _value(line)
    if start_of_value and _joins_several(line[start_of_value:]):
        value = line[start_of_value:]
        if len(margin) + len(INDENT) + len(value) <= WIDTH:
            return [f"{margin}{line[:start_of_value]}(", margin + INDENT + value, f"{margin})"]
    bracket = _last_bracket(line)
    if bracket is None:
        return [margin + line]
    start, end = bracket
    head, inside, tail = line[: start + 1], line[start + 1 : end], line[end:]
    if len(margin) + len(INDENT) + len(inside) <= WIDTH and not inside.endswith(","):
        return [margin + head, margin + INDENT + inside, margin + tail]
    lines = [margin + head]
    items = _split(inside)
    for item in items:
        comma = "" if len(items) == 1 and (item[0] in _PAIRS or " for " in item) else ","
        lines += lay_out(item + comma, depth + 1)
    return [*lines, margin + tail]


def _value(line: str) -> int:
    """The position of the value in an assignment or a return; 0 if the line is neither."""
    if line.startswith("return "):
        return len("return ")
    match = re.match(r"[\w., ()\[\]]+ = ", line)
    return match.end() if match else 0


def _joins_several(value: str) -> bool:
    """Whether a value is a chain of calls or has three operands or more: such a value is put in parentheses."""
    outside = list(_mask_strings(value))
    for start, end in _brackets(value):
        outside[start + 1 : end] = "." * (end - start - 1)
    text = "".join(outside)
    counts = [len(re.findall(operators, text)) for operators in (r" [-+] ", r" (?:[*/%@]|//) ")]
    loosest = next((count for count in counts if count), 0)
    return loosest > 1 or (not loosest and len(re.findall(r"[)\]]\.\w", text)) > 1)


def _mask_strings(line: str) -> str:
    """The line with each character of a string replaced by a letter, which hides brackets and commas there."""
    return _STRING.sub(lambda match: "s" * len(match[0]), line)


def _brackets(line: str) -> list[tuple[int, int]]:
    """Start and end of each outermost pair of brackets that isn't in a string."""
    pairs: list[tuple[int, int]] = []
    open_at: list[int] = []
    for i, character in enumerate(_mask_strings(line)):
        if character in _PAIRS:
            open_at.append(i)
        elif character in _PAIRS.values():
            start = open_at.pop()
            if not open_at:
                pairs.append((start, i))
    return pairs


def _last_bracket(line: str) -> tuple[int, int] | None:
    """The last outermost pair of brackets with contents; None if there is none."""
    pairs = [pair for pair in _brackets(line) if pair[1] - pair[0] > 1]
    return pairs[-1] if pairs else None


def _split(inside: str) -> list[str]:
    """The parts between commas outside brackets and strings."""
    covered = _brackets(inside)
    cuts = [-1]
    for i, character in enumerate(_mask_strings(inside)):
        if character == "," and not any(start < i < end for start, end in covered):
            cuts.append(i)
    cuts.append(len(inside))
    return [item for a, b in pairwise(cuts) if (item := inside[a + 1 : b].strip())]
