"""Files that define many models, or checks: `cases()` yields the name of each, and a function that makes it.

    def cases():
        for width in (8, 16):
            yield f"mlp-{width}", lambda width=width: (make_mlp(width), (torch.randn(4, width),))

The function returns the module and its inputs; only that of the case which is judged is called. `file.py[mlp-8]` is one
case. The functions that `checks()` yields compare something themselves, and raise `AssertionError` if it differs;
`file.py::name` is one check.
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

CASES, CHECKS = "cases", "checks"
RETURNS = {CASES: "a function that returns the module and its inputs", CHECKS: "a function that raises if it fails"}
MAX_CASES = 100_000


def case_names(source: ModuleType, label: str, kind: str = CASES) -> list[str]:
    """Return the names of a file's cases, or of its checks.

    Raises:
        UsageError: it defines none, raises, or yields something else, or a name twice.
    """
    names = [name for name, _ in _items(source, label, kind)]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{label}: {kind}() yields the name {visible_name(twice[0])!r} more than once")
    return names


def run_check(source: ModuleType, label: str, name: str) -> AssertionError | None:
    """Run a check of a file, and return how it fails; None if it holds.

    Raises:
        UsageError: there is no such check, or it raises something else.
    """
    function = _find(source, label, name, CHECKS)
    with report_user_errors(label, f"when the check {visible_name(name)} was run"):
        try:
            function()
        except AssertionError as error:
            return error
    return None


def source_of_case(source: ModuleType, label: str, name: str) -> ModuleType:
    """Return a module that defines `model` and `inputs` as one case does, and everything else as its file.

    Raises:
        UsageError: there is no such case, or its function raises, or returns something else.
    """
    make = _find(source, label, name, CASES)
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


def _find(source: ModuleType, label: str, name: str, kind: str) -> Callable[[], Any]:
    names: list[str] = []
    for other, function in _items(source, label, kind):
        if other == name:
            return function
        names.append(other)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {visible_name(close[0])}?" if close else ""
    raise UsageError(f"{label} has no {kind.removesuffix('s')} {visible_name(name)}{hint}")


def _items(source: ModuleType, label: str, kind: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    function = vars(source).get(kind)
    if not callable(function):
        raise UsageError(f"{label} defines no function {kind}(), which yields names and functions")
    with report_user_errors(label, f"when {kind}() was called"):
        items = iter(function())
    for number in itertools.count(1):
        with report_user_errors(label, f"when {kind}() was to yield number {number}"):
            item = next(items, None)
        if item is None:
            return
        if number > MAX_CASES:
            raise UsageError(f"{label}: {kind}() yields more than {MAX_CASES} {kind}")
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], str) or not callable(item[1]):
            raise UsageError(
                f"{label}: {kind}() must yield a name and {RETURNS[kind]}, number {number} is {type(item).__name__}"
            )
        yield item
