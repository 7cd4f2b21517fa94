"""`Report`: the verdict on two or more sides of a network."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..results.network_result import NetworkResult
from . import network, notebook, repro
from .base import BaseReport
from .cases import Case, network_cases, network_properties
from .html.network_page import network_page
from .html.page import Page

if TYPE_CHECKING:
    import pandas


class Report(NetworkResult, BaseReport):
    """The verdict on two or more sides of a network.

    Printed, it shows the tree of Cells with verdicts, the failing Cells in detail, and a summary.
    """

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return network.verdict_in_words(self)

    @property
    def headline(self) -> str:
        """The first fault, its Cell and its cause; the verdict in words where no cause is known."""
        faults = network.faults_as_data(self)
        explained = [fault for fault in faults if fault["causes"]]
        if not explained:
            return self.sentence
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"{explained[0]['cells'][0] or '(root)'}: {explained[0]['causes'][0]}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, with the verdict in words, and each fault once."""
        words = {"sentence": self.sentence, "headline": self.headline}
        return super().to_dict() | words | {"faults": network.faults_as_data(self)}

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """Return the tree of Cells, the failing Cells in detail, and the summary."""
        return network.report_lines(self, width, verbose)

    def failure_lines(self, width: int) -> list[Text]:
        """Return the failing Cells in detail."""
        return network.failure_lines(self, width)

    def cases(self) -> Iterable[Case]:
        """Return a case for each Cell and side."""
        return network_cases(self)

    def page(self) -> Page:
        """Return the Cells as a heat map, and the failing ones with their causes."""
        return network_page(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return a table of pandas with a row for each comparison, its Cell and its verdict.

        Raises:
            UsageError: pandas isn't installed.
        """
        return notebook.table(self)

    def write_repro(self, path: str | PathLike[str]) -> repro.Reproductions:
        """Write a folder with a minimal reproduction of each fault, each in a folder of its own.

        Each has a short script, `repro.py`, its tensors, and a README. The script runs the smallest part of the Cell
        that was found to differ, in torch alone, or in torch and ONNX Runtime if the candidate is an ONNX file. It was
        run, and showed the difference, before this returns.

        Args:
            path: a folder that isn't there yet, or is empty. It isn't made if nothing can be reproduced.

        Returns:
            The folders by the paths of their Cells, and why other faults have none.

        Raises:
            UsageError: the folder is there and not empty, or can't be written.
        """
        return repro.write(self, path)

    def properties(self) -> list[tuple[str, str]]:
        """Return the verdict, the port of each module, and the source of each Parameter's value."""
        return [*super().properties(), *network_properties(self)]
