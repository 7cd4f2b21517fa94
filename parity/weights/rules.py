"""Names with `*` in them: `layers.*.gamma` for `layers.*.weight`, each `*` standing for the same text on both sides."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ...runtime.errors import UsageError


def matched(pattern: str, name: str) -> tuple[str, ...] | None:
    """What the `*` of the pattern stand for in the name; None if it doesn't match."""
    first, *others = pattern.split("*")
    if not others:
        return () if pattern == name else None
    *between, last = others
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < len(first):
        return None
    # from the right: each part at its last place, so that the first `*` stands for as much as it can, then the second
    texts: list[str] = []
    for part in reversed(between):
        start = name.rfind(part, len(first), end)
        if start < 0:
            return None
        texts.append(name[start + len(part) : end])
        end = start
    return (*reversed([*texts, name[len(first) : end]]),)


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
