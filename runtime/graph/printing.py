"""Printing and raising at each run of a program: `ops.Print`, `print` of tensors, `assert` and `raise` in traced code.

A program can't print itself. The printed values are additional outputs, which are printed after each run, in the order
in which Python printed.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common.parameter import Parameter
from ..common.tensor import Tensor, create, from_array
from ..current_trace import current
from ..functional.tracking import format_item
from ..ops import creation
from ..tracing import SymbolicTensor
from ..tree import map_leaves
from .current import current_recording


class Text:
    """An f-string as its pieces: strings, and values as `(value, conversion, format)`."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    def __str__(self) -> str:
        return "".join(piece if isinstance(piece, str) else _format(*piece) for piece in self.pieces)


def _format(value: Any, conversion: int, spec: Any) -> str:
    conversions: dict[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
    return format(conversions[conversion](value) if conversion in conversions else value, str(spec))


@dataclass(frozen=True)
class _Slot:
    """The place of a symbolic tensor in the printed items."""

    number: int


@dataclass(frozen=True)
class PrintCall:
    """One call of `print`, or one exception.

    Attributes:
        items: the items to print, with slots in place of symbolic tensors.
        options: the keyword arguments of `print`; None: print each item on its own line, as `ops.Print` does.
        values: the symbolic tensors.
        reached: a bool tensor: whether a run reaches the call; None: every run does.
        exception: None for a call of `print`. Otherwise the first item is the condition for raising the exception, and
            the other items are its `args`.
    """

    items: tuple[Any, ...]
    options: Mapping[str, Any] | None
    values: tuple[Tensor, ...]
    reached: Tensor | None = None
    exception: BaseException | None = None


@dataclass(frozen=True)
class LoopPrints:
    """The calls in the body of a loop; values and `reached` are stacked along the first axis, one row per iteration."""

    entries: tuple[PrintCall, ...]


Entry = PrintCall | LoopPrints


_LOCK = threading.Lock()
_print = builtins.print
_traces = 0


@contextlib.contextmanager
def deferred_printing() -> Iterator[None]:
    """Within the context, `print` in traced code is recorded, and prints at each run of the program."""
    global _print, _traces
    with _LOCK:
        if not _traces:
            _print, builtins.print = builtins.print, _print_or_record
        _traces += 1
    try:
        yield
    finally:
        with _LOCK:
            _traces -= 1
            if not _traces:
                builtins.print = _print


def _print_or_record(*items: Any, **options: Any) -> None:
    """The replacement of `print` while any thread traces."""
    if current() is None:
        _print(*items, **options)
    else:
        print_when_run(items, options or None)


def print_with(function: Any, *items: Any, **options: Any) -> None:
    """`print(...)` in rewritten code: prints at each run of the program."""
    if current() is None or function is not builtins.print:
        function(*(str(item) if isinstance(item, Text) else item for item in items), **options)
    else:
        print_when_run(items, options or None)


def print_when_run(items: Sequence[Any], options: Mapping[str, Any] | None) -> None:
    """Record a call that prints at each run of the program."""
    _record(items, options)


def raise_when_run(condition: Tensor, exception: BaseException) -> None:
    """Record an exception that is raised after each run of the program in which a condition holds."""
    _record((condition, *exception.args), None, exception)


def with_arguments(exception: Any, args: Sequence[Any] | None = None) -> Any:
    """Return a copy of an exception with other arguments, or with its own ones converted to strings."""
    if isinstance(exception, type):
        return exception
    args = exception.args if args is None else args
    raised = copy.copy(exception)
    raised.args = tuple(str(item) if isinstance(item, Text) else item for item in args)
    return raised


def _record(items: Sequence[Any], options: Mapping[str, Any] | None, exception: BaseException | None = None) -> None:
    values: list[Tensor] = []

    def slot(leaf: Any) -> Any:
        if isinstance(leaf, Text):
            return Text(*(piece if isinstance(piece, str) else map_leaves(slot, piece) for piece in leaf.pieces))
        if not isinstance(leaf, Tensor) or not isinstance(leaf._data, SymbolicTensor):
            return leaf
        values.append(from_array((leaf.copy() if isinstance(leaf, Parameter) else leaf)._data))
        return _Slot(len(values) - 1)

    trace = current_recording()
    slotted = tuple(map_leaves(slot, item) for item in items)
    trace.print_entries.append(PrintCall(slotted, options, tuple(values), exception=exception))


# ---- in branches and loops ----


def values_of(entry: Entry) -> tuple[Tensor, ...]:
    """The tensors of an entry."""
    if isinstance(entry, PrintCall):
        return entry.values
    return tuple(x for inner in entry.entries for x in (*_reached(inner), *inner.values))


def _reached(entry: PrintCall) -> tuple[Tensor, ...]:
    return () if entry.reached is None else (entry.reached,)


def branch_outputs(entry: Entry, first: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs that a `cond` joins for an entry of one branch: whether it is reached, and its values."""
    reached: Any = np.asarray(True)
    if isinstance(entry, PrintCall) and entry.reached is not None:
        reached = entry.reached._data
    values = [(reached, np.asarray(False)), *((x._data, _nothing(x)) for x in values_of(entry))]
    return iter(values if first else [(b, a) for a, b in values])


def _nothing(x: Tensor) -> Any:
    """A placeholder for a value that isn't computed."""
    sizes = tuple(size if isinstance(size, int) else 0 for size in x.shape)
    return create(creation.full, shape=sizes, value=0, dtype=x.dtype)._data


def loop_outputs(entry: PrintCall) -> Iterator[Any]:
    """Yield the outputs that a loop stacks for an entry of its body: whether it is reached, and its values."""
    yield np.asarray(True) if entry.reached is None else entry.reached._data
    yield from (x._data for x in entry.values)


def with_values(entry: Entry, values: Sequence[Tensor], reached: Tensor) -> Entry:
    """Return the entry with other tensors; a loop that isn't reached has no rows."""
    if isinstance(entry, PrintCall):
        return replace(entry, values=tuple(values), reached=reached)
    remaining = iter(values)
    inner = []
    for printed in entry.entries:
        of_reached = next(remaining) if printed.reached is not None else None
        inner.append(replace(printed, values=tuple(next(remaining) for _ in printed.values), reached=of_reached))
    return LoopPrints(tuple(inner))


# ---- when the program has run ----


def outputs_of(entries: Iterable[Entry]) -> tuple[Tensor, ...]:
    """The additional outputs of a program that prints."""
    return tuple(x for e in entries for x in (*(_reached(e) if isinstance(e, PrintCall) else ()), *values_of(e)))


def write(entries: Iterable[Entry], outputs: Iterable[Tensor]) -> None:
    """Print the entries with the values that a run computed for `outputs_of`."""
    remaining = iter(outputs)
    for entry in entries:
        if isinstance(entry, PrintCall):
            _write(entry, *_next_values(entry, remaining))
            continue
        columns = [(printed, *_next_values(printed, remaining)) for printed in entry.entries]
        for row in range(len(columns[0][1])):  # every entry of a loop has `reached`
            for printed, reached, values in columns:
                _write(printed, reached[row], [from_array(value.asnumpy()[row]) for value in values])


def prints(entry: Entry) -> bool:
    """Whether an entry prints, rather than only raising exceptions."""
    return any(p.exception is None for p in (entry.entries if isinstance(entry, LoopPrints) else (entry,)))


def write_symbolic(entries: Iterable[Entry]) -> None:
    """Print the entries while tracing, with symbolic tensors as they are."""
    for entry in entries:
        for printed in entry.entries if isinstance(entry, LoopPrints) else (entry,):
            if printed.exception is not None:
                continue
            _print(*(_fill(item, [from_array(x._data) for x in printed.values]) for item in printed.items))


def _next_values(entry: PrintCall, outputs: Iterator[Tensor]) -> tuple[Any, list[Any]]:
    reached = True if entry.reached is None else next(outputs).asnumpy()
    return reached, [next(outputs) for _ in entry.values]


def _write(entry: PrintCall, reached: Any, values: Sequence[Any]) -> None:
    if not reached:
        return
    items = [_fill(item, values) for item in entry.items]
    if entry.exception is not None:
        fails, *args = items
        if fails:
            raise with_arguments(entry.exception, args)
        return
    if entry.options is not None:
        _print(*items, **entry.options)
        return
    for item in items:
        sys.stdout.write(f"{format_item(item)}\n")


def _fill(item: Any, values: Sequence[Any]) -> Any:
    def fill(leaf: Any) -> Any:
        if isinstance(leaf, Text):
            return str(Text(*(piece if isinstance(piece, str) else map_leaves(fill, piece) for piece in leaf.pieces)))
        return values[leaf.number] if isinstance(leaf, _Slot) else leaf

    return map_leaves(fill, item)
