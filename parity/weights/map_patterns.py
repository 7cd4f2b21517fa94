"""Lines of a map that differ in numbers alone, as one line with a `*` for each such number."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..correspondence.name_patterns import fill_pattern, match_pattern

NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True)
class MapLine:
    """One line of a map.

    Attributes:
        kind: what it is; lines of several kinds are never one.
        key: the name on the left, or a pattern of it.
        names: the names on the right, or patterns of them.
        form: all else that it says.
        of: the lines without `*` that it stands for; empty for a line without `*`.
    """

    kind: str
    key: str
    names: tuple[str, ...]
    form: Any
    of: tuple[MapLine, ...] = ()

    @property
    def lines(self) -> tuple[MapLine, ...]:
        """The lines without `*`."""
        return self.of or (self,)


@dataclass(frozen=True)
class Names:
    """All names that a map may be applied to.

    Attributes:
        left: by kind of line, the names that its key may have.
        right: by kind of line, those that the names on its right may have.
    """

    left: dict[str, Collection[str]]
    right: dict[str, Collection[str]]


def with_patterns(lines: Sequence[MapLine], names: Names) -> list[MapLine]:
    """Return lines that say the same, with `*`, in the order of the first that each stands for.

    A pattern never matches a name that none of its lines has, so that the map says nothing new of any name.
    """
    while True:
        fewer = _joined_once(lines, names)
        if len(fewer) == len(lines):
            return fewer
        lines = fewer


def _joined_once(lines: Sequence[MapLine], names: Names) -> list[MapLine]:
    """Return the lines with one number of each exchanged for a `*` where that joins some of them."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for index, line in enumerate(lines):
        for pattern in dict.fromkeys(_patterns(line)):
            alike.setdefault((line.kind, *pattern), []).append(index)
    joined: dict[int, MapLine] = {}
    joined_indices: set[int] = set()
    keys = {line.key for line in lines}
    for (kind, key, others), places in sorted(alike.items(), key=lambda item: -len(item[1])):
        of = tuple(line for index in places for line in lines[index].lines)
        line = MapLine(kind, key, others, of[0].form, of)
        if len(places) > 1 and key not in keys and joined_indices.isdisjoint(places) and _is_exact(line, names):
            joined[places[0]] = line
            joined_indices.update(places)
            keys.add(key)
    return [
        joined.get(index, line) for index, line in enumerate(lines) if index in joined or index not in joined_indices
    ]


def _patterns(line: MapLine) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the key and the names with a `*` in place of a number that all of them have."""
    for number in NUMBER.finditer(line.key):
        key = _starred(line.key, number)
        same = [[other for other in NUMBER.finditer(name) if other[0] == number[0]] for name in line.names]
        for time in range(max(1, min(map(len, same), default=1))):
            if all(same):
                yield (
                    key,
                    tuple(
                        _starred(name, occurrences[time]) for name, occurrences in zip(line.names, same, strict=True)
                    ),
                )


def _starred(name: str, number: re.Match[str]) -> str:
    return f"{name[: number.start()]}*{name[number.end() :]}"


def _is_exact(line: MapLine, names: Names) -> bool:
    """Whether a line with `*` says what its lines say, and nothing of other names, read from either side."""
    if any(other.form != line.form for other in line.of):
        return False
    if not _matches_only(line.key, {other.key for other in line.of}, names.left[line.kind]):
        return False
    for other in line.of:
        texts = match_pattern(line.key, other.key)
        if texts is None or tuple(fill_pattern(name, texts, line.key) for name in line.names) != other.names:
            return False
        if line.names and match_pattern(line.names[0], other.names[0]) != texts:
            return False
    return all(
        _matches_only(name, {other.names[index] for other in line.of}, names.right[line.kind])
        for index, name in enumerate(line.names)
    )


def _matches_only(pattern: str, matches: Collection[str], among: Collection[str]) -> bool:
    return {name for name in among if match_pattern(pattern, name) is not None} <= set(matches)
