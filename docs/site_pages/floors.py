"""The floors of a room, from the table that `tests/test_architecture.py` holds."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.floors import FLOORS  # noqa: E402


def floors(room: str) -> list[list[str]]:
    """The parts of a room from the lowest floor up: folders with a slash, modules without `.py`."""
    return [
        [_part(entry) for entry in row if not entry.endswith(("__init__.py", "__main__.py"))] for row in FLOORS[room]
    ]


def _part(entry: str) -> str:
    return entry.removesuffix(".py") if entry.endswith(".py") else f"{entry}/"
