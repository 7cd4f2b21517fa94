"""Tensors of which a part comes from another layer than the rest of their layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..derivation import Derivation
from ..names import kind_of, layer_of
from .finding import WRONG, Finding, listed

FEWEST = 3
"""The fewest sources that tell from which layer a layer comes."""
MOST = 0.75
"""The share of them that must come from it, at least."""


def layers(derivation: Derivation) -> Iterator[Finding]:
    """Yield the tensors with sources in other layers, where those of this layer are there, too."""
    votes: dict[tuple[str, str], Counter[str]] = {}
    for name, origin in derivation.origins.items():
        if not derivation.after[name].is_constant and not origin.equals:
            for source in origin.sources:
                layer = layer_of(source)
                votes.setdefault((layer_of(name), kind_of(layer)), Counter())[layer] += 1
    usual: dict[tuple[str, str], str] = {}
    for key, counts in votes.items():
        ((layer, count),) = counts.most_common(1)
        if key[0] and layer and count >= FEWEST and count >= MOST * counts.total():
            usual[key] = layer
    elsewhere: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, origin in derivation.origins.items():
        if derivation.after[name].is_constant or origin.equals:
            continue
        pairs = []
        for source in origin.sources:
            layer = layer_of(source)
            right = usual.get((layer_of(name), kind_of(layer)), layer)
            own = right + source[len(layer) :]
            if right != layer and own in derivation.before:
                pairs.append((source, own))
        if pairs:
            elsewhere.setdefault(tuple(pairs), []).append(name)
    for pairs_of_names, names in elsewhere.items():
        strange, own_sources = ([pair[n] for pair in pairs_of_names] for n in (0, 1))
        own_layer = layer_of(own_sources[0])
        yield Finding(
            WRONG,
            "another layer",
            tuple(names),
            f"{listed(names)} has the values of another layer: {listed(strange)}",
            f"the rest of {layer_of(names[0])} comes from {own_layer}, which has {listed(own_sources)}",
            "give it the source of its own layer: a name is misspelt, or a loop counts wrongly",
        )
