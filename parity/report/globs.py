"""Short summaries of many paths."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

MAX_NAMES = 5  # names of a list that are shown


def patterns(paths: Iterable[str], among: Collection[str] = ()) -> list[str]:
    """Summarize paths that differ only in numbers as patterns: `layers.*.norm (11 of 12 Cells)`.

    Args:
        paths: the paths to summarize.
        among: all existing paths; the number that match is added if not all of them are in `paths`.
    """
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(_replace_numbers(path), []).append(path)
    existing = [_replace_numbers(path) for path in among]
    return [
        paths[0] if len(paths) == 1 else f"{_glob(paths)} ({_count(len(paths), existing.count(form))} Cells)"
        for form, paths in alike.items()
    ]


def list_names(names: list[str]) -> str:
    """List the first names, and the number of others."""
    more = len(names) - MAX_NAMES
    return join_names([*names[:MAX_NAMES], *([f"{more} other{'' if more == 1 else 's'}"] if more > 0 else [])])


def join_names(names: list[str]) -> str:
    """Join names as `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def summarize_paths(paths: list[str], among: Collection[str] = ()) -> str:
    """List a few paths by name, and many by their first patterns."""
    if len(paths) > MAX_NAMES:
        names = patterns(paths, among)
        return names[0].removesuffix(f" ({len(paths)} Cells)") if len(names) == 1 else list_names(names)
    return ", ".join(path or "(root)" for path in paths)


def _replace_numbers(path: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _glob(paths: list[str]) -> str:
    """Combine paths of equal depth into one, with `*` where they differ."""
    levels = zip(*(path.split(".") for path in paths), strict=True)
    return ".".join(parts[0] if len(set(parts)) == 1 else "*" for parts in levels)


def _count(number: int, of: int) -> str:
    return f"{number} of {of}" if of > number else str(number)
