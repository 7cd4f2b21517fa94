"""Branches of which only one fits the graph around them: which is taken is tried, and checked when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...runtime.errors import ConversionError

MAX_TRIES = 8

Result = TypeVar("Result")


class Choices:
    """Yes or no for each question that an import asks, in the order in which it asks them."""

    def __init__(self) -> None:
        self._answers: list[bool] = []
        self._asked = 0

    def answer(self) -> bool:
        """The answer to the next question: yes, unless the rest of the model was found not to fit it."""
        if self._asked == len(self._answers):
            self._answers.append(True)
        self._asked += 1
        return self._answers[self._asked - 1]

    def change(self) -> bool:
        """Change the last yes, and begin again; False where there is none."""
        del self._answers[self._asked :]
        while self._answers and not self._answers[-1]:
            self._answers.pop()
        if not self._answers:
            return False
        self._answers[-1] = False
        self._asked = 0
        return True


def tried(attempt: Callable[[Choices], Result]) -> Result:
    """What `attempt` gives with the first answers that it doesn't raise `ConversionError` with; else the first one."""
    choices = Choices()
    first: ConversionError | None = None
    for _ in range(MAX_TRIES):
        try:
            return attempt(choices)
        except ConversionError as error:
            first = first or error
            if not choices.change():
                break
    assert first is not None, "an attempt returns or raises"
    raise first
