"""A limit of loop iterations, for checks of untrusted programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from ...errors import CellbridgeError

_limit: ContextVar[list[int] | None] = ContextVar("limit", default=None)  # the limit, and the number of trips so far


class TooManyTrips(CellbridgeError, ValueError):
    """Loops exceed the limit of iterations."""


@contextlib.contextmanager
def limit_trips(trips: int) -> Iterator[None]:
    """Within the context, limit the total iterations of all loops in the interpreter; beyond, raise `TooManyTrips`."""
    token = _limit.set([trips, 0])
    try:
        yield
    finally:
        _limit.reset(token)


def count() -> None:
    """Count an iteration of a loop."""
    limit = _limit.get()
    if limit is None:
        return
    limit[1] += 1
    if limit[1] > limit[0]:
        raise TooManyTrips(
            f"loops run more than {limit[0]} iterations, which takes too long\n"
            "  what to do: choose inputs with fewer iterations, or check the bodies of the loops separately"
        )
