"""`Guard`: refuses what traced Python does that a program can't do when it runs."""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
import traceback
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..common.elements import AS_CHOICE
from ..common.tensor import Tensor
from ..eager import tape
from ..errors import TracingError, UnknownSize, UnsupportedPython
from ..ir.dims import DimUsage, SymbolicDim
from ..tracing import SymbolicTensor
from .control.source import Unfollowed, can_follow
from .current import Recording
from .objects import OURS, Objects, is_same
from .sources import PACKAGE, is_ours, made_by_us, running_line
from .statements import unsupported_statement
from .variables import Variables

if TYPE_CHECKING:
    from ..nn.cell import Cell

_CATCH_OUTSIDE = "check beforehand for what may fail, or catch it outside of what is traced"
_WITHOUT = {
    "statement 'Try'": _CATCH_OUTSIDE,
    "statement 'TryStar'": _CATCH_OUTSIDE,
    "expression 'Yield'": "return a tuple or list",
    "expression 'YieldFrom'": "return a tuple or list",
    "expression 'Await'": "wait for it outside of what is traced",
}


ABSTRACT = ABCMeta.__instancecheck__.__code__.co_filename
"""Where `isinstance` of an abstract class asks; it is called from elsewhere."""


class Guard:
    """What is asked while Python is traced, whether a program can do it.

    Args:
        trace: the trace.
        variables: the variables of the traced function.

    Attributes:
        objects: what was there before, as it was.
        backward_hooks: a Cell that has some and was called where no gradient is computed; empty for none.
    """

    def __init__(self, trace: Recording, variables: Variables) -> None:
        self._trace = trace
        self.objects = Objects(variables)
        self.backward_hooks = ""
        self._made: set[int] = set()
        self._refused: TracingError | None = None

    def refusal(self, kind: type[TracingError], what: str, instead: str, place: str | None = None) -> TracingError:
        """The error to raise: what Python did, in which Cell, on which line, and what to write instead."""
        calls = self._trace.calls
        lines = [what]
        if calls:
            call = calls[self._trace.builder.cell]
            lines.append(f"in {call.class_name} {call}")
        source = running_line("")
        if place or source:
            lines.append(f"at {place or source}")
        lines.append(f"what to do: {instead}")
        error = kind("\n  ".join(lines))
        self._refused = self._refused or error
        return error

    # ---- Cells and functions that are called ----

    def made(self, cell: Cell) -> None:
        """A Cell is made while tracing: it may change."""
        self._made.add(id(cell))

    def meets(self, cell: Cell, path: str) -> None:
        """A Cell is called."""
        if id(cell) not in self._made:
            self.objects.add(cell, path)
        self.objects.watch(type(cell).construct)
        name = f"{cell.cls_name}{f' {path!r}' if path else ''}"
        for hook in cell.hooks():
            if not made_by_us(hook.function):
                self.objects.note_hook(hook.function, name)
        if tape.current() is None and any(not made_by_us(hook.function) for hook in cell.backward_hooks()):
            self.backward_hooks = self.backward_hooks or name

    @contextlib.contextmanager
    def around(self, function: Callable[..., Any]) -> Iterator[None]:
        """Within the context, a function runs."""
        found = unsupported_statement(function)
        if found is not None:
            statement, place = found
            what = f"Unsupported {statement}: a program has no such thing"
            raise self.refusal(UnsupportedPython, what, _WITHOUT[statement], place)
        before = _sampled()
        yield
        if _sampled() != before:
            raise self._draws("with NumPy or Python's `random`", function)

    def _draws(self, how: str, function: Callable[..., Any]) -> TracingError:
        return self.refusal(
            UnsupportedPython,
            f"random numbers were drawn {how}: they would be the same in each run",
            "draw with ops (`ops.standard_normal`, `ops.uniform`, `ops.dropout`, ...), or give them as arguments",
            _definition(function),
        )

    def follow_source(self, wanted: str, frame: FrameType) -> None:
        """Python needs the elements of a tensor for a condition, or a built-in function: begin anew if that helps.

        Raises:
            Unfollowed: the function that runs can be rewritten, so that it needs them no more.
        """
        code = frame.f_code
        if wanted in ("a condition", *code.co_names) and can_follow(code):
            what = f"{wanted} needs the elements of a tensor, which are known only when the program runs"
            error = self.refusal(Unfollowed, what, AS_CHOICE)
            assert isinstance(error, Unfollowed)
            error.code = code
            raise error

    # ---- objects that change ----

    def sets(self, cell: Cell, name: str, value: Any) -> None:
        """An attribute of a Cell is set."""
        if name in OURS or is_same(cell.__dict__.get(name, self), value):
            return
        if not self.objects.knows(cell) and self._trace.region is None:
            return
        kept = " to a tensor that was computed while tracing" if isinstance(value, Tensor) else ""
        kind = "buffer" if name in cell.__dict__.get("_buffer_names", ()) else "attribute"
        raise self.refusal(
            UnsupportedPython,
            f"{kind} '{name}' of {cell.cls_name} was set{kept}: a program changes no Python object",
            "hold what changes in a Parameter, made in __init__ (what is assigned to it in construct is its value "
            "after the run), and return what is computed",
        )

    def writes(self, x: Tensor) -> None:
        """A tensor is written to."""
        if id(x) in self.objects.tensors:
            raise self.refusal(
                UnsupportedPython,
                f"the tensor {self.objects.tensors[id(x)]} was written to: a program changes Parameters only",
                "make it a Parameter, with requires_grad=False, or write to a copy (`x.copy()`)",
            )

    def changed_argument(self, function: Callable[..., Any]) -> TracingError:
        """The error to raise where a function changed a list or dict among its arguments."""
        return self.refusal(
            UnsupportedPython,
            "a list or dict among the arguments was changed: a program changes no Python object",
            "make a new one, and return it",
            _definition(function),
        )

    def writes_argument(self, function: Callable[..., Any], names: Sequence[str]) -> None:
        """An argument that was given by these names was written to: there may be one only."""
        if len(names) > 1:
            raise self.refusal(
                UnsupportedPython,
                f"a tensor that was given as {' and as '.join(names)} was written to: in a program these are apart, "
                "and only one of them would change",
                "give a copy (`x.copy()`) as the one or the other, or write to a copy",
                _definition(getattr(function, "construct", function)),
            )

    def sets_flag(self, parameter: str) -> NoReturn:
        """A flag of a Parameter is set."""
        raise self.refusal(
            UnsupportedPython,
            f"a flag of Parameter '{parameter}' was set: a program changes no Python object",
            "set it outside of what is traced",
        )

    def draws_initial_values(self) -> NoReturn:
        """Initial values of a Parameter are made."""
        raise self.refusal(
            UnsupportedPython,
            "a Parameter, or its initial value, was made: each run would make another",
            "make Parameters, and Cells that hold some, in __init__",
        )

    def require_defined(self, error: NameError, one_sided: Mapping[str, str]) -> None:
        """Raise, for a variable without a value that has one in one branch only, an error that says so."""
        name = next((name for name in one_sided if f"'{name}'" in str(error)), None)
        if name is None:
            return
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(PACKAGE)]
        place = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
        raise self.refusal(
            UnsupportedPython,
            f"the local variable '{name}' {one_sided[name]}",
            "give it a value before",
            place,
        ) from error

    def uses_enclosed(self, data: SymbolicTensor) -> Exception:
        """The error to raise where a tensor of a branch or loop is used outside of it."""
        return self.refusal(
            UnsupportedPython,
            f"a tensor {data.value.type} is used outside of the branch or loop that computes it, under a condition on "
            "a tensor, and was handed on by other ways than variables, lists and dicts of the function",
            "assign it to a variable of the function, which each branch does, or return it",
        )

    def finish(self, function: Callable[..., Any]) -> None:
        """Tracing a function is done: refuse what was changed unseen, by whatever line of it."""
        if self._refused is not None:
            raise self._refused  # something of the user's caught it
        generator = self.objects.sampled()
        if generator is not None:
            raise self._draws(f"from {generator}", function)
        changed = list(dict.fromkeys(self.objects.changes()))
        if changed:
            raise self.refusal(
                UnsupportedPython,
                f"traced Python changed {', '.join(changed)}: a program changes no Python object",
                "collect what is computed in a tuple, list or dict of the function's own, and return it",
                _definition(function),
            )

    # ---- sizes ----

    def needs_number(self, dim: SymbolicDim, what: str) -> NoReturn:
        """Python needs a symbolic size to be a number."""
        raise self.refusal(
            UnknownSize,
            f"{what} was made of the size {dim}, which is known only when the program runs",
            "compute with sizes by + - * // and %, choose with ops, or give that axis a fixed size",
        )

    def compares(self, dim: SymbolicDim, other: object) -> None:
        """A symbolic size is compared with what it doesn't equal for sure, or written out as a symbol."""
        if isinstance(other, DimUsage):
            what = str(other)
        elif isinstance(other, (int, float, SymbolicDim)):
            what = f"the comparison with {other}"
        else:
            return
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename == ABSTRACT:
            frame = frame.f_back
        if frame is not None and not is_ours(frame.f_code):
            self.needs_number(dim, what)


def _definition(function: Callable[..., Any]) -> str:
    """Where a function is defined, of a Cell its `construct`: its file and line, and its name."""
    function = inspect.unwrap(function)
    function = getattr(function, "construct", function)
    name = str(getattr(function, "__qualname__", function))
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{code.co_filename}:{code.co_firstlineno}: {name}"


def _sampled() -> tuple[Any, ...]:
    """The state of NumPy's and Python's generators."""
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes(), position, random.getstate()
