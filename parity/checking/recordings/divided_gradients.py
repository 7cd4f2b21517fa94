"""Gradients of the inputs of a Cell that takes another number of tensors in a recording than in the reference.

A tensor that a Cell takes several times, as in `attention(x, x, x)`, has its gradient in parts, which add up to that
of a Cell that takes it once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....runtime.visible import visible_name
from ...report.globs import list_names
from ...sides.records import INPUT, Array, Key, Records, gradient_key
from .shards import part_of


def with_whole_gradients(records: Records, truth: Records) -> tuple[Records, str]:
    """Return a candidate's records with those gradients of inputs that can be compared, and a remark on the others.

    The parts of a tensor that the reference takes once are added. Where the inputs differ otherwise, the gradient of
    each may be a part of another's, and is left out: it counts in the Cell around.

    Args:
        records: the candidate's records, under the reference's names.
        truth: the reference's.
    """
    added: dict[Key, Array] = {}
    left_out: set[Key] = set()
    for (path, call, kind), names in truth.slots.items():
        given = records.slots.get((path, call, INPUT), [])
        if kind != INPUT or not given or set(given) == set(names):
            continue
        of_slot = {slot: gradient_key(Key(path, call, INPUT, slot)) for slot in [*names, *given]}
        reference_slots = {slot for slot, key in of_slot.items() if key in truth.values}
        candidate_slots = {slot for slot, key in of_slot.items() if key in records.values}
        for slot in candidate_slots - set(names):
            if (same := _same_input(path, call, slot, names, records)) in candidate_slots:
                whole = of_slot[same]
                added[whole] = added.get(whole, records.values[whole]) + records.values[of_slot[slot]]
                candidate_slots.discard(slot)
        if reference_slots != candidate_slots:
            left_out |= {of_slot[slot] for slot in candidate_slots}
    if not added and not left_out:
        return records, ""
    values = {key: added.get(key, array) for key, array in records.values.items() if key not in left_out}
    cells = list_names(sorted({visible_name(key.path) or "(root)" for key in left_out}))
    remark = (
        f"the gradients of the inputs of {cells} count in the Cell around: it takes another number of tensors there"
    )
    return replace(records, values=part_of(records.values, values)), remark if left_out else ""


def _same_input(path: str, call: int, slot: str, names: list[str], records: Records) -> str | None:
    """Return the first of these inputs of a call that has the same values as another; None if there is none."""
    value = records.values.get(Key(path, call, INPUT, slot))
    others = {name: records.values.get(Key(path, call, INPUT, name)) for name in names}
    equal = (name for name, other in others.items() if value is not None and other is not None)
    return next((name for name in equal if np.array_equal(value, others[name])), None)  # type: ignore[arg-type]
