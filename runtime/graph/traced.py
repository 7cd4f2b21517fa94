"""`trace` turns a Cell or function written in Python into a program."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from .. import tree
from ..checks import belongs_to_torch
from ..common.parameter import Parameter
from ..common.tensor import Tensor, from_array
from ..current_trace import current
from ..errors import UnsupportedPython, UsageError
from ..ir.program import Program
from ..ir.types import Type
from ..nn.cell import Cell
from ..ops import boundary
from ..programs.call import as_array
from ..programs.verify import verify
from ..tracing import SymbolicTensor
from ..tree import map_leaves
from .boundaries import parameter_names
from .control.source import RetraceRequired, follow, following
from .current import current_recording
from .dependencies import Dependencies
from .objects import contents_of
from .printing import Entry, outputs_of, prints, write_symbolic
from .recording import Trace
from .sizes import Argument, is_input, tensor_arguments

_MAX_TRIES = 2
"""How often one function may require a retrace: twice if another function creates it, which is then rewritten too."""


@dataclass(frozen=True)
class TracedProgram:
    """The result of tracing.

    Attributes:
        program: the program. Parameters that Python assigns to are its buffers, with updates.
        parameters: the live Parameters behind the program's parameters and buffers, by name.
        dependencies: the state outside of its arguments that the program relies on.
        written_inputs: the positions of the inputs that Python writes in place.
        print_entries: the messages that Python prints. If there are written inputs or messages, the program returns a
            triple: the result of the function, a tuple of the new values of the written inputs, and a tuple of the
            printed values.
        backward_hooks: a Cell whose backward hooks the gradient of the program wouldn't call; empty for none.
    """

    program: Program
    parameters: dict[str, Parameter]
    dependencies: Dependencies
    written_inputs: tuple[int, ...] = ()
    print_entries: tuple[Entry, ...] = ()
    backward_hooks: str = ""

    def require_gradient(self) -> None:
        """Raise `UnsupportedPython` if Cells have backward hooks, which a program can't call."""
        if self.backward_hooks:
            raise UnsupportedPython(
                f"the Cell {self.backward_hooks} has backward hooks, but its gradient isn't computed in the traced "
                "code\n  what to do: trace the gradient too (graph mode does; `jit` a function that calls `grad` or "
                "`value_and_grad`), or run it in eager mode: set_context(mode=PYNATIVE_MODE), and no jit"
            )


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> TracedProgram:
    """Run a Cell or function on symbolic tensors, and return the program of its computation.

    The Cells that it calls become the Cells of the program, and their Parameters its parameters. All Python objects
    stay unchanged.

    Args:
        function: a Cell, or a function of tensors (and tuples, lists and dicts of them, numbers and strings).
        args: positional arguments. Tensors and arrays determine the dtypes and shapes of the inputs; a Parameter
            becomes a parameter of the program; any other value is fixed in the program.
        kwargs: keyword arguments.
        dynamic_shapes: the sizes that may vary: a tuple with a dict from axes to names for each positional argument, or
            a dict of such dicts by parameter. Sizes with the same name are equal. None: all sizes are fixed.

    Returns:
        The program, and the live Parameters by their names in it.

    Raises:
        UsageError: `function` isn't callable or belongs to torch, or `dynamic_shapes` doesn't fit the arguments.
    """
    if not callable(function):
        raise UsageError(f"needed a Cell or a function, given {type(function).__name__}")
    if belongs_to_torch(function):
        raise UsageError(
            f"needed a Cell or a function of runtime's Tensors, given torch's {type(function).__name__}: "
            "`converter.from_torch(module, args)` captures a module"
        )
    if not isinstance(args, tuple):
        raise UsageError(f"args must be a tuple of the positional arguments, given {type(args).__name__}")
    if current() is not None:
        raise UsageError(
            "trace was called while Python is traced: call the function itself to make it part of the trace"
        )
    keywords = dict(kwargs or {})
    arguments = tensor_arguments(function, args, keywords, dynamic_shapes)
    return run_trace(function, args, keywords, arguments, with_effects=False)


def run_trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    arguments: list[Argument],
    *,
    with_effects: bool,
) -> TracedProgram:
    """Trace with given names and shapes of the tensors among the arguments; see `trace`.

    With `with_effects`, the program also returns the new values of arguments that Python writes in place, and the
    values that it prints; otherwise a warning says that they are lost. Functions with conditions on tensors are
    rewritten.
    """
    attempts: Counter[CodeType] = Counter()
    while True:
        try:
            with following():
                return _trace_once(function, args, keywords, arguments, with_effects=with_effects)
        except RetraceRequired as request:
            attempts[request.code] += 1
            if attempts[request.code] > _MAX_TRIES or not follow(request.code):
                raise


def _trace_once(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    arguments: list[Argument],
    *,
    with_effects: bool,
) -> TracedProgram:
    names, _ = parameter_names(function, len(args))
    run = Trace(function, {**dict(zip(names, args, strict=True)), **keywords})
    tensors = iter(arguments)
    inputs: list[SymbolicTensor] = []
    tensors_in: list[Tensor] = []
    leaves_in: list[Any] = []

    def symbolic(leaf: Any) -> Any:
        if not is_input(leaf):
            return float(leaf) if isinstance(leaf, np.float64) else leaf
        argument = next(tensors)
        if isinstance(leaf, Parameter):
            return leaf
        array = leaf if isinstance(leaf, Tensor) else as_array(leaf)
        inputs.append(run.add_input(argument.identifier, Type(array.dtype, argument.shape)))
        tensors_in.append(from_array(inputs[-1]))
        leaves_in.append(leaf)
        return tensors_in[-1]

    symbolic_args, symbolic_keywords = map_leaves(symbolic, (args, keywords))
    with run.running():
        if isinstance(function, Cell):
            result = function(*symbolic_args, **symbolic_keywords)
        else:
            name = getattr(function, "__name__", type(function).__name__)
            result = run.run_as_call("", name, function, function, symbolic_args, symbolic_keywords)
        written_inputs = tuple(
            i for i, (x, data) in enumerate(zip(tensors_in, inputs, strict=True)) if x._data is not data
        )
        for i in written_inputs:
            same = [x.value.name for x, leaf in zip(inputs, leaves_in, strict=True) if leaf is leaves_in[i]]
            run.guard.on_write_argument(function, same)
        if with_effects and (written_inputs or run.print_entries):
            result = result, tuple(tensors_in[i] for i in written_inputs), outputs_of(run.print_entries)
        outputs, structure = tree.flatten(map_leaves(_as_output, result))
    if written_inputs and not with_effects:
        warn_about_writes([inputs[i].value.name for i in written_inputs], stacklevel=5)
    if run.print_entries and not with_effects:
        write_symbolic(run.print_entries)
        does = "prints" if any(map(prints, run.print_entries)) else "checks values (assert, raise)"
        warnings.warn(f"Python {does}; the program doesn't (those that `jit` and graph mode compile do)", stacklevel=4)
    parameters, buffers, live = run.stored_tensors()
    constants = map_leaves(_as_constant, (args, keywords))
    program = Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x._data.value for x in outputs),
        nodes=tuple(run.builder.nodes),
        parameters=parameters,
        buffers=buffers,
        constants=tuple(run.builder.constants),
        calls=tuple(run.calls),
        arguments=tree.flatten(constants)[1],
        result=structure,
        train=isinstance(function, Cell) and function.training,
    )
    verify(program)
    dependencies = Dependencies(run.guard.objects, (held.parameter for held in run.parameters.values()))
    effects = (written_inputs, tuple(run.print_entries)) if with_effects else ((), ())
    traced = TracedProgram(program, live, dependencies, *effects, run.guard.backward_hooks)
    if not with_effects:
        traced.require_gradient()
    return traced


def warn_about_writes(names: Sequence[str], *, stacklevel: int) -> None:
    """Warn that the program doesn't write to arguments that Python writes in place."""
    of = ", ".join(map(repr, names))
    warnings.warn(f"Python writes to the argument {of}; the program doesn't change it", stacklevel=stacklevel)


def _as_constant(leaf: Any) -> Any:
    """Represent an argument that isn't an input: a Parameter by its name, an `np.float64` as a `float`."""
    if isinstance(leaf, Parameter):
        return leaf.name
    return float(leaf) if isinstance(leaf, np.float64) else leaf


def _as_output(leaf: Any) -> Any:
    """Return a leaf of the result as an output of the program; refuse objects that hold tensors."""
    trace = current_recording()
    if not tree.is_tensor(leaf):
        holds = any(isinstance(x, Tensor) and isinstance(x._data, SymbolicTensor) for x in contents_of(leaf))
        if holds or isinstance(leaf, (Iterator, MappingView)):  # `map`, `zip`, `values()` and their like
            inside = " with tensors in it" if holds else ""
            raise trace.guard.refusal(
                UnsupportedPython,
                f"an object of class {type(leaf).__name__}{inside} was returned: a program can't create objects",
                "return the tensors in a tuple, list, dict or namedtuple",
                "",
            )
        return leaf
    if isinstance(leaf, Parameter):  # an output must be computed
        leaf = boundary.boundary(leaf, call=0, kind="output", slot="result")
    data = leaf._data if isinstance(leaf, Tensor) else as_array(leaf)
    return from_array(data if isinstance(data, SymbolicTensor) else trace.constant(data))
