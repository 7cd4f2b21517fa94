"""Names with `*` in them: `layers.*.gamma` for `layers.*.weight`, each `*` standing for the same text on both sides."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ...runtime.errors import UsageError


def matched(pattern: str, name: str) -> tuple[str, ...] | None:
    """What the `*` of the pattern stand for in the name; None if it doesn't match."""
    if "*" not in pattern:
        return () if pattern == name else None
    first, *between, last = pattern.split("*")
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return None
    found: list[str] = []
    end = len(name) - len(last)
    for part in reversed(between):  # from the back, so that the first `*` stands for as much as it can
        place = name.rfind(part, len(first), end)
        if place < 0:
            return None
        found.append(name[place + len(part) : end])
        end = place
    return name[len(first) : end], *reversed(found)


def filled(pattern: str, texts: tuple[str, ...], of: str) -> str:
    """The pattern with its `*` replaced by `texts`; `UsageError` if there are not as many. `of`: what they are from."""
    parts = pattern.split("*")
    if len(parts) - 1 > len(texts):
        raise UsageError(f"{pattern!r} has more `*` than {of!r}, which it belongs to: each stands for the same text")
    return "".join(part + text for part, text in zip(parts, (*texts, ""), strict=False))


def did_you_mean(name: str, among: Iterable[str]) -> str:
    """`; did you mean 'a' or 'b'?`, or nothing."""
    close = difflib.get_close_matches(name, list(among), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
