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

    def write(self, folder: Path, cell: CellReport) -> None:
        """Write a script that shows the failure, and all it needs, to an empty folder, and run it.

        Args:
            folder: the folder.
            cell: the report on the Cell, for the README.

        Raises:
            CellbridgeError: there is no script that shows the failure; the message says why.
        """
