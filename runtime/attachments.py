"""What upper floors give to lower ones, attached when the package is imported and loaded when it is first used.

`Program` gets the methods that run, retype, save and print it, `ops` the operators that people write in Cells, and the
context graph mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from .lazy import provide

if TYPE_CHECKING:
    from .context import GraphMode
    from .ir.program import Gradients, Program
    from .ir.types import DTypeLike


def call(self: Program, *args: Any, **kwargs: Any) -> Any:
    """Run forward in the interpreter.

    Args:
        self: the program.
        *args: as the captured module takes them; tensors may be torch tensors or arrays.
        **kwargs: likewise.

    Returns:
        The module's result with NumPy arrays in place of tensors.

    Raises:
        UsageError: the arguments don't have the structure, dtypes or shapes that were captured.
    """
    from .programs import call

    return call.call(self, args, kwargs)


def value_and_grad(
    self: Program, *args: Any, cotangents: Iterable[Any] | None = None, **kwargs: Any
) -> tuple[Any, Gradients]:
    """Run forward and backward in the interpreter.

    Args:
        self: the program.
        *args: as for a call.
        cotangents: one array per floating-point output, in flat order; ones if not given.
        **kwargs: as for a call.

    Returns:
        The result, and `Gradients` with `inputs` (one entry per tensor input in flat order, None where not
        differentiable) and `parameters` (by name; frozen ones are left out).

    Raises:
        UsageError: arguments or cotangents don't have the structure, dtypes or shapes that were captured.
    """
    from .programs import call

    return call.value_and_grad(self, args, kwargs, cotangents)


def astype(self: Program, dtype: DTypeLike) -> Program:
    """The same program with every floating-point value in `dtype`, parameters and casts included."""
    from .ir.passes.retype import retype

    return retype(self, dtype)


def save(self: Program, path: str | PathLike[str]) -> None:
    """Write to `path`, one zip file of JSON and safetensors, whole or not at all; `runtime.load` reads it."""
    from .storage import programs

    programs.save(self, path)


def text(self: Program) -> str:
    """The program as readable text, one line per node."""
    from .ir import printer

    return printer.text(self)


def methods_of_program() -> dict[str, Callable[..., Any]]:
    """The functions above, by the names that they have as methods of `Program`."""
    return {"__call__": call, "value_and_grad": value_and_grad, "astype": astype, "save": save, "__str__": text}


def operators() -> Mapping[str, Any]:
    """The functions and operator objects that `ops` offers to Cells, by name."""
    from .eager import derivatives as derivatives  # declares its own; it needs what that package attaches
    from .functional import names

    return names()


def graph_mode() -> GraphMode:
    """What compiles Cells in graph mode."""
    from .graph import compiling

    return compiling


provide("methods of Program", methods_of_program)
provide("operators of Cells", operators)
provide("graph mode", graph_mode)
