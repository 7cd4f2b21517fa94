"""Python files, read without running them."""

from __future__ import annotations

import ast
from pathlib import Path


def parse(file: Path) -> ast.Module | None:
    """Return the syntax tree of a file; None if it can't be read, or isn't Python."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
