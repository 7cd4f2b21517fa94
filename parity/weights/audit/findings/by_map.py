"""Tensors that aren't what a map says, where a checkpoint is judged by one."""

from __future__ import annotations

from collections.abc import Iterator

from ..derivation import Derivation
from ..words import sources_in_words, way_in_words
from .finding import LOOK, WRONG, Finding, listed


def unlike_the_map(derivation: Derivation) -> Iterator[Finding]:
    """Yield the tensors that a map makes and that are missing or have other values, and those that it doesn't make."""
    for name, assembly in derivation.stated.items():
        sources = listed(assembly.names)
        if name not in derivation.after:
            yield Finding(
                WRONG, "missing", (name,), f"{listed([name])} is missing", f"the map makes it of {sources}",
                "convert again, or take its line out of the map if the network doesn't have it",
            )  # fmt: skip
        elif not derivation.is_as_stated(name):
            yield Finding(
                WRONG, "unlike the map", (name,), f"{listed([name])} isn't what the map makes of {sources}",
                _what_it_is(derivation, name),
                "convert again with this map; if the values are right, mend its line",
            )  # fmt: skip
    if derivation.stated and (others := [name for name in derivation.after if name not in derivation.stated]):
        yield Finding(
            LOOK, "not in the map", tuple(others), f"the map doesn't make {listed(others)}",
            "no line is about them, and the first checkpoint has no tensors of their names",
            "add them to the map if the network needs them",
        )  # fmt: skip


def _what_it_is(derivation: Derivation, name: str) -> str:
    origin = derivation.origins.get(name)
    if origin is None or origin.join.unknown:
        return "its values are no tensor's of the first checkpoint"
    return f"it is made of {sources_in_words(origin.join.assembly)}: {way_in_words(derivation, name)}"
