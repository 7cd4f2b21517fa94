"""`Guard` refuses actions of traced Python that a program can't repeat when it runs."""

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

from ..common import tape
from ..common.elements import AS_CHOICE
from ..common.tensor import Tensor
from ..errors import TracingError, UnknownSize, UnsupportedPython
from ..ir.dim_usage import DimUsage
from ..ir.dims import SymbolicDim
from ..tracing import SymbolicTensor
from .control.source import RetraceRequired, can_follow
from .current import Recording
from .objects import INTERNAL_ATTRIBUTES, Objects, is_same
from .sources import PACKAGE, is_internal_code, is_internal_function, running_line
from .statements import unsupported_statement
from .variables import Variables

if TYPE_CHECKING:
    from ..nn.cell import Cell

_CATCH_OUTSIDE = "check beforehand for what may fail, or catch it outside of the traced code"
_WITHOUT = {
    "statement 'Try'": _CATCH_OUTSIDE,
    "statement 'TryStar'": _CATCH_OUTSIDE,
    "expression 'Yield'": "return a tuple or list",
    "expression 'YieldFrom'": "return a tuple or list",
    "expression 'Await'": "wait for it outside of the traced code",
}


ABSTRACT = ABCMeta.__instancecheck__.__code__.co_filename
"""The file of the code that compares sizes for `isinstance` with an abstract class; its caller is an outer frame."""


class Guard:
    """Checks what Python does while it is traced, and refuses what a program can't do.

    Args:
        trace: the trace.
        variables: the variables of the traced function.

    Attributes:
        objects: a snapshot of the objects that existed before the trace.
        backward_hooks: the name of a Cell with backward hooks that was called where no gradient is computed; empty
            for none.
    """

    def __init__(self, trace: Recording, variables: Variables) -> None:
        self._trace = trace
        self.objects = Objects(variables)
        self.backward_hooks = ""
        self._created: set[int] = set()
        self._refused: TracingError | None = None

    def refusal(self, kind: type[TracingError], what: str, instead: str, place: str | None = None) -> TracingError:
        """Return the error to raise: what Python did, in which Cell, on which line, and what to write instead."""
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

    def on_cell_created(self, cell: Cell) -> None:
        """Allow changes of a Cell that is created while tracing."""
        self._created.add(id(cell))

    def on_call(self, cell: Cell, path: str) -> None:
        """Record the state of a Cell that is called."""
        if id(cell) not in self._created:
            self.objects.add(cell, path)
        self.objects.watch(type(cell).construct)
        name = f"{cell.cls_name}{f' {path!r}' if path else ''}"
        for hook in cell.hooks():
            if not is_internal_function(hook.function):
                self.objects.note_hook(hook.function, name)
        if tape.current() is None and any(not is_internal_function(hook.function) for hook in cell.backward_hooks()):
            self.backward_hooks = self.backward_hooks or name

    @contextlib.contextmanager
    def checking(self, function: Callable[..., Any]) -> Iterator[None]:
        """Within the context, a function runs; refuse unsupported statements and random numbers in it."""
        unsupported = unsupported_statement(function)
        if unsupported is not None:
            statement, place = unsupported
            what = f"Unsupported {statement}: a program has no equivalent"
            raise self.refusal(UnsupportedPython, what, _WITHOUT[statement], place)
        before = _generator_state()
        yield
        if _generator_state() != before:
            raise self._random_number_error("with NumPy or Python's `random`", function)

    def _random_number_error(self, how: str, function: Callable[..., Any]) -> TracingError:
        return self.refusal(
            UnsupportedPython,
            f"random numbers were drawn {how}: they would be the same in each run",
            "draw with ops (`ops.standard_normal`, `ops.uniform`, `ops.dropout`, ...), or pass them as arguments",
            _definition(function),
        )

    def follow_source(self, operation: str, frame: FrameType) -> None:
        """Start the trace again if a condition or built-in function needs elements, and rewriting its caller helps.

        Raises:
            RetraceRequired: the running function can be rewritten so that it doesn't need the elements.
        """
        code = frame.f_code
        if operation in ("a condition", *code.co_names) and can_follow(code):
            what = f"{operation} needs the elements of a tensor, which are known only when the program runs"
            error = self.refusal(RetraceRequired, what, AS_CHOICE)
            assert isinstance(error, RetraceRequired)
            error.code = code
            raise error

    # ---- objects that change ----

    def on_attribute_set(self, cell: Cell, name: str, value: Any) -> None:
        """Refuse to set an attribute of a Cell to another value."""
        if name in INTERNAL_ATTRIBUTES or is_same(cell.__dict__.get(name, self), value):
            return
        if not self.objects.contains(cell) and self._trace.region is None:
            return
        kept = " to a tensor that was computed while tracing" if isinstance(value, Tensor) else ""
        kind = "buffer" if name in cell.__dict__.get("_buffer_names", ()) else "attribute"
        raise self.refusal(
            UnsupportedPython,
            f"{kind} '{name}' of {cell.cls_name} was set{kept}: a program can't change Python objects",
            "keep changing state in a Parameter created in __init__ (a value assigned to it in construct is its value "
            "after the run), and return computed values",
        )

    def on_tensor_write(self, x: Tensor) -> None:
        """Refuse in-place writes to tensors from outside."""
        if id(x) in self.objects.tensors:
            raise self.refusal(
                UnsupportedPython,
                f"the tensor {self.objects.tensors[id(x)]} was written to: a program can change only Parameters",
                "make it a Parameter, with requires_grad=False, or write to a copy (`x.copy()`)",
            )

    def argument_change_error(self, function: Callable[..., Any]) -> TracingError:
        """Return the error for a function that changed a list or dict among its arguments."""
        return self.refusal(
            UnsupportedPython,
            "a list or dict among the arguments was changed: a program can't change Python objects",
            "create a new one, and return it",
            _definition(function),
        )

    def on_write_argument(self, function: Callable[..., Any], names: Sequence[str]) -> None:
        """Refuse in-place writes to a tensor that was passed under several names."""
        if len(names) > 1:
            raise self.refusal(
                UnsupportedPython,
                f"a tensor that was given as {' and as '.join(names)} was written to: in a program these are "
                "separate inputs, of which only one would change",
                "pass a copy (`x.copy()`) for one of them, or write to a copy",
                _definition(getattr(function, "construct", function)),
            )

    def refuse_flag_change(self, parameter: str) -> NoReturn:
        """Refuse to set a flag of a Parameter."""
        raise self.refusal(
            UnsupportedPython,
            f"a flag of Parameter '{parameter}' was set: a program can't change Python objects",
            "set it outside of the traced code",
        )

    def refuse_initial_values(self) -> NoReturn:
        """Refuse to create initial values of a Parameter."""
        raise self.refusal(
            UnsupportedPython,
            "a Parameter or its initial value was created: each run would create another",
            "create Parameters, and Cells with Parameters, in __init__",
        )

    def require_defined(self, error: NameError, undefined_in_branch: Mapping[str, str]) -> None:
        """Raise an explanatory error for an undefined variable that only one branch defines."""
        name = next((name for name in undefined_in_branch if f"'{name}'" in str(error)), None)
        if name is None:
            return
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(PACKAGE)]
        place = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
        raise self.refusal(
            UnsupportedPython,
            f"the local variable '{name}' {undefined_in_branch[name]}",
            "assign it a value before the branch or loop",
            place,
        ) from error

    def region_value_error(self, data: SymbolicTensor) -> Exception:
        """Return the error for a tensor that is used outside of the branch or loop that computes it."""
        return self.refusal(
            UnsupportedPython,
            f"a tensor {data.value.type} is used outside of the branch or loop that computes it, under a condition on "
            "a tensor, and reached that place other than in variables, lists and dicts of the function",
            "assign it to a variable of the function in each branch, or return it",
        )

    def finish(self, function: Callable[..., Any]) -> None:
        """Finish tracing a function: refuse changes that no other check detected."""
        if self._refused is not None:
            raise self._refused  # the user's code caught it
        generator = self.objects.used_generator()
        if generator is not None:
            raise self._random_number_error(f"from {generator}", function)
        changed = list(dict.fromkeys(self.objects.changes()))
        if changed:
            raise self.refusal(
                UnsupportedPython,
                f"traced Python changed {', '.join(changed)}: a program can't change Python objects",
                "collect computed values in a tuple, list or dict that the function creates, and return it",
                _definition(function),
            )

    # ---- sizes ----

    def refuse_number(self, dim: SymbolicDim, what: str) -> NoReturn:
        """Refuse to convert a symbolic size to a number."""
        raise self.refusal(
            UnknownSize,
            f"{what} requires the value of the size {dim}, which is known only when the program runs",
            "compute with sizes by + - * // and %, choose with ops, or give that axis a fixed size",
        )

    def on_comparison(self, dim: SymbolicDim, other: object) -> None:
        """Refuse a comparison of a symbolic size whose result isn't known, or its conversion to text."""
        if isinstance(other, DimUsage):
            what = str(other)
        elif isinstance(other, (int, float, SymbolicDim)):
            what = f"the comparison with {other}"
        else:
            return
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename == ABSTRACT:
            frame = frame.f_back
        if frame is not None and not is_internal_code(frame.f_code):
            self.refuse_number(dim, what)


def _definition(function: Callable[..., Any]) -> str:
    """The file, line and name of a function, or of the `construct` method of a Cell."""
    function = inspect.unwrap(function)
    function = getattr(function, "construct", function)
    name = str(getattr(function, "__qualname__", function))
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{code.co_filename}:{code.co_firstlineno}: {name}"


def _generator_state() -> tuple[Any, ...]:
    """The state of the random number generators of NumPy and Python."""
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes(), position, random.getstate()
