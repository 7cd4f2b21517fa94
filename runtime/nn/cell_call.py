"""Calls of a Cell: the compute dtype, and forward runs that are recorded for a later gradient."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..common import tape
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..current_trace import current
from ..eager.backward import Forward, record
from ..precision import compute_in
from ..tree import leaves
from .cell_hooks import Hookable, run_with_hooks

Args = tuple[Any, ...]


@dataclass(frozen=True)
class RecordedForward:
    """A recorded forward run of a Cell, and the state that it depended on."""

    forward: Forward
    state: list[Any]

    def is_valid_for(self, cell: Hookable, args: Args, kwargs: dict[str, Any], weights: Iterable[Parameter]) -> bool:
        """Whether the run had the same argument objects, nothing has changed since, and it tracked the `weights`.

        A run doesn't track Parameters that aren't registered in the Cell.
        """
        state = _state(cell, args, kwargs)
        return (
            len(state) == len(self.state)
            and all(a is b for a, b in zip(state, self.state, strict=True))
            and all(self.forward.number_of(w) is not None for w in weights if w.requires_grad)
        )


def _state(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> list[Any]:
    """Return the state that a run depends on, for comparison by identity: arguments, Cell attributes, tensor data."""
    cells = [sub.__dict__ | {"_forward_run": None} for _, sub in cell.cells_and_names()]
    state: list[Any] = [*kwargs]
    for leaf in leaves((args, kwargs, cells)):
        state.append(leaf)
        if isinstance(leaf, Tensor):
            state.append(leaf._data)
        if isinstance(leaf, Parameter):
            state.append(leaf.requires_grad)
    return state


def record_forward(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> RecordedForward:
    """Run a Cell, and record the run for gradients with respect to any input or Parameter."""
    forward = record(
        lambda *a, **k: run(cell, a, k), args, kwargs, tape.Tape(), range(len(args)), list(cell.get_parameters())
    )
    return RecordedForward(forward, _state(cell, args, kwargs))


def run(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> Any:
    """Run the hooks and `construct` of a Cell; add a note that names the Cell to any exception."""
    trace = current()
    try:
        return _compute(cell, args, kwargs) if trace is None else trace.call(cell, args, kwargs, _compute)
    except Exception as error:
        _add_note(error, cell)
        raise


def _compute(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> Any:
    compute = cell.construct if cell.bprop is None and not cell.has_hooks else functools.partial(run_with_hooks, cell)
    if cell._compute_dtype is None:
        return compute(*args, **kwargs)
    with compute_in(cell._compute_dtype):
        return compute(*args, **kwargs)


def _add_note(error: Exception, cell: Hookable) -> None:
    """Add the Cell to an exception as a note; each outer Cell that the exception passes extends the path."""
    location: _CellLocation | None = getattr(error, "_cell_location", None)
    if location is None:
        location = error._cell_location = _CellLocation(cell.cls_name, [], cell)  # type: ignore[attr-defined]
    else:
        error.__notes__.remove(location.note)
        names = (name for name, inner in cell._cells.items() if inner is location.outermost)
        location.path.insert(0, next(names, location.outermost.cls_name))
        location.outermost = cell
    error.add_note(location.note)


@dataclass
class _CellLocation:
    """The class of the Cell that raised an exception, and its path from the outermost Cell known so far."""

    class_name: str
    path: list[str]
    outermost: Hookable

    @property
    def note(self) -> str:
        inside = f" at {'.'.join(self.path)!r} in {self.outermost.cls_name}" if self.path else ""
        return f"in the Cell {self.class_name}{inside}"
