"""What a function was compiled to, by what its code depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..common.tensor import Tensor, wrapped
from ..eager import tape
from ..errors import ConversionError
from ..programs.call import result_of
from .declared import Declared
from .program_runner import ProgramRunner
from .signature import Shapes, Signature, Sizes, fit, generalized, is_symbolic
from .sizes import Argument, tensor_arguments
from .traced import TracedProgram, run_trace
from .tracking import Tracking

MAX_PROGRAMS = 64
"""Programs of one function: what was compiled longest ago is dropped."""

MUST_BE_NUMBERS = (ValueError, TypeError, ConversionError)
"""What tracing and compiling may raise where symbolic sizes must be numbers: `UnknownSize`, say, or a check of ours.

Where something else is wrong, it is raised again once the sizes are numbers.
"""

Function = Callable[..., Any]


class CacheInfo(NamedTuple):
    """How often a function was traced, how many programs of it are kept, and how often one was run."""

    traces: int
    programs: int
    runs: int


@dataclass(eq=False)
class CachedProgram:
    """A program of a function, and what it depends on.

    Attributes:
        signature: the arguments that it was traced with.
        shapes: the shapes that it takes.
        runner: the program, ready to run.
    """

    signature: Signature
    shapes: Shapes
    runner: ProgramRunner

    def is_for(self, signature: Signature) -> bool:
        """Whether it is what the function does, with the arguments of a call, as long as sizes fit."""
        return signature.key == self.signature.key and self.runner.traced.dependencies.hold()

    @cached_property
    def tracking(self) -> Tracking:
        """For gradients that are asked for outside."""
        return Tracking(self.runner)

    def call(self, signature: Signature) -> Any:
        """What the function returns."""
        recording = tape.current()
        arrays = signature.arrays
        parameters = self.runner.traced.parameters.values()
        tensors = [x for x in (*signature.tensors, *parameters) if isinstance(x, Tensor)]
        if recording is not None and any(x.number_on(recording) is not None for x in tensors):
            self.runner.traced.require_gradient()
            outputs = self.tracking.run(recording, signature.tensors, arrays)
        else:
            outputs = [wrapped(array) for array in self.runner.run(arrays)]
        result = result_of(self.runner.traced.program, arrays, outputs)
        traced = self.runner.traced
        if not traced.written and not traced.printed:
            return result
        result, written, _ = result
        for place, value in zip(traced.written, written, strict=True):
            _write(signature.tensors[place], value)
        return result


def _write(given: Any, value: Tensor) -> None:
    """Let an argument, a Tensor or an array, hold what was written to it."""
    if isinstance(given, Tensor):
        given._rebind(value)
    else:
        np.copyto(given, value._data)


class Cache:
    """The programs of one function.

    The first call is traced with the sizes that it has. When a later call differs in sizes alone, those that differ
    become symbolic, and from then on any will do; equal ones share a symbol, and a size of 1 stays what it is. Where
    that is refused, because Python decided on a size, each combination of sizes has a program of its own. Where inputs
    are declared with open sizes, those are symbolic at once.
    """

    def __init__(self) -> None:
        self._kept: list[CachedProgram] = []
        self._refused: set[tuple[Any, Shapes]] = set()
        self._traces = 0
        self._runs = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Cache:
        return Cache()

    def __reduce__(self) -> Any:
        return Cache, ()

    @property
    def info(self) -> CacheInfo:
        """Counts."""
        return CacheInfo(self._traces, len(self._kept), self._runs)

    @property
    def programs(self) -> tuple[TracedProgram, ...]:
        """The programs that are kept, the latest last."""
        return tuple(compiled.runner.traced for compiled in self._kept)

    def call(
        self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], declared: Declared | None = None
    ) -> Any:
        """Call a function as it was compiled, or compile it; `declared` are the inputs that it takes."""
        signature = Signature.of(args, kwargs)
        shapes = () if declared is None else declared.shapes(function, args, kwargs)
        sizes = signature.sizes
        usable = [compiled for compiled in self._kept if compiled.is_for(signature)]
        compiled = next((c for c in reversed(usable) if fit(c.shapes, sizes)), None)
        if compiled is None:
            compiled = (
                self._first(function, args, kwargs, signature, filter(is_symbolic, shapes))
                or self._first(function, args, kwargs, signature, _widened(signature, usable))
                or self._compiled(function, args, kwargs, signature, sizes)
            )
        self._runs += 1
        return compiled.call(signature)

    def trace(self, function: Function, args: tuple[Any, ...], declared: Declared) -> None:
        """Compile a function for what is declared, if that can be: `args` are placeholders."""
        shapes = filter(is_symbolic, declared.shapes(function, args, {}))
        self._first(function, args, {}, Signature.of(args, {}), shapes)

    def _first(
        self, function: Function, args: Any, kwargs: Any, signature: Signature, wanted: Iterable[Shapes]
    ) -> CachedProgram | None:
        """A program for the first of the wanted shapes for which there is one."""
        for shapes in wanted:
            if (signature.key, shapes) in self._refused:
                continue
            try:
                return self._compiled(function, args, kwargs, signature, shapes)
            except MUST_BE_NUMBERS:
                self._refused.add((signature.key, shapes))
        return None

    def _compiled(
        self, function: Function, args: Any, kwargs: Any, signature: Signature, shapes: Shapes | Sizes
    ) -> CachedProgram:
        names = tensor_arguments(function, args, kwargs, None)
        tensors = iter(shapes)
        arguments = [a if a.is_parameter else Argument(a.name, tuple(next(tensors))) for a in names]
        self._traces += 1
        traced = run_trace(function, args, kwargs, arguments, gives_all=True)
        compiled = CachedProgram(signature, tuple(shapes), ProgramRunner(traced))
        self._kept = [*self._kept, compiled][-MAX_PROGRAMS:]
        return compiled


def _widened(signature: Signature, usable: Sequence[CachedProgram]) -> Iterator[Shapes]:
    """Shapes for the sizes of a call and those of another one."""
    for other in usable:
        shapes = None if is_symbolic(other.shapes) else generalized(other.signature.sizes, signature.sizes)
        if shapes is not None:
            yield shapes
