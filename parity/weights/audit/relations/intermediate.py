"""Tensors that are put together from what is computed of others first: sums of biases, and functions of a tensor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ...arrangements import Array
from ...computed import FUNCTIONS, Computed
from ...readers.tensor import stored_array
from ..joins import Join
from ..moments import Sketch, sketch, tolerance
from ..names import parent_of
from ..reordering import reorderings
from ..vectors import VectorIndex, vector_joins
from .context import Context

MOST_ELEMENTS = 1 << 20
"""The most elements of a tensor that is computed from others on trial."""
MOST_PAIRS = 64


def with_sums(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield sums of two vectors of one module, of which the target is the whole or a part: the biases of an LSTM."""
    if target.tensor.size == max((*target.tensor.shape, 1)) and target.tensor.size <= MOST_ELEMENTS:
        yield from _put_together(target, dict(itertools.islice(_sums(context), MOST_PAIRS)), error)


def with_a_function(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield functions of tensors with as many elements, such as a rate that is held as its logarithm."""
    if target.tensor.size > MOST_ELEMENTS:
        return
    sources = [s for s in context.wholes.of_size(target.tensor.size) if s.error > 0 and not s.is_constant]
    computed: dict[Computed, Array] = {}
    for source in context.likely(target, sources):
        array = source.tensor.read().astype(np.float64)
        for form, function in FUNCTIONS.items():
            with np.errstate(all="ignore"):
                result = function(array)
            if np.isfinite(result).all():
                computed[Computed(form, (source.tensor.name,))] = result
    yield from _put_together(target, computed, error)


def _sums(context: Context) -> Iterator[tuple[Computed, Array]]:
    """Yield the sums of each two vectors of one module."""
    modules: dict[tuple[str, int], list[str]] = {}
    for name, of_tensor in context.sketches.items():
        tensor = of_tensor.tensor
        if len(tensor.shape) == 1 and 1 < tensor.size <= MOST_ELEMENTS and of_tensor.error > 0:
            modules.setdefault((parent_of(name), tensor.size), []).append(name)
    for names in modules.values():
        for pair in itertools.combinations(names, 2) if len(names) <= MOST_PAIRS else ():
            arrays = (context.sketches[name].tensor.read().astype(np.float64) for name in pair)
            yield Computed("sum", pair), sum(arrays, np.zeros(()))


def _put_together(target: Sketch, computed: Mapping[Computed, Array], error: float) -> Iterator[Join]:
    """Yield what the target may be put together from, of computed tensors."""
    by_name = {f"{number}": source for number, source in enumerate(computed)}
    arrays = zip(by_name, computed.values(), strict=True)
    sketches = {name: sketch(stored_array(name, array)) for name, array in arrays}
    most = max(tolerance(error), 8 * error)

    def with_sources(join: Join) -> Join:
        sources = tuple(by_name[name] for name in join.assembly.names)
        return replace(join, assembly=replace(join.assembly, sources=sources))

    for source in sketches.values():
        if source.tensor.size == target.tensor.size:
            for assembly in reorderings(source, target, most):
                yield with_sources(Join(assembly))
    if target.tensor.size == max((*target.tensor.shape, 1)) and not target.is_constant:
        for join in vector_joins(target, VectorIndex(sketches), max(error, 1e-7)):
            yield with_sources(join)
