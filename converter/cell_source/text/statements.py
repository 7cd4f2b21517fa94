"""Statements of a construct: first with values, then with names, then with loops over lists of Cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ....runtime.ir.types import Value, is_floating
from ....runtime.namespace import unique_name
from .expressions import identifier

_MARK = re.compile("\x06(\\d+)\x07")
_ASSIGNED = re.compile(r"([A-Za-z_][\w\s,()]*?)\s*[-+*/@|&^]?=(?!=)")


class ValueMarks:
    """Values in a text, each represented by a mark that a name replaces later."""

    def __init__(self) -> None:
        self.values: list[Value] = []

    def mark(self, value: Value) -> str:
        """The mark of a value."""
        if value not in self.values:
            self.values.append(value)
        return f"\x06{self.values.index(value)}\x07"

    def within(self, text: str) -> list[Value]:
        """The values in a text, in order, with repetitions."""
        return [self.values[int(mark)] for mark in _MARK.findall(text)]

    def fill(self, text: str, name: Callable[[Value], str]) -> str:
        """The text with names instead of marks."""
        return _MARK.sub(lambda match: name(self.values[int(match[1])]), text)


@dataclass
class Statement:
    """One statement.

    Attributes:
        text: the expression, or the whole statement if nothing is assigned.
        targets: the assigned values; None for an unused one.
        pattern: the pattern of the targets; `{0}` is the first.
        hints: names for the targets in the original, the best first.
        fallback: a name for the case that no hint is free, nor the name of a value that is no longer needed.
    """

    text: str
    targets: Sequence[Value | None] = ()
    pattern: str = "{0}"
    hints: Sequence[Sequence[str]] = ()
    fallback: str = ""


def assign_names(
    statements: Sequence[Statement], marks: ValueMarks, arguments: dict[Value, str], protected: Iterable[str]
) -> list[str]:
    """The statements as lines, with names that never overwrite a value that is still needed.

    Args:
        statements: the statements in order.
        marks: the marks of their values.
        arguments: names of the arguments.
        protected: names that must not be assigned.
    """
    last = {value: i for i, statement in enumerate(statements) for value in marks.within(statement.text)}
    names = dict(arguments)
    holders = {name: value for value, name in arguments.items()}
    reserved = set(protected)
    lines: list[str] = []
    for i, statement in enumerate(statements):
        text = marks.fill(statement.text, names.__getitem__)
        read = marks.within(statement.text)
        last_used = {value for value in read if last[value] == i}
        free = {name for name, value in holders.items() if last.get(value, -1) <= i} - reserved
        targets: list[str] = []
        for k, target in enumerate(statement.targets):
            if target is None:
                targets.append("_")
                continue
            hints = [*(statement.hints[k] if statement.hints else ())]
            if read and read[0] in last_used and is_floating(read[0].dtype) == is_floating(target.dtype):
                hints.append(names[read[0]])
            hints += [statement.fallback, *(names[value] for value in read[:1])]
            name = _choose_name(hints, {n for n in holders if n not in free} | reserved | set(targets))
            names[target] = name
            holders[name] = target
            targets.append(name)
        lines.append(f"{statement.pattern.format(*targets)} = {text}" if targets else text)
    return lines


def _choose_name(hints: Sequence[str], reserved: set[str]) -> str:
    """The first free hint, else the first hint with a number."""
    candidates = [name for name in hints if name] or ["x"]
    free = next((name for name in candidates if name not in reserved), None)
    return free or unique_name(re.sub(r"_\d+$", "", candidates[0]), reserved)


def assigned_names(line: str) -> list[str]:
    """The names that a line of Python assigns: `a, (b, c) = ...`."""
    match = _ASSIGNED.match(line)
    return [identifier(name) for name in re.findall(r"\w+", match[1])] if match else []


def merge_into_loops(lines: Sequence[str], lists: dict[str, int]) -> list[str]:
    """Replace lines that call the elements of a list one after the other, in the same way, by a loop over the list.

    Args:
        lines: the lines of a construct.
        lists: the number of elements of each list, by its expression.
    """
    result: list[str] = []
    i = 0
    while i < len(lines):
        sequence = next(
            (name for name, count in lists.items() if _runs_through(lines[i : i + count], name, count)), None
        )
        if sequence is None:
            result.append(lines[i])
            i += 1
        else:
            item = _singular(sequence, lines[i])
            result += [f"for {item} in {sequence}:", "    " + lines[i].replace(f"{sequence}[0](", f"{item}(")]
            i += lists[sequence]
    return result


def _runs_through(lines: Sequence[str], name: str, count: int) -> bool:
    """Whether the lines call all elements of a list in the same way."""
    if len(lines) != count or count < 2:
        return False
    calls = [line.replace(f"{name}[{k}](", "\0(") for k, line in enumerate(lines)]
    return "\0(" in calls[0] and len(set(calls)) == 1


def _singular(name: str, line: str) -> str:
    attribute = name.rpartition(".")[2]
    item = attribute[:-1] if attribute.endswith("s") and len(attribute) > 2 else "cell"
    return item if identifier(item) == item and not re.search(rf"\b{item}\b", line) else "cell_"
