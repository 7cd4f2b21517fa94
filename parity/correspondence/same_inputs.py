"""Inputs of one call that are one tensor: `attention(x, x, x)`, or a decoder whose memory is its own input.

Its gradient arrives in parts, one through each input. A port may take the tensor once: its gradient is their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Same = Mapping[int, int]
"""The first input of a call that is the same tensor, by the position of each further one."""
Calls = Mapping[tuple[str, int], Same]
"""These inputs, by path and index of the call."""
Slots = Mapping[tuple[str, int, str], Sequence[str]]


def same_tensors(tensors: Sequence[Any]) -> dict[int, int]:
    """Return the first position of each tensor that comes again, by the positions at which it does."""
    first: dict[int, int] = {}
    places = [first.setdefault(id(tensor), position) for position, tensor in enumerate(tensors)]
    return {position: original for position, original in enumerate(places) if original != position}


def inputs_to_join(slots: Slots, same: Calls, others: Slots, other_same: Calls) -> tuple[Calls, Calls]:
    """Return the inputs to count as one on either side, so that calls take equally many where they now differ.

    Args:
        slots: names of the inputs of a side's calls, by (path, index, "input").
        same: its inputs that are one tensor.
        others: names of the inputs of the other side's calls.
        other_same: the other side's inputs that are one tensor.
    """
    joined: dict[tuple[str, int], Same] = {}
    other_joined: dict[tuple[str, int], Same] = {}
    for (path, index, kind), names in slots.items():
        other_names = others.get((path, index, kind))
        if kind != "input" or other_names is None or len(other_names) == len(names):
            continue
        call = path, index
        repeats, other_repeats = same.get(call, {}), other_same.get(call, {})
        for join, other_join in ((repeats, {}), ({}, other_repeats), (repeats, other_repeats)):
            if len(names) - len(join) == len(other_names) - len(other_join):
                joined |= {call: join} if join else {}
                other_joined |= {call: other_join} if other_join else {}
                break
    return joined, other_joined


def groups_of_inputs(sides: Iterable[tuple[Slots, Calls]]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the inputs of each call that are one tensor on any side: the call's path and index, and their names.

    Args:
        sides: the names of each side's inputs, and those that are one tensor.
    """
    groups: dict[tuple[str, int], list[list[str]]] = {}
    for slots, calls in sides:
        for (path, index), same in calls.items():
            names = slots.get((path, index, "input"), [])
            for position, first in same.items():
                if max(position, first) < len(names):
                    _join(groups.setdefault((path, index), []), names[first], names[position])
    for (path, index), of_call in groups.items():
        yield from ((path, index, names) for names in of_call)


def _join(groups: list[list[str]], first: str, other: str) -> None:
    """Put two names into one group, with those that are in a group with either."""
    joined_groups = [group for group in groups if first in group or other in group]
    groups[:] = [group for group in groups if group not in joined_groups]
    groups.append(list(dict.fromkeys([*(name for group in joined_groups for name in group), first, other])))
