"""A recording in the names of the reference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...sides.records import Records
from .index import CELL_ROLES, NAMED_ROLES, TensorEntry
from .names import NO_NAME, Line, NameMap


def renamed(
    entries: Sequence[TensorEntry], like: Records, names: NameMap, own: Iterable[str], aliases: Mapping[str, str]
) -> list[TensorEntry]:
    """Return the tensors of a recording under the reference's names; one may be part of several Cells.

    Args:
        entries: the tensors.
        like: the reference's records.
        names: what its Cells and parameters are called in the recording.
        own: names of its parameters.
        aliases: first names of shared parameters in the recording, by their other ones.

    Raises:
        UsageError: a line of the names matches nothing.
    """
    parameters = list(dict.fromkeys([*own, *like.gradients.parameters, *like.state.buffers, *like.state.updates]))
    names.require_used([call.path for call in like.calls], parameters)
    of_cells: dict[str, list[TensorEntry]] = {}
    named: dict[tuple[str, str], TensorEntry] = {}
    for entry in entries:
        if entry.role in CELL_ROLES:
            of_cells.setdefault(entry.cell, []).append(entry)
        else:
            named[entry.role, entry.slot] = entry
    _require_recorded(names.cells, [call.path for call in like.calls], of_cells)
    if slots := {slot: None for _, slot in named} | dict.fromkeys(aliases):
        _require_recorded(names.parameters, parameters, slots)
    renamed_entries: list[TensorEntry] = []
    for path in dict.fromkeys(call.path for call in like.calls):
        match = names.cell(path)
        for entry in of_cells.get(match.name, ()):
            if entry.role == "input_gradient" and match.is_part:
                continue  # a sum over all parts
            view = match.inputs if entry.role.startswith("input") else match.outputs
            if view is None:
                continue
            if entry.summary is None or not view.index:  # nothing is known of a part
                renamed_entries.append(replace(entry, cell=path, view=view))
    for name in parameters:
        match = names.parameter(name)
        for role in NAMED_ROLES:
            stored = named.get((role, aliases.get(match.name, match.name)))
            if stored is not None and (stored.summary is None or not match.outputs.index):
                renamed_entries.append(replace(stored, slot=name, view=match.outputs))
    return renamed_entries


def _require_recorded(lines: Iterable[Line], own: Sequence[str], recorded: Collection[str]) -> None:
    """Raise `UsageError` for a line all of whose Cells, or parameters, aren't in the recording."""
    for line in lines:
        matches = [(path, match.name) for path in own if (match := line.match(path)) is not None]
        if line.candidate != NO_NAME and matches and not any(name in recorded for _, name in matches):
            path, name = matches[0]
            some = ", ".join(map(visible_name, list(recorded)[:6]))
            raise UsageError(
                f"{line.where}: {visible_name(path)} would be {visible_name(name)}, which isn't in the recording; it "
                f"has {some}{', ...' if len(recorded) > 6 else ''}"
            )
