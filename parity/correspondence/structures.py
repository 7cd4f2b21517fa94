"""A network's result compared with its reference's: the pairs of tensors, and structural differences.

Tensors are paired by their place: keys of dicts, fields of dataclasses and named tuples, positions in tuples and lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...runtime.tree import Structure

MAX_SHOWN = 300
"""Characters of a structure that are shown."""


@dataclass
class ResultMatch:
    """The result of matching.

    Attributes:
        partners: for each tensor, in flat order, the position of its partner in the reference, or None.
        differences: descriptions of differences.
        notes: descriptions of harmless differences, such as a list instead of a tuple.
        values: values other than tensors: place, the reference's value and the other's.
    """

    partners: list[int | None]
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    values: list[tuple[str, Any, Any]] = field(default_factory=list)


def match_results(reference: Structure, other: Structure, *, is_port: bool = False) -> ResultMatch:
    """Pair the tensors of a result with the reference's.

    Args:
        reference: structure of the reference's result.
        other: structure of the other network's result.
        is_port: whether the other network is a port, which may return tuples where the module returns an object with
            names.
    """
    result = ResultMatch([None] * other.tensors)
    _match(result, reference, other, 0, 0, "", is_port)
    paired = set(result.partners)
    free = [position for position in range(reference.tensors) if position not in paired]
    alone = [position for position, partner in enumerate(result.partners) if partner is None]
    if len(free) == len(alone):  # they may correspond under different names
        for position, partner in zip(alone, free, strict=True):
            result.partners[position] = partner
    if result.differences:
        summary = f"returns {format_structure(other)} in the candidate, {format_structure(reference)} in the reference"
        result.differences = [f"{summary}: {'; '.join(result.differences)}"]
    return result


def _match(
    result: ResultMatch,
    reference: Structure,
    other: Structure,
    reference_start: int,
    other_start: int,
    where: str,
    is_port: bool,
) -> None:
    """Match two parts, whose tensors are numbered from `reference_start` and `other_start`."""
    if reference.kind == other.kind == "tensor":
        result.partners[other_start] = reference_start
    elif reference.kind == other.kind == "constant":
        result.values.append((where, reference.constant, other.constant))
    elif _is_container(reference) and _is_container(other):
        labels = _common_labels(reference, other)
        if labels is None:
            _by_position(result, reference, other, reference_start, other_start, where, is_port)
            return
        if _class(reference) != _class(other):
            result.notes.append(f"{_at(where)}{_class(other)} in the candidate, {_class(reference)} in the reference")
        _note_missing_parts(result, reference, other, where, labels, is_port)
        if reference.kind == other.kind == "namedtuple" and sorted(other_index for _, _, other_index in labels) != [
            other_index for _, _, other_index in labels
        ]:
            result.differences.append(f"{_at(where)}the fields are in another order")
        starts, own_starts = _starts(reference, reference_start), _starts(other, other_start)
        for label, index, other_index in labels:
            arguments = reference.children[index], other.children[other_index], starts[index], own_starts[other_index]
            _match(result, *arguments, f"{where}[{label!r}]", is_port)
    else:
        _by_position(result, reference, other, reference_start, other_start, where, is_port)


def _by_position(
    result: ResultMatch,
    reference: Structure,
    other: Structure,
    reference_start: int,
    other_start: int,
    where: str,
    is_port: bool,
) -> None:
    """Pair the tensors of two parts of different kinds by position."""
    difference = f"{_at(where)}{kind_of(other)} in the candidate, {kind_of(reference)} in the reference"
    for i in range(min(reference.tensors, other.tensors)):
        result.partners[other_start + i] = reference_start + i
    if is_port and reference.tensors == other.tensors:
        result.notes.append(f"{difference}; tensors were paired by position")
    else:
        result.differences.append(difference)


def _common_labels(reference: Structure, other: Structure) -> list[tuple[Any, int, int]] | None:
    """Return the common labels with their places on both sides; None if one side has names and the other positions."""
    if reference.keys and other.keys:
        places = {key: index for index, key in enumerate(other.keys)}
        return [(key, index, places[key]) for index, key in enumerate(reference.keys) if key in places]
    if "dict" in (reference.kind, other.kind) and reference.kind != other.kind:
        return None
    return [(index, index, index) for index in range(min(len(reference.children), len(other.children)))]


def _note_missing_parts(
    result: ResultMatch,
    reference: Structure,
    other: Structure,
    where: str,
    labels: Sequence[tuple[Any, int, int]],
    is_port: bool,
) -> None:
    """Record parts that only one side has; a named None counts as absent, and a port may omit non-tensors."""
    named = bool(reference.keys or other.keys)
    missing = _others(reference, {index for _, index, _ in labels})
    additional = _others(other, {other_index for _, _, other_index in labels})
    for what, parts in (("missing", missing), ("additional", additional)):
        absent = {label: part for label, part in parts.items() if not (named and _is_none(part))}
        if absent:
            places = ", ".join(f"{where}[{label!r}]" for label in absent)
            is_note = is_port and not any(part.tensors for part in absent.values())
            (result.notes if is_note else result.differences).append(
                f"{places} {'is' if len(absent) == 1 else 'are'} {what}"
            )


def _others(container: Structure, excluded: set[int]) -> dict[Any, Structure]:
    labels: Iterable[Any] = container.keys or range(len(container.children))
    parts = zip(labels, container.children, strict=True)
    return {label: child for index, (label, child) in enumerate(parts) if index not in excluded}


def _is_none(structure: Structure) -> bool:
    return structure.kind == "constant" and structure.constant is None


def _starts(container: Structure, start: int) -> list[int]:
    """The number of the first tensor of each child."""
    starts = []
    for child in container.children:
        starts.append(start)
        start += child.tensors
    return starts


def _is_container(structure: Structure) -> bool:
    return structure.kind not in ("tensor", "constant")


def _class(container: Structure) -> str:
    """Describe the kind of a container, regardless of its class's name."""
    if container.kind == "dict":
        return "an object with attributes" if container.name else "a dict"
    return {"tuple": "a tuple", "list": "a list", "namedtuple": "a named tuple"}[container.kind]


def kind_of(structure: Structure) -> str:
    """Describe the kind of a structure in words: `a tensor`, `a dict`."""
    if structure.kind == "tensor":
        return "a tensor"
    return repr(structure.constant)[:MAX_SHOWN] if structure.kind == "constant" else _class(structure)


def _at(where: str) -> str:
    return f"at {where} " if where else ""


def format_structure(structure: Structure) -> str:
    """Format a structure in one line: `{logits: tensor, states: (tensor, tensor)}`."""
    text = _format(structure)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _format(structure: Structure) -> str:
    if structure.kind == "tensor":
        return "tensor"
    if structure.kind == "constant":
        return repr(structure.constant)
    parts = list(map(_format, structure.children))
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
