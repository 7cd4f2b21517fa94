"""Colors in the terminal, by the variables NO_COLOR and FORCE_COLOR, which rich reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = {"always": "FORCE_COLOR", "never": "NO_COLOR"}


@contextmanager
def colors(choice: str | None) -> Iterator[None]:
    """Print in color "always" or "never"; "auto" and None leave it to the terminal and the variables."""
    before = {name: os.environ.get(name) for name in VARIABLES.values()}
    if choice in VARIABLES:
        for name in VARIABLES.values():
            os.environ.pop(name, None)
        os.environ[VARIABLES[choice]] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def wanted_colors() -> bool | None:
    """Return whether colors are asked for or ruled out; None if the terminal decides (https://no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None
