"""Calling a Cell: the dtype of computation, and forward runs that are kept for a gradient asked for later."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..common.nested import leaves
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..current_trace import current
from ..eager import tape
from ..eager.backward import Forward, record
from ..precision import compute_in
from .cell_hooks import Hookable, run_with_hooks

Args = tuple[Any, ...]


@dataclass(frozen=True)
class KeptForward:
    """A recorded forward run of a Cell, and what it depended on."""

    forward: Forward
    state: list[Any]

    def holds(self, cell: Hookable, args: Args, kwargs: dict[str, Any], weights: Iterable[Parameter]) -> bool:
        """Whether the run was with these very objects, which haven't changed since, nor has the Cell.

        And whether it tracked the `weights`: Parameters that aren't registered in the Cell are not.
        """
        now = _state(cell, args, kwargs)
        return (
            len(now) == len(self.state)
            and all(a is b for a, b in zip(now, self.state, strict=True))
            and all(self.forward.number_of(w) is not None for w in weights if w.requires_grad)
        )


def _state(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> list[Any]:
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


def recorded(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> KeptForward:
    """Run a Cell so that a gradient can be computed afterwards, with respect to any input or Parameter."""
    forward = record(
        lambda *a, **k: run(cell, a, k), args, kwargs, tape.Tape(), range(len(args)), list(cell.get_parameters())
    )
    return KeptForward(forward, _state(cell, args, kwargs))


def run(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> Any:
    """Run hooks and `construct` of a Cell; an exception is passed on with a note that says in which Cell it was."""
    trace = current()
    try:
        return _computed(cell, args, kwargs) if trace is None else trace.call(cell, args, kwargs, _computed)
    except Exception as error:
        _note_place(error, cell)
        raise


def _computed(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> Any:
    runs = cell.construct if cell.bprop is None and not cell.has_hooks else functools.partial(run_with_hooks, cell)
    if cell._compute_dtype is None:
        return runs(*args, **kwargs)
    with compute_in(cell._compute_dtype):
        return runs(*args, **kwargs)


def _note_place(error: Exception, cell: Hookable) -> None:
    """Note the Cell in which an exception was raised: its path grows as the exception passes the Cells around it."""
    place: _Place | None = getattr(error, "_cell_place", None)
    if place is None:
        place = error._cell_place = _Place(cell.cls_name, [], cell)  # type: ignore[attr-defined]
    else:
        error.__notes__.remove(place.note)
        names = (name for name, inner in cell._cells.items() if inner is place.outermost)
        place.path.insert(0, next(names, place.outermost.cls_name))
        place.outermost = cell
    error.add_note(place.note)


@dataclass
class _Place:
    """A Cell, by its path from the outermost one that is known so far."""

    class_name: str
    path: list[str]
    outermost: Hookable

    @property
    def note(self) -> str:
        inside = f" at {'.'.join(self.path)!r} in {self.outermost.cls_name}" if self.path else ""
        return f"in the Cell {self.class_name}{inside}"
