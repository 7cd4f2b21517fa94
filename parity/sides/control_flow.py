"""torch's control flow, run as plain Python: `torch.cond` as `if`, `while_loop` as `while`, `scan` and `map` as `for`.

torch itself traces branches and bodies before it runs them, which fails in the double-precision mode. The
results are the same. The modules called inside aren't watched, just as in the converted program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def in_python(func: Any) -> Callable[..., Any] | None:
    """The plain Python of a higher-order operator; None for other functions."""
    return _IN_PYTHON.get(str(func)) if isinstance(func, torch._ops.HigherOrderOperator) else None


def _cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


def _while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Any, additional: Any) -> Any:
    state = tuple(carried)
    while cond_fn(*state, *additional):
        state = tuple(body_fn(*state, *additional))
    return state


def _scan(combine_fn: Callable[..., Any], init: Any, xs: Any, additional: Any = ()) -> Any:
    state, rows = list(init), []
    for slices in zip(*xs, strict=True):
        results = list(combine_fn(*state, *slices, *additional))
        state = results[: len(init)]
        rows.append(results[len(init) :])
    return [*state, *(torch.stack(column) for column in zip(*rows, strict=True))]


def _map(f: Callable[..., Any], xs: Any, additional: Any = ()) -> Any:
    rows = [f(*slices, *additional) for slices in zip(*xs, strict=True)]
    return pytree.tree_map(lambda *column: torch.stack(column), *rows)


_IN_PYTHON: dict[str, Callable[..., Any]] = {
    "cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map,
}  # fmt: skip
