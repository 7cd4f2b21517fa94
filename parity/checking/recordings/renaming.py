"""A recording in the names and the form of the reference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...sides.records import INPUT, Array, Key, Records, value_key
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


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a recording without padding are in the reference's batches.

    Attributes:
        mask: [batch, length], true where there is a token; the tokens are in its order.
    """

    mask: Array

    @classmethod
    def of(cls, slot: str, truth: Records, where: str) -> Packing:
        """Return the packing by one of the network's inputs, which is 0 where there is padding.

        Raises:
            UsageError: there is no such input, or it isn't [batch, length].
        """
        mask = truth.values.get(Key("", 0, INPUT, slot))
        if mask is None or mask.ndim != 2:
            names = ", ".join(visible_name(key.slot) for key in truth.root_keys(INPUT))
            given = "there is none of that name" if mask is None else f"it has the shape {list(mask.shape)}"
            raise UsageError(
                f"{where}: needed an input [batch, length] that is 0 where there is padding, {visible_name(slot)}: "
                f"{given}; the reference's inputs: {names}"
            )
        return cls(mask != 0)

    def unpack(self, key: Key, array: Array, truth: Records) -> Array | None:
        """Return a tensor in the reference's shape; None if its shape isn't that without padding.

        Where there is padding, it has the reference's values, and gradients are zero.

        Args:
            key: the boundary.
            array: the recorded tensor, [tokens, ...] or [1, tokens, ...].
            truth: the reference's records.
        """
        like = truth.values.get(value_key(key))
        if like is None or array.shape == like.shape:
            return array
        rest = like.shape[2:]
        tokens = int(self.mask.sum())
        if like.shape[:2] != self.mask.shape or array.shape not in ((tokens, *rest), (1, tokens, *rest)):
            return None
        whole = like.astype(array.dtype) if key == value_key(key) else np.zeros(like.shape, array.dtype)
        whole[self.mask] = array.reshape(tokens, *rest)
        return whole
