"""Modules of different classes in one place of two networks, which agree on all that was tried."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ....converter.structure.program_names import named_modules
from ...results.cell_report import CellReport
from ...results.comparison import PASS

MOST = 6


def class_notes(reference: torch.nn.Module, candidate: torch.nn.Module, cells: Mapping[str, CellReport]) -> list[str]:
    """Return a note that names the modules that agree and have other classes: torch's own first.

    Args:
        reference: the reference.
        candidate: the candidate, with the same paths.
        cells: the reports on the Cells, by path.
    """
    one, other = ({path: type(inner) for path, _, inner in named_modules(side)} for side in (reference, candidate))
    passing = [path for path in one if path in other and path in cells and cells[path].status == PASS]
    differing = [path for path in passing if one[path] is not other[path] and not _is_copy(one[path], other[path])]
    of_torch = [path for path in differing if all(_is_torch(side[path]) for side in (one, other))]
    named = [*of_torch, *(path for path in differing if path not in of_torch)]
    pairs: dict[tuple[str, str], list[str]] = {}
    for path in named:
        pairs.setdefault(_names(one[path], other[path]), []).append(path)
    texts = [
        f"{paths[0] or '(root)'}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''} "
        f"({theirs} in the candidate, {ours} in the reference)"
        for (ours, theirs), paths in pairs.items()
    ]
    more = f", and {len(texts) - MOST} more pairs" if len(texts) > MOST else ""
    return [f"of different classes, and agree on all that was tried: {', '.join(texts[:MOST])}{more}"] if texts else []


def _is_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.")


def _is_copy(one: type, other: type) -> bool:
    """Whether two files each define a class of this name: then their operators are compared instead."""
    return one.__name__ == other.__name__ and not (_is_torch(one) or _is_torch(other))


def _names(one: type, other: type) -> tuple[str, str]:
    """The names of two classes, with their modules if the names are the same."""
    if one.__name__ != other.__name__:
        return one.__name__, other.__name__
    return f"{one.__module__}.{one.__qualname__}", f"{other.__module__}.{other.__qualname__}"
