"""`Report`: the verdict on two or more sides of a network."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ..results.network_result import NetworkResult
from . import network
from .base import BaseReport
from .cases import Case, network_cases, network_properties
from .html.network_page import network_page
from .html.page import Page


class Report(NetworkResult, BaseReport):
    """The verdict on two or more sides of a network.

    Printed, it shows the tree of Cells with verdicts, the failing Cells in detail, and a summary.
    """

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

    def properties(self) -> list[tuple[str, str]]:
        """Return the port of each module, and the source of each Parameter's value."""
        return network_properties(self)
