"""Rows that come from nowhere, are left out, or are there twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..derivation import Derivation, Origin
from ..names import kind_of, layer_of
from .finding import LOOK, NOTE, WRONG, Finding, counted, listed, numbers_listed


def rows(derivation: Derivation) -> Iterator[Finding]:
    """Yield tensors of which a part is wrong."""
    for name, origin in derivation.origins.items():
        join = origin.join
        if join.unknown:
            count = len(join.unknown)
            is_end = join.unknown == tuple(range(join.unknown[0], join.unknown[0] + count))
            total = derivation.after[name].tensor.shape[join.assembly.axes[0]]
            is_added = is_end and join.unknown[-1] == total - 1 and _uses_all(derivation, origin)
            yield Finding(
                LOOK if is_added else WRONG,
                "rows",
                (name,),
                f"{count} of {total} slices of {listed([name])} along axis {join.assembly.axes[0]} come from nowhere: "
                f"{numbers_listed(join.unknown)}",
                f"the others are those of {listed(origin.sources)}",
                "if the tensor was made longer, its new rows should be zero or trained; else compare these rows",
            )
        elif join.padding:
            total = derivation.after[name].tensor.shape[join.assembly.axes[0]]
            is_at_end = join.padding == tuple(range(total - len(join.padding), total))
            padding = counted(len(join.padding), "slice")
            yield Finding(
                NOTE if is_at_end else WRONG,
                "padded" if is_at_end else "rows",
                (name,),
                f"{listed([name])} has {padding} of zeros more than {listed(origin.sources)}",
                f"slices {numbers_listed(join.padding)} along axis {join.assembly.axes[0]}",
                "nothing, if the table was padded by intent",
            )
    yield from _partly_used(derivation)
    yield from _whole_sources_twice(derivation)


def _whole_sources_twice(derivation: Derivation) -> Iterator[Finding]:
    """Yield tensors that have all of a source twice, where another of its kind and layer is used nowhere."""
    unused = derivation.unused
    for name, origin in derivation.origins.items():
        numbers = _numbers(origin)
        if numbers is None or len(np.unique(numbers)) == len(numbers):
            continue
        kinds = {(kind_of(source), layer_of(source)) for source in origin.sources}
        left_out = [n for n in unused if (kind_of(n), layer_of(n)) in kinds]
        if left_out:
            yield Finding(
                WRONG, "repeated", (name,),
                f"{listed([name])} has a part twice, and {listed(left_out)} is used nowhere",
                f"it is made of {listed(origin.sources)}", "look for an index that is off",
            )  # fmt: skip


def _numbers(origin: Origin) -> np.ndarray | None:
    grids = origin.join.assembly.rows
    if grids is None:
        return None
    numbers = np.concatenate([grid.numbers() for grid in grids])
    left_out = [*origin.join.unknown, *([] if origin.join.assembly.padding else origin.join.padding)]
    return np.delete(numbers, left_out) if left_out else numbers


def _row_counts(derivation: Derivation, origin: Origin) -> list[tuple[str, int]]:
    axes = origin.join.assembly.from_axes
    shapes = ((name, derivation.before[name].tensor.shape or (1,)) for name in origin.join.assembly.all_names)
    return [(name, int(np.prod([shape[axis] for axis in axes]))) for name, shape in shapes]


def _uses_all(derivation: Derivation, origin: Origin) -> bool:
    numbers = _numbers(origin)
    total = sum(count for _, count in _row_counts(derivation, origin))
    return numbers is None or len(np.unique(numbers)) == total


def _partly_used(derivation: Derivation) -> Iterator[Finding]:
    """Yield sources of which some rows are used by no tensor, and tensors that have a row twice."""
    used: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    twice: dict[str, list[str]] = {}
    whole: set[str] = set()
    for name, origin in derivation.origins.items():
        numbers = _numbers(origin)
        counts = _row_counts(derivation, origin)
        if numbers is None or len(origin.join.assembly.sources) != len(counts):
            whole.update(origin.sources)
            continue
        starts = np.cumsum([0, *(count for _, count in counts)])
        for (source, _), start, end in zip(counts, starts[:-1], starts[1:], strict=True):
            own = numbers[(numbers >= start) & (numbers < end)] - start
            used.setdefault((source, origin.join.assembly.from_axes), set()).update(map(int, own))
            if len(np.unique(own)) < len(own):
                twice.setdefault(source, []).append(name)
    axes_of: dict[str, int] = {}
    for source, _ in used:
        axes_of[source] = axes_of.get(source, 0) + 1
    for (source, axes), numbers_used in used.items():
        shape = derivation.before[source].tensor.shape or (1,)
        total = int(np.prod([shape[axis] for axis in axes]))
        left = sorted(set(range(total)) - numbers_used) if axes_of[source] == 1 and source not in whole else []
        if left and source in twice:
            yield Finding(
                WRONG, "rows", tuple(twice[source]),
                f"{listed(twice[source])} has slices of {listed([source])} twice, and lacks others",
                f"slices {numbers_listed(left)} along axis {axes[0]} are used nowhere",
                "look for an index that is off, or a head that is repeated",
            )  # fmt: skip
        elif left:
            names = [name for name, origin in derivation.origins.items() if source in origin.sources]
            yield Finding(
                LOOK, "rows", tuple(names),
                f"{len(left)} of {total} slices of {listed([source])} along axis {axes[0]} are used nowhere",
                f"slices {numbers_listed(left)}",
                "nothing, if the table was made shorter by intent; else look for an index that is off",
            )  # fmt: skip
