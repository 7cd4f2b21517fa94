"""A tensor that repeats another along a new axis, perhaps divided by the number of repetitions: an inflated kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...readers.tensor import slice_of
from ..joins import Join
from ..moments import EXACT, Sketch, sketch, tolerance
from ..reordering import reorderings
from .context import Context
from .factors import with_a_factor

MOST = 64
"""The most repetitions."""


def repeated_along_an_axis(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield tensors that the target repeats along an axis."""
    shape = target.tensor.shape
    if target.is_constant:
        return
    for axis, lines in enumerate(target.axes):
        if len(shape) < 2 or not 1 < shape[axis] <= MOST or np.ptp(lines.features, axis=0).max() > EXACT:
            continue
        part = sketch(slice_of(target.tensor, axis, 0))
        inner = [other for other in range(len(shape)) if other != axis]
        whole = (
            Join(assembly)
            for source in context.wholes.find(part, tolerance(error))
            for assembly in reorderings(source, part, tolerance(error))
        )
        for join in (*whole, *with_a_factor(part, context, error)):
            assembly = join.assembly
            if assembly.rows is None and assembly.columns is None:
                axes = (axis, *(inner[other] for other in assembly.axes))
                sources = assembly.sources * shape[axis]
                yield Join(replace(assembly, sources=sources, shape=shape, axes=axes))
