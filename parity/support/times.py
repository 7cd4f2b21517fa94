"""Times in words."""

from __future__ import annotations


def time_in_words(seconds: float) -> str:
    """Return a time as people read it: `8.1 s`, `12 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
