"""What each tensor of a checkpoint is made of: derived by values, and by names where values can't tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....runtime.errors import UsageError
from ..arrangements import Array
from ..assembly import Assembly, as_matrix
from ..computed import Computed
from ..port_map import PortPlan
from ..readers.tensor import StoredCheckpoint
from .agreement import NOTHING, Agreement, agreement
from .joins import Join, joins
from .moments import Sketch, WholeIndex, sketch, tolerance
from .names import NameGuide
from .precisions import relative_error
from .relations import RELATIONS
from .relations.context import Context
from .reordering import reorderings
from .slices import SliceIndex
from .stacks import stacks
from .vectors import VectorIndex, vector_joins

ERRORS = tuple(map(relative_error, ("bfloat16", "float8_e4m3fn")))
"""Relative errors of elements that are tried where no numbers are as near as the dtypes say: they were rounded."""


MOST_ALIKE = 8
"""The most tensors with the same moments that are tried."""


@dataclass(frozen=True)
class Origin:
    """What a tensor is made of.

    Attributes:
        join: how.
        agreement: how well the values agree, of the rows that come from somewhere.
        equals: names of other tensors that are equal to the single source.
    """

    join: Join
    agreement: Agreement
    equals: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the tensors that it is made of."""
        return self.join.assembly.names


@dataclass
class Derivation:
    """What became of the tensors of a checkpoint in another.

    Attributes:
        before: sketches of the tensors of the first checkpoint.
        after: sketches of those of the second.
        origins: what each tensor of the second is made of, by name; those that come from nowhere are left out.
        stated: what a map says that tensors of the second are made of, by name; nothing without a map.
        dropped: names of tensors of the first that a map drops.
        guide: what names tell of the tensors that come from nowhere.
    """

    before: Mapping[str, Sketch]
    after: Mapping[str, Sketch]
    stated: Mapping[str, Assembly] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    origins: dict[str, Origin] = field(default_factory=dict)
    guide: NameGuide = field(default_factory=NameGuide)

    @property
    def unknown(self) -> list[str]:
        """Names of the tensors of the second checkpoint that come from nowhere."""
        return [name for name in self.after if name not in self.origins]

    def is_as_stated(self, name: str) -> bool:
        """Whether a tensor is what a map says."""
        return name in self.stated and name in self.origins and self.origins[name].join == Join(self.stated[name])

    def expected(self, name: str) -> Assembly | None:
        """Return what a tensor would be made of if it were as in another layer; None if no layer tells."""
        for assembly in (*self.guide.analogies(name),)[::-1]:
            if all(source in self.before for source in assembly.all_names):
                return assembly
        return None

    @property
    def unused(self) -> list[str]:
        """Names of the tensors of the first checkpoint of which nothing is made."""
        used = {name for origin in self.origins.values() for name in (*origin.sources, *origin.equals)}
        return [name for name in self.before if name not in used]


@np.errstate(all="ignore")  # a file may hold any numbers, and what is tried needn't make sense
def derive(
    before: StoredCheckpoint,
    after: StoredCheckpoint,
    advance: Callable[[], None] = lambda: None,
    plan: PortPlan | None = None,
) -> Derivation:
    """Derive what the tensors of `after` are made of.

    Args:
        before: the checkpoint that was converted.
        after: what it was converted to.
        advance: is called for each tensor that was read or looked for.
        plan: what a map says that tensors of `after` are made of.

    Raises:
        UsageError: a tensor can't be read.
    """

    def sketches(checkpoint: StoredCheckpoint) -> Iterator[tuple[str, Sketch]]:
        for name, tensor in checkpoint.tensors.items():
            yield name, sketch(tensor)
            advance()

    result = Derivation(dict(sketches(before)), dict(sketches(after)))
    if plan is not None:
        result.stated, result.dropped = plan.assemblies, frozenset(plan.dropped)
    search = _Search(result)
    for name in result.after:
        if name in result.stated:
            search.try_as_stated(name)
    for look_for, is_constant in ((search.look_for, False), (search.look_for_constant, True)):
        for name in [name for name, of_tensor in result.after.items() if of_tensor.is_constant == is_constant]:
            if name not in result.origins:
                look_for(name)
            advance()
    for name in result.unknown:
        search.look_for_computation(name)
    return result


class _Search:
    def __init__(self, result: Derivation) -> None:
        self.result = result
        self.guide = result.guide
        varied = {name: s for name, s in result.before.items() if not s.is_constant}
        self.slices = SliceIndex(varied)
        self.vectors = VectorIndex(varied)
        self.wholes = WholeIndex(result.before.values())
        self.context = Context(result.before, self.wholes, self.slices, self.guide)
        self.partial: dict[str, Origin] = {}
        self.coarsest = max((s.error for s in result.before.values()), default=0.0)

    def try_as_stated(self, name: str) -> None:
        """Take what a map says that a tensor is made of, if its values agree."""
        if origin := self._confirmed(self.result.after[name], Join(self.result.stated[name])):
            self._settle(name, origin)

    def look_for(self, name: str) -> None:
        """Find what a tensor whose elements aren't all equal is made of."""
        target = self.result.after[name]
        for error in sorted({max(target.error, self.coarsest), *ERRORS}):
            origin = self._by_analogy(target) or self._whole(target, error) or self._joined(target, error)
            if origin is not None and not origin.join.unknown:
                self._settle(name, origin)
                return
            if stack := self._stacked(target, error):
                self._settle(name, stack)
                return
            if origin is not None:
                self.partial.setdefault(name, origin)

    def look_for_constant(self, name: str) -> None:
        """Find what a tensor whose elements are all equal is made of: values can't tell, so names must."""
        target = self.result.after[name]
        alike = [s for s in self.wholes.of_size(target.tensor.size) if s.is_constant]
        shape = target.tensor.shape
        analogies = [*self._analogies(target)]
        if analogies and not any(self._confirmed(target, Join(assembly)) for assembly in analogies):
            return  # what it should be made of is known, and it isn't
        by_names = (
            Assembly((s.tensor.name,), None if s.tensor.shape == shape else shape)
            for s in self._by_names(target, alike)
        )
        taken = {source for origin in self.result.origins.values() for source in origin.sources}
        assemblies = [*analogies, *by_names]
        assemblies.sort(key=lambda assembly: not taken.isdisjoint(assembly.names))  # rather one that isn't used yet
        for assembly in assemblies:
            if origin := self._confirmed(target, Join(assembly)):
                self._settle(name, origin)
                return

    def look_for_computation(self, name: str) -> None:
        """Find what a tensor is computed from that isn't put together from others, or only in part.

        Of its neighbours, more is known than when it was looked for first.
        """
        target = self.result.after[name]
        if origin := self._by_analogy(target):
            self._settle(name, origin)
            return
        for error in (max(target.error, self.coarsest), *ERRORS[:1]):
            for relation in RELATIONS:
                for join in relation(target, self.context, error):
                    if origin := self._confirmed(target, join):
                        self._settle(name, origin)
                        return
        if name in self.partial:
            self._settle(name, self.partial[name])

    def _settle(self, name: str, origin: Origin) -> None:
        self.result.origins[name] = origin
        self.guide.add(name, origin.join.assembly)

    def _by_names(self, target: Sketch, sources: Sequence[Sketch]) -> list[Sketch]:
        """Return the likeliest sources by their names, the likeliest first."""
        taken = {source for origin in self.result.origins.values() for source in origin.sources}
        name = target.tensor.name

        def likeness(source: Sketch) -> tuple[int, ...]:
            return *self.guide.likeness(name, source.tensor.name), source.tensor.name not in taken

        return sorted(sources, key=likeness, reverse=True)[:MOST_ALIKE]

    def _analogies(self, target: Sketch) -> Iterator[Assembly]:
        """Yield what a tensor is made of if it is as its neighbours are, or as in another layer."""
        for assembly in self.guide.analogies(target.tensor.name):
            if all(name in self.result.before for name in assembly.all_names):
                sources = [self.result.before[name] for name in assembly.all_names]
                if sum(s.tensor.size for s in sources) >= target.tensor.size or assembly.rows is not None:
                    yield assembly

    def _by_analogy(self, target: Sketch) -> Origin | None:
        for assembly in self._analogies(target):
            if origin := self._confirmed(target, Join(assembly)):
                return self._with_equals(origin)
        return None

    def _whole(self, target: Sketch, error: float) -> Origin | None:
        """Return the tensor that has the same elements as the target, in whatever order."""
        most = tolerance(error)
        for source in self._by_names(target, self.wholes.find(target, most)):
            for assembly in reorderings(source, target, most):
                if origin := self._confirmed(target, Join(assembly)):
                    return self._with_equals(origin)
        return None

    def _with_equals(self, origin: Origin) -> Origin:
        """Return an origin with the tensors that are equal to its single source."""
        if len(origin.sources) > 1:
            return origin
        source = self.result.before[origin.sources[0]]
        same = (s for s in self.wholes.find(source, 0.0) if s is not source and _are_equal(s, source))
        return replace(origin, equals=tuple(s.tensor.name for s in same))

    def _joined(self, target: Sketch, error: float) -> Origin | None:
        is_vector = target.tensor.size == max((*target.tensor.shape, 1))
        most = tolerance(error)
        possible: Iterable[Join] = joins(target, self.slices, most)
        if is_vector:
            possible = (*possible, *vector_joins(target, self.vectors, most))
        for join in possible:
            if origin := self._confirmed(target, join):
                return origin
        return None

    def _stacked(self, target: Sketch, error: float) -> Origin | None:
        """Return what each slice of a tensor is put together from."""

        def made_of(part: Sketch) -> Assembly | None:
            if part.is_constant:
                return None
            origin = self._whole(part, error) or self._joined(part, error)
            return None if origin is None or origin.join.unknown or origin.join.padding else origin.join.assembly

        for join in stacks(target, self.result.before, made_of):
            if origin := self._confirmed(target, join):
                return origin
        return None

    def _confirmed(self, target: Sketch, join: Join) -> Origin | None:
        result = self._agreement(target, join)
        return Origin(join, result) if result.holds else None

    def _agreement(self, target: Sketch, join: Join) -> Agreement:
        sources = [self.result.before[name].tensor for name in join.assembly.names]
        dtype = max((source.dtype for source in sources), key=relative_error)
        if join == Join(Assembly((sources[0].name,))):  # a large tensor needn't fit into memory
            if sources[0].shape != target.tensor.shape:
                return NOTHING
            return agreement(sources[0].read_rows, target, dtype)
        try:
            array = join.assembly.assemble({source.name: source.read() for source in sources})
        except UsageError:  # what an analogy says doesn't fit the shapes
            return NOTHING
        if array.shape != target.tensor.shape:
            return NOTHING
        if join.unknown or (join.padding and not join.assembly.padding):
            array = _with_rows(array, target.tensor.read(), join)
        rows = array.reshape(1) if array.ndim == 0 else array
        is_computed = any(isinstance(source, Computed) for source in join.assembly.sources)
        return agreement(lambda start, stop: rows[start:stop], target, dtype, is_computed=is_computed)


def _with_rows(array: Array, actual: Array, join: Join) -> Array:
    """Return an array with the rows of the actual one that come from nowhere, and zeros where it is padded."""
    axes = join.assembly.axes
    matrix, own = (as_matrix(each, axes).astype(np.float64) for each in (array, actual))
    matrix[list(join.unknown)] = own[list(join.unknown)]
    matrix[list(join.padding)] = 0.0
    order = (*axes, *(axis for axis in range(array.ndim) if axis not in axes))
    return matrix.reshape([array.shape[axis] for axis in order]).transpose(np.argsort(order))


def _are_equal(first: Sketch, second: Sketch) -> bool:
    same = first.tensor.shape == second.tensor.shape and np.array_equal(first.whole.sums, second.whole.sums)
    return bool(same) and np.array_equal(first.tensor.read(), second.tensor.read())
