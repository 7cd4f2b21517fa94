"""`Reproducible`: what a report keeps of a failing Cell, so that it can be reproduced alone."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from .cell_report import CellReport


class Reproducible(Protocol):
    """A failing Cell of one side, with its inputs and weights."""

    @property
    def path(self) -> str:
        """The path of the Cell."""

    def write(self, folder: Path, cell: CellReport) -> str:
        """Write a script that shows the failure, and all it needs, to an empty folder, and run it.

        Args:
            folder: the folder.
            cell: the report on the Cell, for the README.

        Returns:
            That the search for a smaller one was cut, in words; empty if it came to its end.

        Raises:
            CellbridgeError: there is no script that shows the failure; the message says why.
        """
