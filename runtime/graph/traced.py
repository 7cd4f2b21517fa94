"""`trace`: a Cell or function written in Python becomes a program."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from .. import tree
from ..checks import is_of_torch
from ..common.nested import mapped
from ..common.parameter import Parameter
from ..common.tensor import Tensor, wrapped
from ..current_trace import current
from ..errors import UnsupportedPython, UsageError
from ..ir.program import Program
from ..ir.types import Type
from ..nn.cell import Cell
from ..ops import boundary
from ..programs.call import as_array
from ..programs.verify import verify
from ..tracing import SymbolicTensor
from .boundaries import parameter_names
from .control.source import Unfollowed, follow, following
from .current import current_recording
from .dependencies import Dependencies
from .objects import contents_of
from .printing import Entry, outputs_of, prints, write_as_traced
from .recording import Trace
from .sizes import Argument, is_input, tensor_arguments

_MAX_TRIES = 2
"""How often one function is found anew: it may be made by another one, which is followed from then on."""


@dataclass(frozen=True)
class TracedProgram:
    """What Python was traced to.

    Attributes:
        program: the program. What the run assigned to Parameters are its buffers, with their updates.
        parameters: the live Parameters behind its parameters and buffers, by name.
        dependencies: what it takes for granted.
        written: which inputs Python wrote to.
        printed: what Python printed. Where there is any of the two, the program gives a triple: what Python returned, a
            tuple of what inputs hold afterwards that were written to, and one of what is printed.
        backward_hooks: a Cell whose backward hooks the gradient of the program wouldn't call; empty for none.
    """

    program: Program
    parameters: dict[str, Parameter]
    dependencies: Dependencies
    written: tuple[int, ...] = ()
    printed: tuple[Entry, ...] = ()
    backward_hooks: str = ""

    def require_gradient(self) -> None:
        """Refuse, with `UnsupportedPython`, where Cells have backward hooks, which a program can't call."""
        if self.backward_hooks:
            raise UnsupportedPython(
                f"the Cell {self.backward_hooks} has backward hooks, but its gradient isn't computed within what is "
                "traced\n  what to do: trace the gradient too (graph mode does; `jit` a function that calls `grad` or "
                "`value_and_grad`), or run it in eager mode: set_context(mode=PYNATIVE_MODE), and no jit"
            )


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> TracedProgram:
    """Run a Cell or function on symbolic tensors, and give the program of what it computed.

    The Cells that it calls are those of the program, and their Parameters are its parameters. Everything in Python is
    left as it was.

    Args:
        function: a Cell, or a function of tensors (and tuples, lists and dicts of them, numbers and strings).
        args: positional arguments: tensors or arrays give their dtypes and shapes; anything else is fixed in the
            program, and so is a Parameter, which is one of the program's.
        kwargs: keyword arguments.
        dynamic_shapes: which sizes may vary: a tuple with, for each positional argument, a dict from axes to names, or
            a dict of such by parameter; sizes of one name are the same. None: all sizes are fixed.

    Returns:
        The program, with the live Parameters by their names in it.

    Raises:
        UsageError: `function` can't be called or is torch's, or `dynamic_shapes` don't fit the arguments.
    """
    if not callable(function):
        raise UsageError(f"needed a Cell or a function, given {type(function).__name__}")
    if is_of_torch(function):
        raise UsageError(
            f"needed a Cell or a function of runtime's Tensors, given torch's {type(function).__name__}: "
            "`converter.from_torch(module, args)` captures a module"
        )
    if not isinstance(args, tuple):
        raise UsageError(f"args must be a tuple of the positional arguments, given {type(args).__name__}")
    if current() is not None:
        raise UsageError("trace was called while Python is traced: call the function itself, it becomes part of it")
    keywords = dict(kwargs or {})
    arguments = tensor_arguments(function, args, keywords, dynamic_shapes)
    return run_trace(function, args, keywords, arguments, gives_all=False)


def run_trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    arguments: list[Argument],
    *,
    gives_all: bool,
) -> TracedProgram:
    """`trace`, with the names and shapes of the tensors among the arguments.

    With `gives_all`, the program gives what arguments hold that Python writes to, and what it prints, too; otherwise a
    warning says that it doesn't. Functions that meet conditions on tensors are followed by their source.
    """
    tried: Counter[CodeType] = Counter()
    while True:
        try:
            with following():
                return _traced_once(function, args, keywords, arguments, gives_all=gives_all)
        except Unfollowed as met:
            tried[met.code] += 1
            if tried[met.code] > _MAX_TRIES or not follow(met.code):
                raise


def _traced_once(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    arguments: list[Argument],
    *,
    gives_all: bool,
) -> TracedProgram:
    names, _ = parameter_names(function, len(args))
    run = Trace(function, {**dict(zip(names, args, strict=True)), **keywords})
    tensors = iter(arguments)
    inputs: list[SymbolicTensor] = []
    taken: list[Tensor] = []
    given_as: list[Any] = []

    def symbolic(leaf: Any) -> Any:
        if not is_input(leaf):
            return float(leaf) if isinstance(leaf, np.float64) else leaf
        argument = next(tensors)
        if isinstance(leaf, Parameter):
            return leaf
        array = leaf if isinstance(leaf, Tensor) else as_array(leaf)
        inputs.append(run.given(argument.identifier, Type(array.dtype, argument.shape)))
        taken.append(wrapped(inputs[-1]))
        given_as.append(leaf)
        return taken[-1]

    given, given_by_name = mapped((args, keywords), symbolic)
    with run.running():
        if isinstance(function, Cell):
            result = function(*given, **given_by_name)
        else:
            name = getattr(function, "__name__", type(function).__name__)
            result = run.within("", name, function, function, given, given_by_name)
        written = tuple(i for i, (x, data) in enumerate(zip(taken, inputs, strict=True)) if x._data is not data)
        for i in written:
            same = [x.value.name for x, leaf in zip(inputs, given_as, strict=True) if leaf is given_as[i]]
            run.guard.writes_argument(function, same)
        if gives_all and (written or run.printed):
            result = result, tuple(taken[i] for i in written), outputs_of(run.printed)
        outputs, structure = tree.flatten(mapped(result, _as_output))
    if written and not gives_all:
        warn_of_writing([inputs[i].value.name for i in written], stacklevel=5)
    if run.printed and not gives_all:
        write_as_traced(run.printed)
        does = "prints" if any(map(prints, run.printed)) else "checks values (assert, raise)"
        warnings.warn(f"Python {does}; the program doesn't (what `jit` and graph mode compile does)", stacklevel=4)
    parameters, buffers, live = run.stored()
    called_with = mapped((args, keywords), _as_constant)
    program = Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x._data.value for x in outputs),
        nodes=tuple(run.builder.nodes),
        parameters=parameters,
        buffers=buffers,
        constants=tuple(run.builder.constants),
        calls=tuple(run.calls),
        arguments=tree.flatten(called_with)[1],
        result=structure,
        train=isinstance(function, Cell) and function.training,
    )
    verify(program)
    dependencies = Dependencies(run.guard.objects, (held.parameter for held in run.held.values()))
    further = (written, tuple(run.printed)) if gives_all else ((), ())
    traced = TracedProgram(program, live, dependencies, *further, run.guard.backward_hooks)
    if not gives_all:
        traced.require_gradient()
    return traced


def warn_of_writing(names: Sequence[str], *, stacklevel: int) -> None:
    """Say that a program doesn't write to arguments that Python writes to."""
    of = ", ".join(map(repr, names))
    warnings.warn(f"Python writes to the argument {of}; the program leaves it as it is", stacklevel=stacklevel)


def _as_constant(leaf: Any) -> Any:
    """What stands for an argument that is no input: the name of a Parameter, the number that an `np.float64` is."""
    if isinstance(leaf, Parameter):
        return leaf.name
    return float(leaf) if isinstance(leaf, np.float64) else leaf


def _as_output(leaf: Any) -> Any:
    """What a program can give: a tensor that crossed the boundary, as a value of the program."""
    trace = current_recording()
    if not tree.is_tensor(leaf):
        holds = any(isinstance(x, Tensor) and isinstance(x._data, SymbolicTensor) for x in contents_of(leaf))
        if holds or isinstance(leaf, (Iterator, MappingView)):  # `map`, `zip`, `values()` and their like
            inside = " with tensors in it" if holds else ""
            raise trace.guard.refusal(
                UnsupportedPython,
                f"an object of class {type(leaf).__name__}{inside} was returned: a program makes no objects",
                "return the tensors in a tuple, list, dict or namedtuple",
                "",
            )
        return leaf
    if isinstance(leaf, Parameter):  # what a program gives, it computes
        leaf = boundary.boundary(leaf, call=0, kind="output", slot="result")
    data = leaf._data if isinstance(leaf, Tensor) else as_array(leaf)
    return wrapped(data if isinstance(data, SymbolicTensor) else trace.constant(data))
