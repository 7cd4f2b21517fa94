"""The entries of the catalogue, the cheapest first."""

from __future__ import annotations

from . import (
    attributes,
    biases,
    by_values,
    directions,
    features,
    formulas,
    gradients,
    graphs,
    hard_functions,
    layers,
    masks,
    norms,
    other_cells,
    readings,
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
    biases.unscaled,
    formulas.orders,
    formulas.others,
    hard_functions.slopes,
    scans.scans,
    graphs.self_loops,
    rotations.other_features,
    rotation_sizes.other_sizes,
)
"""Changes of many nodes that have a name."""
OF_CANDIDATE: tuple[Entry, ...] = (*NAMED, formulas.approximations)
"""Changes of an operator of the candidate that may make it what the reference has written out."""
MASKS: tuple[Entry, ...] = (masks.ignored, masks.inverted, masks.shifted, masks.without_positions)
"""Changes of what a Cell hides; a candidate may have written it out, with settings that the reference has nowhere."""
SETTINGS: tuple[Entry, ...] = (
    other_cells.parameters_of_others,
    layers.orders,
    layers.left_out,
    readings.transposes,
    readings.reversals,
    *MASKS,
    structure.omissions,
    structure.other_functions,
    attributes.attributes,
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
    *MASKS,
    wiring.left_out_cells,
    layers.orders,
    layers.left_out,
    structure.omissions,
    structure.other_functions,
    norms.kinds,
    structure.exchanges,
    by_values.outputs,
    readings.transposes,
    readings.reversals,
    weights.layouts,
    weights.exchanges,
    other_cells.parameters_of_others,
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
