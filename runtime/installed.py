"""Whether a file belongs to an installed package or to Python itself, rather than to the user."""

from __future__ import annotations

import linecache
from pathlib import Path

import numpy as np

# where NumPy lies, other packages lie: that needn't be called site-packages
_FOLDERS = tuple(f"{folder}/" for folder in (Path(linecache.__file__).parent, Path(np.__file__).parents[1]))


def is_installed(file: str) -> bool:
    """Whether a file is the standard library's, or of a package that was installed."""
    return file.startswith(_FOLDERS) or "site-packages" in file or "dist-packages" in file
