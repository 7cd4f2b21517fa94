"""Calling a Cell: the dtype of computation, and forward runs that are kept for a gradient asked for later."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import tape
from ..common.nested import leaves
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..differentiation import Forward, record
from ..precision import computing_in
from .cell_hooks import run_with_hooks

if TYPE_CHECKING:
    from .cell import Cell

Args = tuple[Any, ...]


@dataclass(frozen=True)
class KeptForward:
    """A recorded forward run of a Cell, and what it depended on."""

    forward: Forward
    state: list[Any]

    def holds(self, cell: Cell, args: Args, kwargs: dict[str, Any], weights: Iterable[Parameter]) -> bool:
        """Whether the run was with these very objects, which haven't changed since, nor has the Cell.

        And whether it tracked the `weights`: Parameters that aren't registered in the Cell are not.
        """
        now = _state(cell, args, kwargs)
        return (
            len(now) == len(self.state)
            and all(a is b for a, b in zip(now, self.state, strict=True))
            and all(self.forward.number_of(w) is not None for w in weights if w.requires_grad)
        )


def _state(cell: Cell, args: Args, kwargs: dict[str, Any]) -> list[Any]:
    """What a run depends on, compared by identity: arguments, attributes of all Cells, and what tensors hold."""
    cells = [sub.__dict__ | {"_forward_run": None} for _, sub in cell.cells_and_names()]
    state: list[Any] = [*kwargs]
    for leaf in leaves((args, kwargs, cells)):
        state.append(leaf)
        if isinstance(leaf, Tensor):
            state.append(leaf._data)
        if isinstance(leaf, Parameter):
            state.append(leaf.requires_grad)
    return state


def recorded(cell: Cell, args: Args, kwargs: dict[str, Any]) -> KeptForward:
    """Run a Cell so that a gradient can be computed afterwards, with respect to any input or Parameter."""
    forward = record(
        lambda *a, **k: run(cell, a, k), args, kwargs, tape.Tape(), range(len(args)), list(cell.get_parameters())
    )
    return KeptForward(forward, _state(cell, args, kwargs))


def run(cell: Cell, args: Args, kwargs: dict[str, Any]) -> Any:
    """Run hooks and `construct` of a Cell."""
    runs = cell.construct if cell.bprop is None and not cell.has_hooks else functools.partial(run_with_hooks, cell)
    if cell._compute_dtype is None:
        return runs(*args, **kwargs)
    with computing_in(cell._compute_dtype):
        return runs(*args, **kwargs)
