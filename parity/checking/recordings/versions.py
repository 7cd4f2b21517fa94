"""Versions of libraries, compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....runtime.visible import visible_name


def changed_versions(reference: Mapping[str, str], candidate: Mapping[str, str]) -> Iterator[str]:
    """Yield `torch 2.12.0 → 2.13.0` for each library that both know in another version."""
    for name in sorted(reference.keys() & candidate.keys()):
        if reference[name] != candidate[name]:
            yield f"{visible_name(name)} {visible_name(reference[name])} → {visible_name(candidate[name])}"
