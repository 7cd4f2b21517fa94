"""What all reports have in common: a verdict, data, and what each view of them is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from rich.text import Text

from ...runtime.errors import ParityError
from . import terminal
from .cases import Case


class BaseReport(ABC):
    """The verdict on networks or on trainings.

    Attributes:
        model: what was compared, as the user named it.
        sides: names of the sides that were held against the reference.
        dtype: working dtype.
        notes: what a reader should know, e.g. what could not be compared.
    """

    model: str
    sides: list[str]
    dtype: str
    notes: list[str]

    @property
    @abstractmethod
    def ok(self) -> bool:
        """Whether parity holds: something was compared, and nothing differs."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""

    @abstractmethod
    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """For a person, in lines of at most `width` characters; with `verbose` nothing is collapsed."""

    @abstractmethod
    def failure_lines(self, width: int) -> list[Text]:
        """What is wrong, for a person, without what isn't."""

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """As test cases, for continuous integration."""

    def properties(self) -> list[tuple[str, str]]:
        """Names and values of what belongs to the report and to none of its cases."""
        return []

    def raise_if_failed(self) -> None:
        """Raise `ParityError` with what is wrong, unless parity holds."""
        __tracebackhide__ = True
        if not self.ok:
            raise ParityError(terminal.failure_text(self))

    def __str__(self) -> str:
        """As `parity run` shows it, in 80 columns."""
        return terminal.text(self)
