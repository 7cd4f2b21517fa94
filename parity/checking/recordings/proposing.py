"""`propose_names`: which Cell of a recording is which of the reference's, as far as their values say.

`alignment.py` pairs them. Lines that differ in a number alone become one line with a `*`, which also says what the
Cells are called that returned something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...support.files import write_text
from .alignment import Alignment
from .equal_parameters import VALUES, matching_parameters
from .names import NO_NAME, Line, NameMap
from .recorded_cells import Cells
from .recorded_side import RecordedSide
from .recording import open_recording
from .views import STAR, WHOLE, View

HEAD = "# The reference's name is on the left. Found by the values that were recorded: read it before you use it."


@dataclass(frozen=True)
class Proposal:
    """The lines of a map, and what they are based on.

    Attributes:
        names: the map.
        supported: reference's Cells and parameters whose values were found in the recording.
        unsupported: those whose values weren't.
        by_structure: those of the latter that are paired by the parameters that they hold, or by what they take.
        others: those that are something else than what has their name in the recording.
    """

    names: NameMap
    supported: list[str]
    unsupported: list[str]
    by_structure: list[str]
    others: list[str]

    @property
    def text(self) -> str:
        """The map as TOML."""
        lines = [HEAD, "", "[cells]", *map(_cell_line, self.names.cells), "", "[parameters]"]
        lines += map(_parameter_line, self.names.parameters)
        by_name = [n for n in self.unsupported if n not in self.by_structure and n not in self.others]
        remarks = {
            "Paired by the parameters that they hold, or by what they take, since their values differ:": [
                visible_name(name) for name in self.by_structure
            ],
            "Values say nothing of these, which are paired by name alone:": [visible_name(name) for name in by_name],
        }
        for remark, names in remarks.items():
            lines += ["", f"# {remark}", *(f"#   {name}" for name in names)] if names else []
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
    recordings = [open_recording(folder) for folder in (reference, candidate)]
    in_both = all("float64" in recording.runs for recording in recordings)
    reference_cells, candidate_cells = (
        Cells(
            RecordedSide(recording.name, recording).recorded("float64" if in_both else recording.working_dtype),
            recording.aliases,
        )
        for recording in recordings
    )
    alignment = Alignment(reference_cells, candidate_cells)
    pairs = [(path, alignment.cells[path]) for path in reference_cells.paths if path in alignment.cells]
    cells = _collapsed([(p, pair.name, pair.view) for p, pair in pairs], list(reference_cells.held), alignment.may_be)
    otherwise = [path for path, _ in pairs if alignment.takes_otherwise(path)]
    cells = [replace(line, inputs=None) if any(map(line.match, otherwise)) else line for line in cells]
    reshaped = [path for path, pair in pairs if reference_cells.shape(path) != candidate_cells.shape(pair.name)]
    cells = [line for line in cells if _says_something(line) or any(map(line.match, reshaped))]
    cells = [*map(_without_counterpart, alignment.without_counterpart(NameMap(tuple(cells)))), *cells]
    by_cells = NameMap(tuple(cells))
    known = {name: by_cells.parameter(name).name for name in reference_cells.run.parameters}
    parameters = matching_parameters(reference_cells.run.parameters, candidate_cells.run.parameters, known)
    candidate_parameters = candidate_cells.run.parameters
    changed = [
        (name, pair.name, pair.view)
        for name, pair in parameters.items()
        if (pair.name, pair.view) != (known[name], WHOLE)
        or candidate_parameters[pair.name].shape != reference_cells.run.parameters[name].shape
    ]
    of_parameters = _collapsed(changed, list(reference_cells.run.parameters))
    others = alignment.parameters_in_another_form(replace(by_cells, parameters=tuple(of_parameters)), parameters)
    names = NameMap(by_cells.cells, (*map(_without_counterpart, others), *of_parameters))
    everything = [*reference_cells.paths, *(reference_cells.run.parameters if candidate_cells.run.parameters else ())]
    by_values = {name for name, pair in (alignment.cells | parameters).items() if pair.evidence == VALUES}
    supported = [name for name in everything if name in by_values]
    if not supported:
        raise UsageError(
            "no two Cells of the recordings returned the same values: were they recorded on the same inputs, with "
            "the same weights?"
        )
    unsupported = [name for name in everything if name not in by_values]
    by_structure = [name for name, pair in alignment.cells.items() if pair.evidence != VALUES]
    without = [line.reference for line in (*names.cells, *names.parameters) if line.candidate == NO_NAME]
    proposal = Proposal(names, supported, unsupported, by_structure, without)
    if path is not None:
        write_text(path, proposal.text)
    return proposal


def _says_something(line: Line) -> bool:
    """Whether a line says more than that a name is the same."""
    return line.reference != line.candidate or not line.outputs.is_whole or line.inputs is None


def _without_counterpart(name: str) -> Line:
    return Line(name, NO_NAME, WHOLE, WHOLE, "the proposal")


def _collapsed(
    pairs: Sequence[tuple[str, str, View]],
    names: Iterable[str],
    may_be: Callable[[str, str], bool] = lambda name, other: True,
) -> list[Line]:
    """Return lines for pairs of names; those that differ in a number alone are one line, unless it says too much."""
    every = list(dict.fromkeys(names))
    given = {reference: (candidate, view) for reference, candidate, view in pairs}
    lines: list[Line] = []
    covered: set[str] = set()
    for reference, candidate, view in pairs:
        if reference in covered:
            continue
        for line in _general(reference, candidate, view):
            said = {name: match for name in every if (match := line.match(name)) is not None}
            own = [name for name in said if name in given]
            rest = [name for name in said if name not in given]
            fits = all((said[n].name, str(said[n].outputs)) == _as_text(given[n]) for n in own)
            if len(own) > 1 and fits and all(may_be(name, said[name].name) for name in rest):
                break
        else:
            line = Line(reference, candidate, view, WHOLE, "the proposal")
            own = [reference]
        lines.append(line)
        covered.update(own)
    return lines


def _as_text(pair: tuple[str, View]) -> tuple[str, str]:
    return pair[0], str(pair[1])


def _general(reference: str, candidate: str, view: View) -> Iterator[Line]:
    """Yield lines with a `*` in place of a number that both names have, or the index."""
    for number in dict.fromkeys(re.findall(r"[0-9]+", reference)):
        left, right = _starred(reference, number), _starred(candidate, number)
        index = tuple(STAR if part == int(number) else part for part in view.index)
        if right != candidate or index != view.index:
            changed = replace(view, index=index)
            inputs = View(changed.index) if STAR in changed.index and right == candidate else WHOLE
            yield Line(left, right, changed, inputs, "the proposal")


def _starred(name: str, number: str) -> str:
    """Return a name with a `*` in place of the first time that a number stands in it."""
    parts = re.split("([0-9]+)", name)
    if number in parts:
        parts[parts.index(number)] = STAR
    return "".join(parts)


def _cell_line(line: Line) -> str:
    if line.candidate == NO_NAME:
        return f"{json.dumps(line.reference)} = false"
    index = str(View(line.outputs.index))
    if line.inputs is not None and line.inputs.is_whole and not line.outputs.transpose:
        return f"{json.dumps(line.reference)} = {json.dumps(line.candidate + index)}"
    fields = [f"cell = {json.dumps(line.candidate)}"]
    fields += [f"output = {json.dumps(index)}"] if index else []
    if line.inputs is None or line.inputs.index:
        fields.append(f"input = {'false' if line.inputs is None else json.dumps(str(View(line.inputs.index)))}")
    fields += [f"transpose = {list(line.outputs.transpose)}"] if line.outputs.transpose else []
    return f"{json.dumps(line.reference)} = {{ {', '.join(fields)} }}"


def _parameter_line(line: Line) -> str:
    if line.candidate == NO_NAME:
        return f"{json.dumps(line.reference)} = false"
    name = json.dumps(line.candidate + str(View(line.outputs.index)))
    if not line.outputs.transpose:
        return f"{json.dumps(line.reference)} = {name}"
    return f"{json.dumps(line.reference)} = {{ parameter = {name}, transpose = {list(line.outputs.transpose)} }}"
