"""onnx's backend tests as checks, each of some tests, for `parity sweep`:

parity sweep tests/coverage/sweeps/backend.py -o backend.db --workers 2
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.coverage import backend

TOGETHER = 100  # tests of a check: onnx makes all of them at once, which takes seconds


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield checks, named by their first and last test."""
    names = list(backend.cases())
    for start in range(0, len(names), TOGETHER):
        some = names[start : start + TOGETHER]
        yield f"{some[0]} to {some[-1]}", functools.partial(_check, some)


def _check(names: Sequence[str]) -> None:
    known, cases = backend.gaps(), backend.cases()
    wrong = backend.disagreements([backend.run(cases[name]) for name in names], known)
    assert not wrong, "\n".join(wrong)
