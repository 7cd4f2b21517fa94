"""Branches of which only one fits the surrounding graph: import tries both, and the program checks the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...runtime.errors import ConversionError

MAX_TRIES = 8

Result = TypeVar("Result")


class Choices:
    """The answers, yes or no, to the questions of an import, in the order in which it asks them."""

    def __init__(self) -> None:
        self._answers: list[bool] = []
        self._position = 0

    def answer(self) -> bool:
        """The answer to the next question: yes, unless the rest of the model didn't fit it in an earlier attempt."""
        if self._position == len(self._answers):
            self._answers.append(True)
        self._position += 1
        return self._answers[self._position - 1]

    def change(self) -> bool:
        """Change the last yes to no and start again; False if there is no yes left."""
        del self._answers[self._position :]
        while self._answers and not self._answers[-1]:
            self._answers.pop()
        if not self._answers:
            return False
        self._answers[-1] = False
        self._position = 0
        return True


def try_choices(attempt: Callable[[Choices], Result]) -> Result:
    """The result of `attempt` with the first answers that raise no `ConversionError`; else raise the first error."""
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
