"""Import decisions that only the rest of the model can settle: import tries both answers.

The program checks the choice when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...runtime.errors import ConversionError

MAX_TRIES = 8

Result = TypeVar("Result")


class Choices:
    """The yes-or-no answers to the questions that an import asks, in the order of the questions."""

    def __init__(self) -> None:
        self._answers: list[bool] = []
        self._position = 0

    def answer(self) -> bool:
        """The answer to the next question: yes, unless an earlier attempt failed with that answer."""
        if self._position == len(self._answers):
            self._answers.append(True)
        self._position += 1
        return self._answers[self._position - 1]

    def change(self) -> bool:
        """Change the last yes to no and start over; return False if no yes is left."""
        del self._answers[self._position :]
        while self._answers and not self._answers[-1]:
            self._answers.pop()
        if not self._answers:
            return False
        self._answers[-1] = False
        self._position = 0
        return True


def try_choices(attempt: Callable[[Choices], Result]) -> Result:
    """Return the first result of `attempt` without a `ConversionError`; raise the first error if no answers work."""
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
