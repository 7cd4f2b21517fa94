"""The interface of all reports: a verdict, data, and the parts of each view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from os import PathLike
from typing import Any

from rich.text import Text

from ...runtime.errors import ParityError
from ..results.conditions import Conditions
from ..results.origin import Origin
from . import notebook, terminal
from .cases import Case
from .html import writer
from .html.page import MARKS, Page


class BaseReport(ABC):
    """The verdict on networks or training runs.

    Attributes:
        model: name of the network, as the user gave it.
        sides: names of the sides that were compared with the reference.
        dtype: working dtype.
        notes: remarks for the reader, e.g. what couldn't be compared.
        conditions: settings that make the verdict say less, which it therefore names.
        origin: when, by which versions and by which command line it was made.
        not_known: why parity can't be judged, though nothing that was compared fails; empty if it can.
    """

    model: str
    sides: list[str]
    dtype: str
    notes: list[str]
    conditions: Conditions
    origin: Origin
    not_known: str = ""

    @property
    @abstractmethod
    def ok(self) -> bool:
        """Whether parity holds: something was compared, and nothing differs."""

    @property
    def failed(self) -> bool:
        """Whether something differs or is missing; false too where nothing can be said against a side."""
        return not self.ok

    @property
    def is_not_known(self) -> bool:
        """Whether nothing failed, and too little is known to say that parity holds."""
        return not self.failed and bool(self.not_known)

    @property
    def mark(self) -> str:
        """The verdict in a character: `✓`, `✗`, or `!` if it is not known."""
        return MARKS["holds" if self.ok else "fails" if self.failed else "unclear"]

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The verdict in words."""

    @property
    def headline(self) -> str:
        """What is wrong in a few words, for a list of many failures."""
        return self.sentence

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""

    @abstractmethod
    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """Return the report for a person, in lines of at most `width` characters; `verbose` collapses nothing."""

    @abstractmethod
    def failure_lines(self, width: int) -> list[Text]:
        """Return only the failures, for a person."""

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """Return the report as test cases, for continuous integration."""

    @abstractmethod
    def page(self) -> Page:
        """Return what the HTML view shows."""

    def write_html(self, path: str | PathLike[str]) -> None:
        """Write the report as one HTML file that needs no network, completely or not at all.

        Raises:
            UsageError: the file can't be written.
        """
        writer.write(self.page(), path)

    def _repr_html_(self) -> str:
        """Return the page in a frame, which notebooks show for a report that ends a cell."""
        return notebook.in_frame(self.page())

    def properties(self) -> list[tuple[str, str]]:
        """Return names and values of properties of the whole report."""
        return [("verdict", self.sentence), *self.origin.facts]

    def raise_if_failed(self) -> None:
        """Raise `ParityError` with the failures, if there are any, or with the reason why parity is not known."""
        __tracebackhide__ = True
        if self.failed or self.is_not_known:
            error = ParityError(terminal.failure_text(self))
            error.report = self
            raise error

    def __str__(self) -> str:
        """Return the report as `parity run` prints it, in 80 columns."""
        return terminal.text(self)
