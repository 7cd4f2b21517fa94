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
    reference_classes, candidate_classes = (
        {path: type(inner) for path, _, inner in named_modules(side)} for side in (reference, candidate)
    )
    passing = [
        path for path in reference_classes if path in candidate_classes and path in cells and cells[path].status == PASS
    ]
    differing = [
        path
        for path in passing
        if reference_classes[path] is not candidate_classes[path]
        and not _is_copy(reference_classes[path], candidate_classes[path])
    ]
    of_torch = [
        path for path in differing if all(_is_torch(side[path]) for side in (reference_classes, candidate_classes))
    ]
    named = [*of_torch, *(path for path in differing if path not in of_torch)]
    pairs: dict[tuple[str, str], list[str]] = {}
    for path in named:
        pairs.setdefault(_names(reference_classes[path], candidate_classes[path]), []).append(path)
    texts = [
        f"{paths[0] or '(root)'}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''} "
        f"({candidate_name} in the candidate, {reference_name} in the reference)"
        for (reference_name, candidate_name), paths in pairs.items()
    ]
    more = f", and {len(texts) - MOST} more pairs" if len(texts) > MOST else ""
    return [f"of different classes, and agree on all that was tried: {', '.join(texts[:MOST])}{more}"] if texts else []


def _is_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.")


def _is_copy(reference: type, candidate: type) -> bool:
    """Whether two files each define a class of this name: then their operators are compared instead."""
    return reference.__name__ == candidate.__name__ and not (_is_torch(reference) or _is_torch(candidate))


def _names(reference: type, candidate: type) -> tuple[str, str]:
    """The names of two classes, with their modules if the names are the same."""
    if reference.__name__ != candidate.__name__:
        return reference.__name__, candidate.__name__
    return f"{reference.__module__}.{reference.__qualname__}", f"{candidate.__module__}.{candidate.__qualname__}"
