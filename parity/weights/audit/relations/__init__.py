"""Tensors that are computed from others: a file for each kind of computation. Values confirm what these propose."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..joins import Join
from ..moments import Sketch
from .context import Context
from .factors import with_a_factor
from .folded_norms import bias_of_a_folded_norm
from .inflated import repeated_along_an_axis
from .intermediate import with_a_function, with_sums
from .low_rank import with_a_low_rank_update
from .mixtures import with_a_mixture
from .offsets import with_an_offset
from .row_factors import with_a_factor_for_each_row
from .scaled_parts import with_scaled_parts
from .unstacked import part_of_a_slice

RELATIONS: tuple[Callable[[Sketch, Context, float], Iterator[Join]], ...] = (
    with_a_factor,
    with_scaled_parts,
    with_an_offset,
    with_a_factor_for_each_row,
    bias_of_a_folded_norm,
    part_of_a_slice,
    repeated_along_an_axis,
    with_a_low_rank_update,
    with_sums,
    with_a_function,
    with_a_mixture,
)
"""Each yields what a tensor may be computed from, given what is known of the others and the error of an element."""
