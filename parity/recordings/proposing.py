"""`propose_names`: which Cell of a recording is which of the reference's, as far as their values say.

What two Cells returned on the same inputs is the evidence: the same numbers up to rounding, perhaps with their axes in
another order, as a part of a larger tensor, or stacked with others. Names count only where several Cells returned the
same. Lines that differ in a number alone become one line with a `*`, which also says what the Cells are called that
returned something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from os import PathLike
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ...runtime.ir.types import is_floating
from ...runtime.visible import visible_name
from ..sides.records import OUTPUT, Array
from ..support.files import write_text
from .names import Line, NameMap
from .recorded_side import RecordedSide
from .recording import RecordedRun, open_recording
from .views import STAR, WHOLE, View

CLOSE = 1e-3
"""The largest difference, relative to the largest element, of values that count as the same."""
MAX_RANK = 4
QUICK = 64  # elements that are compared first
HEAD = "# The reference's name is on the left. Found by the values that were recorded: read it before you use it."


@dataclass(frozen=True)
class Proposal:
    """The lines of a map, and what they are based on.

    Attributes:
        names: the map.
        supported: reference's Cells and parameters whose values were found in the recording.
        unsupported: those whose values weren't.
    """

    names: NameMap
    supported: list[str]
    unsupported: list[str]

    @property
    def text(self) -> str:
        """The map as TOML."""
        lines = [HEAD, "", "[cells]", *map(_cell_line, self.names.cells), "", "[parameters]"]
        lines += map(_parameter_line, self.names.parameters)
        if self.unsupported:
            lines += ["", "# Values say nothing of these, which are paired by name alone:"]
            lines += [f"#   {visible_name(name)}" for name in self.unsupported]
        return "\n".join(lines) + "\n"


def propose_names(
    reference: str | PathLike[str], candidate: str | PathLike[str], path: str | PathLike[str] | None = None
) -> Proposal:
    """Propose a map of names for two recordings of the same network on the same inputs, and write it to a file.

    Args:
        reference: folder of the reference's recording.
        candidate: folder of the other one.
        path: the file to write; None to write none.

    Returns:
        The proposal.

    Raises:
        UsageError: a recording can't be read, or no value of the reference is in the other one.
    """
    runs = []
    for folder in (reference, candidate):
        recording = open_recording(folder)
        runs.append(RecordedSide(recording.name, recording).recorded(recording.working_dtype))
    ours, theirs = runs
    pairs = dict(_matches(_outputs(ours), _outputs(theirs)))
    cells = _collapsed([(p, *pair) for p, pair in pairs.items()], [call.path for call in ours.records.calls])
    by_cells = NameMap(tuple(line for line in cells if line.reference != line.candidate or not line.outputs.is_whole))
    known = {name: by_cells.parameter(name).name for name in ours.parameters}
    of_parameters = dict(_matches(ours.parameters, theirs.parameters, known))
    changed = [(n, *pair) for n, pair in of_parameters.items() if pair != (known[n], WHOLE)]
    names = NameMap(by_cells.cells, tuple(_collapsed(changed, list(ours.parameters))))
    everything = [*_outputs(ours), *(ours.parameters if theirs.parameters else ())]
    supported = [name for name in everything if name in pairs or name in of_parameters]
    if not supported:
        raise UsageError(
            "no Cell of one recording returned what one of the other did: were they recorded on the same inputs, with "
            "the same weights?"
        )
    proposal = Proposal(names, supported, [name for name in everything if name not in supported])
    if path is not None:
        write_text(path, proposal.text)
    return proposal


def _outputs(run: RecordedRun) -> dict[str, Array]:
    """Return the first output of the first call of each Cell inside the network."""
    found: dict[str, Array] = {}
    for key, array in run.records.values.items():
        if key.kind == OUTPUT and key.call == 0 and key.path and is_floating(array.dtype):
            found.setdefault(key.path, array)
    return found


def _matches(
    ours: Mapping[str, Array], theirs: Mapping[str, Array], expected: Mapping[str, str] | None = None
) -> Iterator[tuple[str, tuple[str, View]]]:
    """Yield the name, and the other side's name and part, of each tensor of which the other side has the values."""
    taken: set[tuple[str, str]] = set()
    wide = {name: array.astype(np.float64) for name, array in theirs.items()}
    for name, array in ours.items():
        own = array.astype(np.float64)
        if own.size < 2 or own.std() == 0:
            continue
        limit = CLOSE * float(np.abs(own).max())
        fitting = [(other, view) for other, value in wide.items() for view in _views(own, value, limit)]
        free = [(other, view) for other, view in fitting if (other, str(view)) not in taken]
        if free:
            like = (expected or {}).get(name, name)
            best = max(free, key=lambda one: (one[1].is_whole, one[0] == like, _alike(like, one[0])))
            taken.add((best[0], str(best[1])))
            yield name, best


def _views(own: Array, other: Array, limit: float) -> Iterator[View]:
    """Yield the part of another tensor that has the values of a tensor, if one has."""
    if other.size == own.size and other.ndim == own.ndim <= MAX_RANK:
        for order in permutations(range(own.ndim)):
            if tuple(other.shape[axis] for axis in order) == own.shape and _is_close(
                own, other.transpose(order), limit
            ):
                yield WHOLE if order == tuple(range(own.ndim)) else View((), order)
                return
    elif other.size > own.size:
        for index in _parts(own.shape, other.shape):
            for order in permutations(range(own.ndim)) if own.ndim == 2 else [tuple(range(own.ndim))]:
                part = other[index]
                if tuple(part.shape[axis] for axis in order) == own.shape and _is_close(
                    own, part.transpose(order), limit
                ):
                    yield View(index, () if order == tuple(range(own.ndim)) else order)
                    return


def _parts(shape: tuple[int, ...], whole: tuple[int, ...]) -> Iterator[Any]:
    """Yield the indices of layers along the first axis, or of parts of equal size along one axis."""
    if len(whole) == len(shape) + 1:
        yield from ((place,) for place in range(whole[0]))
    elif len(whole) == len(shape):
        for axis, total in enumerate(whole):
            others = sorted(whole[:axis] + whole[axis + 1 :])
            before = (...,) if axis == len(whole) - 1 else (slice(None),) * axis
            for size in dict.fromkeys(shape):
                rest = list(shape)
                rest.remove(size)
                if 0 < size < total and total % size == 0 and sorted(rest) == others:
                    yield from ((*before, slice(start, start + size)) for start in range(0, total, size))


def _is_close(own: Array, other: Array, limit: float) -> bool:
    """Whether the shapes are the same, and no element differs by more than a limit; the first few are tried alone."""
    if own.shape != other.shape:
        return False
    few = np.abs(own.flat[:QUICK] - other.flat[:QUICK])
    return float(few.max()) <= limit and float(np.abs(own - other).max()) <= limit


def _alike(name: str, other: str) -> float:
    """How many parts of two names are the same, numbers first."""
    ours, theirs = (set(re.findall(r"[0-9]+|[a-z]+", one.lower())) for one in (name, other))
    return sum(2.0 if part.isdecimal() else 1.0 for part in ours & theirs) - 0.1 * len(ours ^ theirs)


def _collapsed(pairs: Sequence[tuple[str, str, View]], names: Iterable[str]) -> list[Line]:
    """Return lines for pairs of names; those that differ in a number alone are one line."""
    every = list(dict.fromkeys(names))
    given = {ours: (theirs, view) for ours, theirs, view in pairs}
    lines: list[Line] = []
    covered: set[str] = set()
    for ours, theirs, view in pairs:
        if ours in covered:
            continue
        for line in _general(ours, theirs, view):
            said = {name: match for name in every if (match := line.match(name)) is not None}
            own = [name for name in said if name in given]
            if len(own) > 1 and all((said[n].name, str(said[n].outputs)) == _as_text(given[n]) for n in own):
                break
        else:
            line = Line(ours, theirs, view, WHOLE, "the proposal")
            own = [ours]
        lines.append(line)
        covered.update(own)
    return lines


def _as_text(pair: tuple[str, View]) -> tuple[str, str]:
    return pair[0], str(pair[1])


def _general(ours: str, theirs: str, view: View) -> Iterator[Line]:
    """Yield lines with a `*` in place of a number that both names have, or the index."""
    for number in dict.fromkeys(re.findall(r"[0-9]+", ours)):
        left, right = _starred(ours, number), _starred(theirs, number)
        index = tuple(STAR if part == int(number) else part for part in view.index)
        if right != theirs or index != view.index:
            changed = replace(view, index=index)
            inputs = View(changed.index) if STAR in changed.index and right == theirs else WHOLE
            yield Line(left, right, changed, inputs, "the proposal")


def _starred(name: str, number: str) -> str:
    """Return a name with a `*` in place of the first time that a number stands in it."""
    parts = re.split("([0-9]+)", name)
    if number in parts:
        parts[parts.index(number)] = STAR
    return "".join(parts)


def _cell_line(line: Line) -> str:
    index = str(View(line.outputs.index))
    if line.inputs.is_whole and not line.outputs.transpose:
        return f"{json.dumps(line.reference)} = {json.dumps(line.candidate + index)}"
    fields = [f"cell = {json.dumps(line.candidate)}"]
    fields += [f"output = {json.dumps(index)}"] if index else []
    fields += [f"input = {json.dumps(str(View(line.inputs.index)))}"] if line.inputs.index else []
    fields += [f"transpose = {list(line.outputs.transpose)}"] if line.outputs.transpose else []
    return f"{json.dumps(line.reference)} = {{ {', '.join(fields)} }}"


def _parameter_line(line: Line) -> str:
    name = json.dumps(line.candidate + str(View(line.outputs.index)))
    if not line.outputs.transpose:
        return f"{json.dumps(line.reference)} = {name}"
    return f"{json.dumps(line.reference)} = {{ parameter = {name}, transpose = {list(line.outputs.transpose)} }}"
