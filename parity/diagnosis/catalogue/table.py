"""The entries of the catalogue, the cheapest first."""

from __future__ import annotations

from . import attributes, state, structure, weights, wiring
from .hypothesis import Entry

ENTRIES: tuple[Entry, ...] = (
    weights.values,
    wiring.left_out_cells,
    structure.omissions,
    structure.other_functions,
    structure.exchanges,
    weights.layouts,
    weights.exchanges,
    attributes.attributes,
    attributes.constants,
    state.momentum,
    wiring.results,
    wiring.operands,
    structure.additions,
    wiring.scales,
)
