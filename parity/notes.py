"""Notes of a report: what a conversion warns of, and what stays in eval mode."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..converter.capture.modes import kept_in_eval_mode
from ..runtime.errors import ConversionWarning

MOST_NAMES = 12


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Within the context, what a conversion warns of is put into the list; other warnings are shown at its end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConversionWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, ConversionWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def eval_mode_notes(module: torch.nn.Module, train: bool) -> list[str]:
    """A note that names the Cells which stay in eval mode in train mode, if there are any."""
    paths = kept_in_eval_mode(module) if train else []
    if not paths:
        return []
    more = f" and {len(paths) - MOST_NAMES} more" if len(paths) > MOST_NAMES else ""
    return [f"in eval mode, as the module has them, the others in train mode: {', '.join(paths[:MOST_NAMES])}{more}"]
