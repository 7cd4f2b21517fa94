"""Name patterns: `layers.*.gamma` for `layers.*.weight`, where each `*` matches the same text on both sides."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

from ...runtime.errors import UsageError


def match_pattern(pattern: str, name: str) -> tuple[str, ...] | None:
    """Return the texts that the `*` of the pattern match in the name; None if it doesn't match."""
    first, *others = pattern.split("*")
    if not others:
        return () if pattern == name else None
    *between, last = others
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < len(first):
        return None
    # from the right, with each part at its last occurrence, so that the first `*` is greedy, then the second
    texts: list[str] = []
    for part in reversed(between):
        start = name.rfind(part, len(first), end)
        if start < 0:
            return None
        texts.append(name[start + len(part) : end])
        end = start
    return (*reversed([*texts, name[len(first) : end]]),)


def fill_pattern(pattern: str, texts: tuple[str, ...], of: str) -> str:
    """Replace the `*` of a pattern by `texts` from the pattern `of`; raise `UsageError` if there are too few."""
    parts = pattern.split("*")
    if len(parts) - 1 > len(texts):
        raise UsageError(f"{pattern!r} has more `*` than {of!r}, which it belongs to: each stands for the same text")
    return "".join(part + text for part, text in zip(parts, (*texts, ""), strict=False))


def fill_cells(explicit_paths: Mapping[str, str], cells: Collection[str], modules: Collection[str]) -> dict[str, str]:
    """Return the pairs of `cells=`, with each `*` filled in.

    Of the Cells that a pattern matches, the outermost count: what is inside is paired by the rest of its name. A path
    without `*` outranks patterns, and the first pattern outranks the others.

    Args:
        explicit_paths: paths in the reference by paths in the candidate, or patterns of both.
        cells: the candidate's paths.
        modules: the reference's paths.

    Raises:
        UsageError: a path is no string, a pattern matches no Cell, or the other one has more `*`.
    """
    for path, module in explicit_paths.items():
        if not isinstance(path, str) or not isinstance(module, str):
            raise UsageError(
                f"cells={{{path!r}: {module!r}}}: needed a path in the reference by a path in the candidate"
            )
    filled = {path: module for path, module in explicit_paths.items() if "*" not in path}
    for pattern, module in explicit_paths.items():
        if "*" in module and "*" not in pattern:
            raise UsageError(f"cells={{{pattern!r}: {module!r}}}: each `*` stands for a text that the Cell's path has")
        if "*" not in pattern:
            continue
        texts_of = {path: texts for path in cells if path and (texts := match_pattern(pattern, path)) is not None}
        if not texts_of:
            if any(match_pattern(pattern, path) is not None for path in modules):
                raise UsageError(
                    f"cells={{{pattern!r}: {module!r}}} is the wrong way round: the path of the Cell comes first, "
                    f"cells={{{module!r}: {pattern!r}}}"
                )
            raise UsageError(f"cells= names {pattern!r}, which no Cell matches{did_you_mean(pattern, cells)}")
        for path, texts in texts_of.items():
            if not any(path.startswith(f"{other}.") for other in texts_of):
                filled.setdefault(path, fill_pattern(module, texts, pattern))
    return filled


def without_numbers(name: str) -> str:
    """Return a name with a `*` in place of each number: what is the same in all layers."""
    return re.sub("[0-9]+", "*", name)


def did_you_mean(name: str, among: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?`, or an empty string."""
    close = difflib.get_close_matches(name, list(among), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
