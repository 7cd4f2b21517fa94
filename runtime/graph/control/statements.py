"""The functions that rewritten code calls instead of Python's statements.

On Python values they behave as Python does; on symbolic tensors they record the statement in the program.
"""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...current_trace import current
from ...errors import UnsupportedPython
from ...ops import comparison
from ..current import current_recording
from ..printing import Text, print_with, raise_when_run, with_arguments
from .conditions import is_symbolic, record_branches, truth
from .loops import TensorRange, concrete_loop, counted_loop, loop_until, try_iteration
from .rewriting import NEXT

Thunk = Callable[[], Any]

__all__ = [
    "and_", "assertion_error", "both", "branch", "compare_chain", "either", "fold", "for_loop", "negation", "or_",
    "print_with", "raise_if", "range_of", "refuse_conditional_raise", "text", "truth_of", "while_loop",
]  # fmt: skip

text = Text
assertion_error = AssertionError

_FOLDS = (builtins.all, builtins.any, builtins.max, builtins.min)

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def branch(condition: Any, then: Thunk, orelse: Thunk) -> Any:
    """`if condition: ... else: ...`, and `then if condition else orelse`."""
    outcome = truth(condition)
    if is_symbolic(outcome):
        return record_branches(outcome, then, orelse)
    return then() if outcome else orelse()


def both(first: Any, *others: Thunk) -> Any:
    """`first and ...` as a condition."""
    outcome = truth(first)
    if not others or (not is_symbolic(outcome) and not outcome):
        return outcome
    return branch(outcome, lambda: both(others[0](), *others[1:]), lambda: False)


def either(first: Any, *others: Thunk) -> Any:
    """`first or ...` as a condition."""
    outcome = truth(first)
    if not others or (not is_symbolic(outcome) and outcome):
        return outcome
    return branch(outcome, lambda: True, lambda: either(others[0](), *others[1:]))


def and_(first: Any, *others: Thunk) -> Any:
    """`first and ...`: returns the first false operand, or the last."""
    return branch(first, lambda: and_(others[0](), *others[1:]), lambda: first) if others else first


def or_(first: Any, *others: Thunk) -> Any:
    """`first or ...`: returns the first true operand, or the last."""
    return branch(first, lambda: first, lambda: or_(others[0](), *others[1:])) if others else first


def negation(value: Any) -> Any:
    """`not value`."""
    outcome = truth(value)
    return comparison.logical_not(outcome) if is_symbolic(outcome) else not outcome


def truth_of(function: Any, value: Any) -> Any:
    """`bool(value)`."""
    return truth(value) if function is builtins.bool else function(value)


def fold(function: Any, *args: Any) -> Any:
    """`all(items)`, `any(items)`, `max(...)` and `min(...)`, also of symbolic tensors."""
    if function not in _FOLDS or (len(args) == 1 and not isinstance(args[0], (tuple, list, Iterator))):
        return function(*args)
    items = list(args[0]) if len(args) == 1 else list(args)
    if not any(map(is_symbolic, items)):
        return function(items)
    if function in (builtins.all, builtins.any):
        decide = both if function is builtins.all else either
        return decide(items[0], *(functools.partial(_itself, item) for item in items[1:]))
    best = items[0]
    for item in items[1:]:
        is_better = item > best if function is builtins.max else item < best
        best = branch(is_better, functools.partial(_itself, item), functools.partial(_itself, best))
    return best


def _itself(value: Any) -> Any:
    return value


def compare_chain(left: Any, *steps: Any) -> Any:
    """`left < a < b`; `steps` alternates names of comparisons and functions that compute the next operand."""
    name, operand, *others = steps
    right = operand()
    result = _COMPARISONS[name](left, right)
    return and_(result, lambda: compare_chain(right, *others)) if others else result


def raise_if(condition: Any, exception: Thunk) -> None:
    """`if condition: raise exception`, and `assert`; for a symbolic tensor, after the program has run."""
    outcome = truth(condition)
    if not is_symbolic(outcome):
        if outcome:
            raise with_arguments(exception())
        return
    error = exception()
    raise_when_run(outcome, error() if isinstance(error, type) else error)


def refuse_conditional_raise() -> None:
    """Refuse `raise` under a condition on a tensor; called before each `raise`."""
    trace = current()
    if trace is not None and trace.region is not None:
        raise trace.guard.refusal(
            UnsupportedPython,
            "an exception is raised under a condition on a tensor: a program can't raise exceptions",
            "move the check out of the traced code, or return a tensor that reports the error",
        )


def range_of(function: Any, *bounds: Any) -> Any:
    """`range(...)`; the bounds may be tensors."""
    if function is builtins.range and any(map(is_symbolic, bounds)):
        return TensorRange.of(*bounds)
    return function(*bounds)


def for_loop(items: Iterable[Any], body: Callable[[Any], Any]) -> Any:
    """`for`: returns the last signal of the body."""
    return counted_loop(items, body) if isinstance(items, TensorRange) else concrete_loop(items, body)


def while_loop(test: Thunk, body: Thunk) -> Any:
    """`while`: returns the last signal of the body."""
    trace = current()
    while True:
        condition = truth(test())
        if is_symbolic(condition):
            return loop_until(condition, test, body)
        if not condition:
            return NEXT
        if trace is None:
            signal = body()
        else:
            signal = try_iteration(current_recording(), body)
            if is_symbolic(signal):
                return loop_until(True, test, body)
        if signal != NEXT:
            return signal
