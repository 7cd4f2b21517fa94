"""The warnings of a conversion, as notes of a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ...runtime.errors import ConversionWarning


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Within the context, collect the warnings of a conversion in the list; other warnings are issued at its end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConversionWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, ConversionWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
