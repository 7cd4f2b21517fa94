"""Files that define many models: `cases()` yields the name of each, and a function that makes it.

    def cases():
        for width in (8, 16):
            yield f"mlp-{width}", lambda width=width: (make_mlp(width), (torch.randn(4, width),))

The function returns the module and its inputs; only that of the case which is judged is called. `file.py[mlp-8]` is one
case.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..support.user_code import report_user_errors

CASES = "cases"
MAX_CASES = 100_000


def case_names(source: ModuleType, label: str) -> list[str]:
    """Return the names of a file's cases.

    Raises:
        UsageError: it defines none, raises, or yields something else, or a name twice.
    """
    names = [name for name, _ in _cases(source, label)]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{label}: {CASES}() yields the name {visible_name(twice[0])!r} more than once")
    return names


def source_of_case(source: ModuleType, label: str, name: str) -> ModuleType:
    """Return a module that defines `model` and `inputs` as one case does, and everything else as its file.

    Raises:
        UsageError: there is no such case, or its function raises, or returns something else.
    """
    known: list[str] = []
    make: Callable[[], Any] | None = None
    for other, function in _cases(source, label):
        known.append(other)
        if other == name:
            make = function
            break
    if make is None:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {visible_name(close[0])}?" if close else ""
        raise UsageError(f"{label} has no case {visible_name(name)}{hint}")
    with report_user_errors(label, f"when the case {visible_name(name)} was made"):
        made = make()
    if not isinstance(made, tuple) or len(made) != 2:
        raise UsageError(
            f"{label}: the function of the case {visible_name(name)} must return the module and its inputs, "
            f"it returned {type(made).__name__}"
        )
    case = ModuleType(source.__name__)
    vars(case).update(vars(source), model=made[0], inputs=made[1])
    return case


def _cases(source: ModuleType, label: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    function = vars(source).get(CASES)
    if not callable(function):
        raise UsageError(f"{label} defines no function {CASES}(), which yields names and functions that make models")
    with report_user_errors(label, f"when {CASES}() was called"):
        items = iter(function())
    for number in itertools.count(1):
        with report_user_errors(label, f"when {CASES}() was to yield number {number}"):
            item = next(items, None)
        if item is None:
            return
        if number > MAX_CASES:
            raise UsageError(f"{label}: {CASES}() yields more than {MAX_CASES} cases")
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], str) or not callable(item[1]):
            raise UsageError(
                f"{label}: {CASES}() must yield a name and a function that returns the module and its inputs, "
                f"number {number} is {type(item).__name__}"
            )
        yield item
