"""Versions of libraries, compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....runtime.visible import visible_name


def changed_versions(there: Mapping[str, str], here: Mapping[str, str]) -> Iterator[str]:
    """Yield `torch 2.12.0 → 2.13.0` for each library that both know in another version."""
    for name in sorted(there.keys() & here.keys()):
        if there[name] != here[name]:
            yield f"{visible_name(name)} {visible_name(there[name])} → {visible_name(here[name])}"
