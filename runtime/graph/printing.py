"""What a program prints at each run: `ops.Print`, and `print` of tensors, in traced code; and what it raises.

A program computes and prints nothing itself. What is printed are further outputs, which are written once it has run, in
the order in which Python printed.
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

from ..common.nested import mapped
from ..common.parameter import Parameter
from ..common.tensor import Tensor, created, wrapped
from ..current_trace import current
from ..functional.tracking import line
from ..ops import creation
from ..tracing import SymbolicTensor
from .current import current_recording


class Text:
    """An f-string with its values apart: `(value, conversion, format)` or text."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    def __str__(self) -> str:
        return "".join(piece if isinstance(piece, str) else _formatted(*piece) for piece in self.pieces)


def _formatted(value: Any, conversion: int, spec: Any) -> str:
    conversions: dict[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
    return format(conversions[conversion](value) if conversion in conversions else value, str(spec))


@dataclass(frozen=True)
class _Slot:
    """The place of a value in what is printed."""

    number: int


@dataclass(frozen=True)
class Printed:
    """One call that prints.

    Attributes:
        items: what it prints, with slots in place of symbolic tensors.
        options: those of `print`; None: each item on a line of its own, as `ops.Print` does.
        values: the symbolic tensors.
        reached: a bool tensor: whether it prints at all; None: it does.
        exception: None for what prints. Else the first item is whether it is raised, with the further ones as `args`.
    """

    items: tuple[Any, ...]
    options: Mapping[str, Any] | None
    values: tuple[Tensor, ...]
    reached: Tensor | None = None
    exception: BaseException | None = None


@dataclass(frozen=True)
class Repeated:
    """What an iteration of a loop prints; values and `reached` are stacked along a first axis."""

    entries: tuple[Printed, ...]


Entry = Printed | Repeated


_LOCK = threading.Lock()
_print = builtins.print
_traces = 0


@contextlib.contextmanager
def at_each_run() -> Iterator[None]:
    """Within the context, `print` in traced code is noted, to be done when the program runs."""
    global _print, _traces
    with _LOCK:
        if not _traces:
            _print, builtins.print = builtins.print, _noted
        _traces += 1
    try:
        yield
    finally:
        with _LOCK:
            _traces -= 1
            if not _traces:
                builtins.print = _print


def _noted(*items: Any, **options: Any) -> None:
    """`print` while a trace runs, of this thread or another."""
    if current() is None:
        _print(*items, **options)
    else:
        print_when_run(items, options or None)


def print_with(function: Any, *items: Any, **options: Any) -> None:
    """`print(...)` in traced code: at each run."""
    if current() is None or function is not builtins.print:
        function(*(str(item) if isinstance(item, Text) else item for item in items), **options)
    else:
        print_when_run(items, options or None)


def print_when_run(items: Sequence[Any], options: Mapping[str, Any] | None) -> None:
    """Print, whenever the program runs that is being traced."""
    _note(items, options)


def raise_when_run(condition: Tensor, exception: BaseException) -> None:
    """Raise an exception, whenever the program has run that is being traced, if a condition holds."""
    _note((condition, *exception.args), None, exception)


def filled_exception(exception: Any, args: Sequence[Any] | None = None) -> Any:
    """An exception with other arguments; if not given, with its own as text."""
    if isinstance(exception, type):
        return exception
    args = exception.args if args is None else args
    raised = copy.copy(exception)
    raised.args = tuple(str(item) if isinstance(item, Text) else item for item in args)
    return raised


def _note(items: Sequence[Any], options: Mapping[str, Any] | None, exception: BaseException | None = None) -> None:
    values: list[Tensor] = []

    def slot(leaf: Any) -> Any:
        if isinstance(leaf, Text):
            return Text(*(piece if isinstance(piece, str) else mapped(piece, slot) for piece in leaf.pieces))
        if not isinstance(leaf, Tensor) or not isinstance(leaf._data, SymbolicTensor):
            return leaf
        values.append(wrapped((leaf.copy() if isinstance(leaf, Parameter) else leaf)._data))
        return _Slot(len(values) - 1)

    trace = current_recording()
    taken = tuple(mapped(item, slot) for item in items)
    trace.printed.append(Printed(taken, options, tuple(values), exception=exception))


# ---- in branches and loops ----


def values_of(entry: Entry) -> tuple[Tensor, ...]:
    """The tensors of an entry."""
    if isinstance(entry, Printed):
        return entry.values
    return tuple(x for inner in entry.entries for x in (*_reached(inner), *inner.values))


def _reached(entry: Printed) -> tuple[Tensor, ...]:
    return () if entry.reached is None else (entry.reached,)


def conditional(entry: Entry, first: bool) -> Iterator[tuple[Any, Any]]:
    """What a `cond` gives for an entry of its first or second branch: whether it is reached, and its values."""
    reached: Any = np.asarray(True)
    if isinstance(entry, Printed) and entry.reached is not None:
        reached = entry.reached._data
    values = [(reached, np.asarray(False)), *((x._data, _nothing(x)) for x in values_of(entry))]
    return iter(values if first else [(b, a) for a, b in values])


def _nothing(x: Tensor) -> Any:
    """What stands for a value that isn't computed."""
    sizes = tuple(size if isinstance(size, int) else 0 for size in x.shape)
    return created(creation.full, shape=sizes, value=0, dtype=x.dtype)._data


def repeated(entry: Printed) -> Iterator[Any]:
    """What a loop stacks for an entry of its body: whether it is reached, and its values."""
    yield np.asarray(True) if entry.reached is None else entry.reached._data
    yield from (x._data for x in entry.values)


def with_values(entry: Entry, values: Sequence[Tensor], reached: Tensor) -> Entry:
    """The entry with other tensors; a loop that isn't reached has no rows."""
    if isinstance(entry, Printed):
        return replace(entry, values=tuple(values), reached=reached)
    remaining = iter(values)
    inner = []
    for printed in entry.entries:
        of_reached = next(remaining) if printed.reached is not None else None
        inner.append(replace(printed, values=tuple(next(remaining) for _ in printed.values), reached=of_reached))
    return Repeated(tuple(inner))


# ---- when the program has run ----


def outputs_of(entries: Iterable[Entry]) -> tuple[Tensor, ...]:
    """The tensors that a program gives so that it can be printed."""
    return tuple(x for e in entries for x in (*(_reached(e) if isinstance(e, Printed) else ()), *values_of(e)))


def write(entries: Iterable[Entry], outputs: Iterable[Tensor]) -> None:
    """Print what a run gave for `outputs_of`."""
    remaining = iter(outputs)
    for entry in entries:
        if isinstance(entry, Printed):
            _write(entry, *_taken(entry, remaining))
            continue
        columns = [(printed, *_taken(printed, remaining)) for printed in entry.entries]
        for row in range(len(columns[0][1])):  # `reached` is there in each
            for printed, reached, values in columns:
                _write(printed, reached[row], [wrapped(value.asnumpy()[row]) for value in values])


def prints(entry: Entry) -> bool:
    """Whether it does more than to raise exceptions."""
    return any(p.exception is None for p in (entry.entries if isinstance(entry, Repeated) else (entry,)))


def write_as_traced(entries: Iterable[Entry]) -> None:
    """Print what traced code does, with tensors as the symbols that they are while it is traced."""
    for entry in entries:
        for printed in entry.entries if isinstance(entry, Repeated) else (entry,):
            if printed.exception is not None:
                continue
            _print(*(_filled(item, [wrapped(x._data) for x in printed.values]) for item in printed.items))


def _taken(entry: Printed, outputs: Iterator[Tensor]) -> tuple[Any, list[Any]]:
    reached = True if entry.reached is None else next(outputs).asnumpy()
    return reached, [next(outputs) for _ in entry.values]


def _write(entry: Printed, reached: Any, values: Sequence[Any]) -> None:
    if not reached:
        return
    items = [_filled(item, values) for item in entry.items]
    if entry.exception is not None:
        fails, *args = items
        if fails:
            raise filled_exception(entry.exception, args)
        return
    if entry.options is not None:
        _print(*items, **entry.options)
        return
    for item in items:
        sys.stdout.write(f"{line(item)}\n")


def _filled(item: Any, values: Sequence[Any]) -> Any:
    def fill(leaf: Any) -> Any:
        if isinstance(leaf, Text):
            return str(Text(*(piece if isinstance(piece, str) else mapped(piece, fill) for piece in leaf.pieces)))
        return values[leaf.number] if isinstance(leaf, _Slot) else leaf

    return mapped(item, fill)
