"""How often loops may go round: not limited, but where a program of unknown origin is judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from ...errors import CellbridgeError

_limit: ContextVar[list[int] | None] = ContextVar("limit", default=None)  # how many trips there may be, and were


class TooManyTrips(CellbridgeError, ValueError):
    """Loops go round more often than is allowed."""


@contextlib.contextmanager
def limit_trips(trips: int) -> Iterator[None]:
    """Let the loops that the interpreter runs in the block go round so often, all together; then `TooManyTrips`."""
    token = _limit.set([trips, 0])
    try:
        yield
    finally:
        _limit.reset(token)


def count() -> None:
    """Count a trip of a loop."""
    limit = _limit.get()
    if limit is None:
        return
    limit[1] += 1
    if limit[1] > limit[0]:
        raise TooManyTrips(
            f"loops go round more than {limit[0]} times, which takes too long\n"
            "  what to do: choose inputs for which they go round less often, or judge what is in them by itself"
        )
