"""`TrainingReport`: the verdict on trainings held against torch's."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ..results.training_result import TrainingResult
from .base import BaseReport
from .cases import Case, training_cases
from .training import training_lines


class TrainingReport(TrainingResult, BaseReport):
    """The verdict on trainings held against torch's.

    Printed, it is a table of the kinds of tensors by sides, what differs first, and what that looks like.
    """

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """A line for each kind of tensor, and what differs first; there is nothing more for `verbose`."""
        return training_lines(self, width)

    def failure_lines(self, width: int) -> list[Text]:
        """All of it: the table shows since which step each kind differs."""
        return training_lines(self, width)

    def cases(self) -> Iterable[Case]:
        """A case for each kind of tensor and side."""
        return training_cases(self)
