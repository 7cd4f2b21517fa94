"""Many paths in few words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

NAMED = 5  # names of a list that are shown


def patterns(paths: Iterable[str], among: Collection[str] = ()) -> list[str]:
    """Paths that differ only in numbers, each lot as one: `layers.*.norm (11 of 12 Cells)`.

    Args:
        paths: what to name.
        among: all paths that there are; how many of them match is added where that isn't all.
    """
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(_numberless(path), []).append(path)
    there = [_numberless(path) for path in among]
    return [
        paths[0] if len(paths) == 1 else f"{_glob(paths)} ({_count(len(paths), there.count(form))} Cells)"
        for form, paths in alike.items()
    ]


def listed(names: list[str]) -> str:
    """The first of them, and how many others."""
    more = len(names) - NAMED
    return joined([*names[:NAMED], *([f"{more} other{'' if more == 1 else 's'}"] if more > 0 else [])])


def joined(names: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def in_few_words(paths: list[str], among: Collection[str] = ()) -> str:
    """The paths by name if they are few, else by pattern; of many patterns the first."""
    if len(paths) > NAMED:
        return listed(patterns(paths, among))
    return ", ".join(path or "(root)" for path in paths)


def _numberless(path: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _glob(paths: list[str]) -> str:
    """Paths of equal depth as one, with `*` where they differ."""
    levels = zip(*(path.split(".") for path in paths), strict=True)
    return ".".join(parts[0] if len(set(parts)) == 1 else "*" for parts in levels)


def _count(number: int, of: int) -> str:
    return f"{number} of {of}" if of > number else str(number)
