"""What a conversion warns of, as notes of a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ...runtime.errors import ConversionWarning


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
