"""What a network returns, beside what its reference returns: which tensors belong together, and what differs.

Tensors are paired by where they stand: by the keys of dicts, the fields of dataclasses and named tuples, the positions
in tuples and lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...runtime.tree import Structure

MAX_SHOWN = 300
"""Characters of a structure that are shown."""


@dataclass
class Matched:
    """What was found.

    Attributes:
        partners: for each tensor of the one, in flat order, the position of its partner in the reference; None for one
            that the reference hasn't.
        differences: what differs, in words.
        notes: what differs and makes no difference to who takes the result: a list for a tuple, say.
        values: what isn't a tensor on either side: where it stands, the reference's and the other's.
    """

    partners: list[int | None]
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    values: list[tuple[str, Any, Any]] = field(default_factory=list)


def matched(reference: Structure, other: Structure, *, is_port: bool = False) -> Matched:
    """Pair the tensors of a result with those of the reference's.

    Args:
        reference: what the reference returns.
        other: what the other network returns.
        is_port: of a Cell and the module that it is the port of: a Cell may return tuples where the module returns an
            object with names.
    """
    found = Matched([None] * other.tensors)
    _match(found, reference, other, 0, 0, "", is_port)
    taken = set(found.partners)
    free = [place for place in range(reference.tensors) if place not in taken]
    alone = [place for place, partner in enumerate(found.partners) if partner is None]
    if len(free) == len(alone):  # under other names, they may still be the same
        for place, partner in zip(alone, free, strict=True):
            found.partners[place] = partner
    if found.differences:
        shown = f"returns {described(other)} here, {described(reference)} there"
        found.differences = [f"{shown}: {'; '.join(found.differences)}"]
    return found


def _match(
    found: Matched, reference: Structure, other: Structure, theirs: int, ours: int, where: str, is_port: bool
) -> None:
    """Match two parts, whose tensors are counted from `theirs` and `ours`."""
    if reference.kind == other.kind == "tensor":
        found.partners[ours] = theirs
    elif reference.kind == other.kind == "constant":
        found.values.append((where, reference.constant, other.constant))
    elif _is_container(reference) and _is_container(other):
        labels = _common_labels(reference, other)
        if labels is None:
            _by_position(found, reference, other, theirs, ours, where, is_port)
            return
        if _class(reference) != _class(other):
            found.notes.append(f"{_at(where)}{_class(other)} here, {_class(reference)} there")
        _lacks(found, reference, other, where, labels, is_port)
        if reference.kind == other.kind == "namedtuple" and sorted(its for _, _, its in labels) != [
            its for _, _, its in labels
        ]:
            found.differences.append(f"{_at(where)}the fields stand in another order")
        starts, own_starts = _starts(reference, theirs), _starts(other, ours)
        for label, mine, its in labels:
            arguments = reference.children[mine], other.children[its], starts[mine], own_starts[its]
            _match(found, *arguments, f"{where}[{label!r}]", is_port)
    else:
        _by_position(found, reference, other, theirs, ours, where, is_port)


def _by_position(
    found: Matched, reference: Structure, other: Structure, theirs: int, ours: int, where: str, is_port: bool
) -> None:
    """Pair the tensors of two parts of different kinds, one after the other."""
    difference = f"{_at(where)}{_kind(other)} here, {_kind(reference)} there"
    for i in range(min(reference.tensors, other.tensors)):
        found.partners[ours + i] = theirs + i
    if is_port and reference.tensors == other.tensors:
        found.notes.append(f"{difference}; tensors were paired by position")
    else:
        found.differences.append(difference)


def _common_labels(reference: Structure, other: Structure) -> list[tuple[Any, int, int]] | None:
    """What both have, with its place in each; None where one goes by names and the other by positions."""
    if reference.keys and other.keys:
        places = {key: place for place, key in enumerate(other.keys)}
        return [(key, place, places[key]) for place, key in enumerate(reference.keys) if key in places]
    if "dict" in (reference.kind, other.kind) and reference.kind != other.kind:
        return None
    return [(place, place, place) for place in range(min(len(reference.children), len(other.children)))]


def _lacks(
    found: Matched,
    reference: Structure,
    other: Structure,
    where: str,
    labels: Sequence[tuple[Any, int, int]],
    is_port: bool,
) -> None:
    """Note what is only on one side. None under a name is as good as none; a port may leave out what isn't a tensor."""
    named = bool(reference.keys or other.keys)
    missing = _others(reference, {mine for _, mine, _ in labels})
    additional = _others(other, {its for _, _, its in labels})
    for what, parts in (("missing", missing), ("additional", additional)):
        absent = {label: part for label, part in parts.items() if not (named and _is_none(part))}
        if absent:
            places = ", ".join(f"{where}[{label!r}]" for label in absent)
            noted = is_port and not any(part.tensors for part in absent.values())
            (found.notes if noted else found.differences).append(
                f"{places} {'is' if len(absent) == 1 else 'are'} {what}"
            )


def _others(container: Structure, taken: set[int]) -> dict[Any, Structure]:
    labels: Iterable[Any] = container.keys or range(len(container.children))
    parts = zip(labels, container.children, strict=True)
    return {label: child for place, (label, child) in enumerate(parts) if place not in taken}


def _is_none(structure: Structure) -> bool:
    return structure.kind == "constant" and structure.constant is None


def _starts(container: Structure, start: int) -> list[int]:
    """Where the tensors of each child begin."""
    starts = []
    for child in container.children:
        starts.append(start)
        start += child.tensors
    return starts


def _is_container(structure: Structure) -> bool:
    return structure.kind not in ("tensor", "constant")


def _class(container: Structure) -> str:
    """What kind of container it is, for who takes things out of it: names of classes don't matter."""
    if container.kind == "dict":
        return "an object with attributes" if container.name else "a dict"
    return {"tuple": "a tuple", "list": "a list", "namedtuple": "a named tuple"}[container.kind]


def _kind(structure: Structure) -> str:
    if structure.kind == "tensor":
        return "a tensor"
    return repr(structure.constant)[:MAX_SHOWN] if structure.kind == "constant" else _class(structure)


def _at(where: str) -> str:
    return f"at {where} " if where else ""


def described(structure: Structure) -> str:
    """A structure in one line: `{logits: tensor, states: (tensor, tensor)}`."""
    text = _described(structure)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _described(structure: Structure) -> str:
    if structure.kind == "tensor":
        return "tensor"
    if structure.kind == "constant":
        return repr(structure.constant)
    parts = list(map(_described, structure.children))
    if structure.keys:
        names = [key if isinstance(key, str) and key.isidentifier() else repr(key) for key in structure.keys]
        parts = [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]
    inside = ", ".join(parts)
    match structure.kind:
        case "dict":
            return f"{structure.name}({inside})" if structure.name else f"{{{inside}}}"
        case "namedtuple":
            return f"{structure.name}({inside})"
        case "list":
            return f"[{inside}]"
    return f"({inside},)" if len(parts) == 1 else f"({inside})"
