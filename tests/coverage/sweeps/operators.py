"""torch's operator database as checks, each of some entries, for `parity sweep`:

parity sweep tests/coverage/sweeps/operators.py -o operators.db --workers 2
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.coverage import gaps
from tests.coverage.operators import database, disagreements, try_entry

SAMPLES = 6  # of each entry in each dtype
TOGETHER = 8  # entries of a check: a process takes four seconds to begin


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield checks, named by their first and last entry."""
    names = list(database())
    for start in range(0, len(names), TOGETHER):
        some = names[start : start + TOGETHER]
        yield f"{some[0]} to {some[-1]}", functools.partial(_check, some)


def _check(names: Sequence[str]) -> None:
    known = gaps.read()
    wrong = [line for name in names for line in disagreements(try_entry(name, SAMPLES), known)]
    assert not wrong, "\n".join(wrong)
