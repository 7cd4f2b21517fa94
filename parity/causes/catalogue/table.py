"""The entries of the catalogue, the cheapest first."""

from __future__ import annotations

from . import (
    attributes,
    by_values,
    directions,
    features,
    formulas,
    gradients,
    hard_functions,
    masks,
    norms,
    recurrence,
    regrouping,
    residuals,
    resizing,
    rotation_sizes,
    rotations,
    sampling,
    scans,
    shifts,
    state,
    structure,
    tables,
    weights,
    wiring,
)
from .hypothesis import Entry

NAMED: tuple[Entry, ...] = (
    residuals.sides_of_norms,
    resizing.resizes,
    sampling.samples,
    recurrence.reset_gates,
    directions.directions,
    formulas.orders,
    formulas.others,
    hard_functions.slopes,
    scans.scans,
    rotations.other_features,
    rotation_sizes.other_sizes,
)
"""Changes of many nodes that have a name."""
OF_CANDIDATE: tuple[Entry, ...] = (*NAMED, formulas.approximations)
"""Changes of an operator of the candidate that may make it what the reference has written out."""
SETTINGS: tuple[Entry, ...] = (
    weights.transposes,
    masks.ignored,
    masks.inverted,
    masks.shifted,
    masks.without_positions,
    structure.omissions,
    attributes.attributes,
    structure.other_functions,
    features.blocks,
    features.heads,
    features.by_heads,
    features.axes,
    weights.layouts,
    weights.blocks,
)
"""Changes of one node or value, which a candidate may have written as several."""
SETTINGS_OF_CANDIDATE: tuple[Entry, ...] = (attributes.attributes, attributes.constants)
"""Changes of one node of a candidate that has written out what is one operator in the reference."""
BESIDE_PARAMETERS: tuple[Entry, ...] = (
    structure.other_functions,
    attributes.attributes,
    masks.ignored,
    masks.inverted,
    structure.omissions,
    norms.kinds,
    attributes.constants,
    *NAMED,
)
"""Changes that are tried together with other parameters: what people get wrong besides a layout."""
ENTRIES: tuple[Entry, ...] = (
    weights.values,
    weights.buffers,
    gradients.frozen,
    gradients.scaled,
    masks.ignored,
    masks.inverted,
    masks.shifted,
    masks.without_positions,
    wiring.left_out_cells,
    structure.omissions,
    structure.other_functions,
    norms.kinds,
    structure.exchanges,
    by_values.outputs,
    weights.transposes,
    weights.layouts,
    weights.exchanges,
    weights.blocks,
    attributes.attributes,
    attributes.constants,
    regrouping.padding_modes,
    state.momentum,
    wiring.results,
    wiring.exchanges,
    gradients.detached,
    tables.tables,
    shifts.indices,
    shifts.slices,
    shifts.values,
    regrouping.orders,
    regrouping.interleaved,
    features.blocks,
    features.heads,
    features.by_heads,
    features.axes,
    wiring.operands,
    structure.additions,
    wiring.scales,
)
