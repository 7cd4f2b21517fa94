"""Tensors of which a recording has a summary alone: some of their elements are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...runtime.ir.types import as_dtype
from ..sides.records import Array, Key
from .index import Summary
from .recording import Boundary, RecordedRun
from .shards import part_of


def use_samples(*runs: RecordedRun) -> tuple[list[RecordedRun], int]:
    """Return runs with the same elements of each tensor that one of them has in part.

    A tensor is left out of all if they have no element of it in common.

    Returns:
        The runs, in their order, and the number of tensors of which some elements are in them.
    """
    copies = [_copy(run) for run in runs]
    sampled = 0
    for boundary in dict.fromkeys(boundary for run in runs for boundary in run.summaries):
        values = [_value(run, boundary) for run in runs]
        common = _common_places([value for value in values if isinstance(value, Summary)])
        whole = all(value is not None for value in values) and bool(common)
        for copy, value in zip(copies, values, strict=True):
            arrays, key = _place(copy, boundary)
            if whole:
                arrays[key] = _elements(value, common)
            else:
                arrays.pop(key, None)
        sampled += whole
    return copies, sampled


def _copy(run: RecordedRun) -> RecordedRun:
    records = replace(
        run.records,
        values=part_of(run.records.values, run.records.values),
        parameter_gradients=part_of(run.records.parameter_gradients, run.records.parameter_gradients),
        updates=dict(run.records.updates),
        buffers=dict(run.records.buffers),
    )
    return RecordedRun(records, part_of(run.parameters, run.parameters))


def _place(run: RecordedRun, boundary: Boundary) -> tuple[dict[Any, Any], Any]:
    """Return the dict in which the value of a boundary stands, and its key there."""
    if isinstance(boundary, Key):
        return run.records.values, boundary
    role, name = boundary
    return run.named[role], name


def _value(run: RecordedRun, boundary: Boundary) -> Array | Summary | None:
    if boundary in run.summaries:
        return run.summaries[boundary]
    arrays, key = _place(run, boundary)
    value: Array | None = arrays.get(key)
    return value


def _common_places(summaries: Sequence[Summary]) -> list[int]:
    common = set(summaries[0].indices)
    for summary in summaries[1:]:
        common &= set(summary.indices)
    return sorted(common)


def _elements(value: Array | Summary | None, places: list[int]) -> Array:
    if isinstance(value, Summary):
        known = dict(zip(value.indices, value.values, strict=True))
        return np.array([known[place] for place in places]).astype(as_dtype(value.dtype))
    assert value is not None
    return value.reshape(-1)[places]
