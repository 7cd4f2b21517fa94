"""Short ways to write down the faults of torch modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .cases import Either, Fault
from .planting import Plant, changing, editing, replacing, setting

LAYOUT = ("layout", "structure", "attribute")
"""Kinds of cause of elements in another order."""
PROGRAM_NAMES = {"num_groups": "groups", "padding_idx": "padding_index", "top": "k"}
"""The names of attributes in programs, where they differ from those of modules."""


def attribute(label: str, cell: str, name: str, reference: Any, candidate: Any, train: bool = False) -> Fault:
    """An attribute of a Cell has another value."""
    names = f"{name}|{PROGRAM_NAMES.get(name, name)}"
    expected = {"kind": "attribute", "name": names, "reference": reference, "candidate": candidate}
    if name == "eps" and candidate is None:
        expected["candidate"] = Either((None, float(torch.finfo(torch.float32).eps)))  # which None stands for
    return Fault(label, (cell,), name, expected, setting(cell, name, candidate), (name,), train)


def written(
    label: str,
    cell: str,
    old: str,
    new: str,
    cause: str,
    words: str = "",
    *more: tuple[str, str],
    kind: str | tuple[str, ...] = ("structure", "attribute"),
    train: bool = False,
    name: str = "",
    reference: Any = None,
    candidate: Any = None,
) -> Fault:
    """The code of a Cell is written differently; `words`, divided by blanks, must occur in a text on the cause.

    If the code has another value of an argument or factor, `name`, `reference` and `candidate` say of which.
    """
    required = tuple(words.split()) or (cause,)
    expected: dict[str, Any] = {"kind": kind, "words": required}
    if name:
        kind = ("attribute", "structure")
        expected = {"kind": kind, "name": name, "reference": reference, "candidate": candidate}
    return Fault(label, (cell,), cause, expected, editing(cell, (old, new), *more), required, train)


def replaced(label: str, cell: str, make: Callable[[Any], nn.Module], cause: str, words: str) -> Fault:
    """A Cell is of another class."""
    required = tuple(words.split())
    expected = {"kind": ("structure", "attribute", "weight"), "words": required}
    return Fault(label, (cell,), cause, expected, replacing(cell, make), required)


def weight(label: str, tensor: str, change: Callable[[Tensor], Tensor], cause: str, words: str) -> Fault:
    """The values of a parameter or buffer are wrong."""
    cell, _, name = tensor.rpartition(".")
    required = (name, *words.split())
    expected = {"kind": ("weight", "layout", "state"), "words": required}
    return Fault(label, (cell,), cause, expected, changing(tensor, change), required)


def planted(
    label: str, cells: str | tuple[str, ...], plant: Plant, cause: str, words: str, kind: str | tuple[str, ...],
    train: bool = False,
) -> Fault:  # fmt: skip
    """Any other fault."""
    required = tuple(words.split())
    paths = (cells,) if isinstance(cells, str) else cells
    return Fault(label, paths, cause, {"kind": kind, "words": required}, plant, required, train)
