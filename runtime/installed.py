"""Whether a file belongs to an installed package or to Python itself, rather than to the user."""

from __future__ import annotations

import functools
import linecache
from pathlib import Path


@functools.cache
def _folders() -> tuple[str, ...]:
    import numpy  # only here, so that importing this module is cheap

    # other packages are installed where NumPy is; that folder needn't be called site-packages
    return tuple(f"{folder}/" for folder in (Path(linecache.__file__).parent, Path(numpy.__file__).parents[1]))


def is_installed(file: str) -> bool:
    """Whether a file belongs to the standard library or to an installed package."""
    return file.startswith(_folders()) or "site-packages" in file or "dist-packages" in file
