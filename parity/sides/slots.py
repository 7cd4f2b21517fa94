"""The names of a call's tensors, its slots, paired with those that the reference has for them."""

from __future__ import annotations

import re
from collections.abc import Sequence


def additional_slot(slot: str) -> str:
    """The slot to record an output under that the reference doesn't have."""
    return f"{slot} (additional)"


def output_slots(own_slots: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the reference's slots for the outputs of an inner Cell.

    They are paired by name (keys and fields) if the reference has all of these names; else by position: returning
    results in another container isn't an error.
    """
    if list(own_slots) == list(reference):  # mostly: and this is asked at every boundary of every run
        return list(own_slots)
    names = {_place(slot): slot for slot in reference}
    if len(names) == len(reference) and {_place(slot) for slot in own_slots} <= names.keys():
        return [names[_place(slot)] for slot in own_slots]
    return [reference[i] if i < len(reference) else additional_slot(slot) for i, slot in enumerate(own_slots)]


def _place(slot: str) -> str:
    """Return a slot with the fields of objects written as keys of dicts."""
    return re.sub(r"\.(\w+)", r"['\1']", slot)


def reference_slot(slot: str, own_slots: Sequence[str], reference: Sequence[str]) -> str:
    """Return the reference's name for a slot of a call: tensors are paired by name, the remaining ones by position.

    Args:
        slot: one of `own_slots`.
        own_slots: the slots of the call, in order.
        reference: the slots of the same call of the reference.
    """
    if slot in own_slots and list(own_slots) == list(
        reference
    ):  # mostly: and this is asked at every boundary of every run
        return slot
    names = {plain_slot(name): name for name in reference}
    match = names.get(plain_slot(slot))
    if match is not None:
        return match
    own_names = {plain_slot(name) for name in own_slots}
    unpaired = [name for plain, name in names.items() if plain not in own_names]
    alone = [name for name in own_slots if plain_slot(name) not in names]
    return dict(zip(alone, unpaired, strict=False)).get(slot, slot)


def plain_slot(slot: str) -> str:
    """The slot as a module made from a program names its parameter: `states_0` for `states[0]`."""
    return re.sub(r"\W+", "_", slot).strip("_")
