"""`TrainingReport`: the verdict on training runs compared with torch's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from ..results.training_result import TrainingResult
from .base import BaseReport
from .cases import Case, training_cases
from .html.page import Page
from .html.training_page import training_page
from .training import headline_in_words, training_lines


class TrainingReport(TrainingResult, BaseReport):
    """The verdict on training runs compared with torch's.

    Printed, it shows a table of the kinds of tensors by sides, the first differences, and their probable causes.
    """

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return headline_in_words(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, with the verdict in words."""
        return super().to_dict() | {"sentence": self.sentence, "headline": self.headline}

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """Return the table and the first differences; `verbose` adds nothing."""
        return training_lines(self, width)

    def failure_lines(self, width: int) -> list[Text]:
        """Return the whole report: the table shows the step from which each kind differs."""
        return training_lines(self, width)

    def cases(self) -> Iterable[Case]:
        """Return a case for each kind of tensor and side."""
        return training_cases(self)

    def page(self) -> Page:
        """Return curves over the steps, and the tensors as a heat map."""
        return training_page(self)
