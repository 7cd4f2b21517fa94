"""`Report`: the verdict on two or more sides of a network."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ..results.network_result import NetworkResult
from . import network
from .base import BaseReport
from .cases import Case, network_cases, network_properties


class Report(NetworkResult, BaseReport):
    """The verdict on two or more sides of a network.

    Printed, it is the tree of Cells with its verdicts, the failing ones in detail, and what it comes to.
    """

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """The tree of Cells, the failing ones in detail, and what it comes to."""
        return network.report_lines(self, width, verbose)

    def failure_lines(self, width: int) -> list[Text]:
        """The failing Cells in detail."""
        return network.failure_lines(self, width)

    def cases(self) -> Iterable[Case]:
        """A case for each Cell and side."""
        return network_cases(self)

    def properties(self) -> list[tuple[str, str]]:
        """Which Cell is the port of which module, and what its Parameters were filled with."""
        return network_properties(self)
