"""Parts of upper floors that lower floors use, attached when the package is imported and loaded on first use.

`Program` gets the methods that run, retype, save and print it, `ops` gets the operators that people write in Cells, and
the context gets graph mode.
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
        *args: the positional arguments of the captured module; tensors may be torch tensors or arrays.
        **kwargs: its keyword arguments.

    Returns:
        The module's result with NumPy arrays in place of tensors.

    Raises:
        UsageError: the structure, dtypes or shapes of the arguments differ from the captured ones.
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
        UsageError: the structure, dtypes or shapes of the arguments or cotangents differ from the captured ones.
    """
    from .programs import call

    return call.value_and_grad(self, args, kwargs, cotangents)


def astype(self: Program, dtype: DTypeLike) -> Program:
    """Return the same program with every floating-point value in `dtype`, including parameters and casts."""
    from .ir.passes.retype import retype

    return retype(self, dtype)


def save(self: Program, path: str | PathLike[str]) -> None:
    """Write the program atomically to `path`, a zip file of JSON and safetensors that `runtime.load` reads."""
    from .storage import programs

    programs.save(self, path)


def text(self: Program) -> str:
    """Return the program as readable text, one line per node."""
    from .ir import printer

    return printer.text(self)


def methods_of_program() -> dict[str, Callable[..., Any]]:
    """Return the functions above, by the names that they get as methods of `Program`."""
    return {"__call__": call, "value_and_grad": value_and_grad, "astype": astype, "save": save, "__str__": text}


def operators() -> Mapping[str, Any]:
    """Return the functions and operator classes that `ops` offers to Cells, by name."""
    from .eager import derivatives as derivatives  # declares operators when it is imported
    from .functional import names

    return names()


def graph_mode() -> GraphMode:
    """Return the module that compiles Cells in graph mode."""
    from .graph import compiling

    return compiling


provide("methods of Program", methods_of_program)
provide("operators of Cells", operators)
provide("graph mode", graph_mode)
