"""The cache of a function's compiled programs, by everything that its code depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..common import tape
from ..common.tensor import Tensor, from_array
from ..errors import ConversionError
from ..programs.call import result_of
from .declared import DeclaredInputs
from .program_runner import ProgramRunner
from .signature import Shapes, Signature, Sizes, fits, generalize, is_symbolic
from .sizes import Argument, tensor_arguments
from .traced import TracedProgram, run_trace
from .tracking import TrackedRunner

MAX_PROGRAMS = 64
"""The number of programs that a function keeps; the oldest is dropped."""

SYMBOLIC_SIZE_ERRORS = (ValueError, TypeError, ConversionError)
"""The errors that tracing and compiling may raise because a size is symbolic, such as `UnknownSize`.

An error with another cause is raised again when the sizes are numbers.
"""

Function = Callable[..., Any]


class CacheInfo(NamedTuple):
    """How often a function was traced, how many of its programs are cached, and how often one was run."""

    traces: int
    programs: int
    runs: int


@dataclass(eq=False)
class CachedProgram:
    """A compiled program of a function.

    Attributes:
        signature: the signature of the call that was traced.
        shapes: the shapes that the program accepts.
        runner: runs the program.
    """

    signature: Signature
    shapes: Shapes
    runner: ProgramRunner

    def matches(self, signature: Signature) -> bool:
        """Whether the program still computes the function for the arguments of a call, apart from their sizes."""
        return signature.key == self.signature.key and self.runner.traced.dependencies.are_unchanged()

    @cached_property
    def tracked_runner(self) -> TrackedRunner:
        """Runs the program where an outer function requests its gradient."""
        return TrackedRunner(self.runner)

    def call(self, signature: Signature) -> Any:
        """Run the program and return the result of the function."""
        recording = tape.current()
        arrays = signature.arrays
        parameters = self.runner.traced.parameters.values()
        tensors = [x for x in (*signature.tensors, *parameters) if isinstance(x, Tensor)]
        if recording is not None and any(x.number_on(recording) is not None for x in tensors):
            self.runner.traced.require_gradient()
            outputs = self.tracked_runner.run(recording, signature.tensors, arrays)
        else:
            outputs = [from_array(array) for array in self.runner.run(arrays)]
        result = result_of(self.runner.traced.program, arrays, outputs)
        traced = self.runner.traced
        if not traced.written_inputs and not traced.print_entries:
            return result
        result, values, _ = result
        for index, value in zip(traced.written_inputs, values, strict=True):
            _write_back(signature.tensors[index], value)
        return result


def _write_back(argument: Any, value: Tensor) -> None:
    """Write a new value to an argument, a Tensor or an array."""
    if isinstance(argument, Tensor):
        argument._rebind(value)
    else:
        np.copyto(argument, value._data)


class Cache:
    """The programs of one function.

    The first call is traced with its own sizes. When a later call differs only in sizes, the sizes that differ become
    symbolic, and the new program accepts any values for them. Equal sizes share a symbol, and a size of 1 stays fixed.
    If tracing with symbols fails, because Python decides on a size, each combination of sizes gets its own program.
    Declared open sizes are symbolic from the start.
    """

    def __init__(self) -> None:
        self._programs: list[CachedProgram] = []
        self._failures: set[tuple[Any, Shapes]] = set()
        self._traces = 0
        self._runs = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Cache:
        return Cache()

    def __reduce__(self) -> Any:
        return Cache, ()

    @property
    def info(self) -> CacheInfo:
        """The statistics of the cache."""
        return CacheInfo(self._traces, len(self._programs), self._runs)

    @property
    def programs(self) -> tuple[TracedProgram, ...]:
        """The cached programs, the latest last."""
        return tuple(compiled.runner.traced for compiled in self._programs)

    def call(
        self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], declared: DeclaredInputs | None = None
    ) -> Any:
        """Call a function by its compiled program, compiling it if necessary; `declared` are its declared inputs."""
        signature = Signature.of(args, kwargs)
        shapes = () if declared is None else declared.shapes(function, args, kwargs)
        sizes = signature.sizes
        usable = [compiled for compiled in self._programs if compiled.matches(signature)]
        compiled = next((c for c in reversed(usable) if fits(c.shapes, sizes)), None)
        if compiled is None:
            compiled = (
                self._compile_first(function, args, kwargs, signature, filter(is_symbolic, shapes))
                or self._compile_first(function, args, kwargs, signature, _general_shapes(signature, usable))
                or self._compile(function, args, kwargs, signature, sizes)
            )
        self._runs += 1
        return compiled.call(signature)

    def trace(self, function: Function, args: tuple[Any, ...], declared: DeclaredInputs) -> None:
        """Compile a function for declared inputs, if possible; `args` are placeholders."""
        shapes = filter(is_symbolic, declared.shapes(function, args, {}))
        self._compile_first(function, args, {}, Signature.of(args, {}), shapes)

    def _compile_first(
        self, function: Function, args: Any, kwargs: Any, signature: Signature, candidates: Iterable[Shapes]
    ) -> CachedProgram | None:
        """Compile for the first of the wanted shapes for which that is possible; None if there is none."""
        for shapes in candidates:
            if (signature.key, shapes) in self._failures:
                continue
            try:
                return self._compile(function, args, kwargs, signature, shapes)
            except SYMBOLIC_SIZE_ERRORS:
                self._failures.add((signature.key, shapes))
        return None

    def _compile(
        self, function: Function, args: Any, kwargs: Any, signature: Signature, shapes: Shapes | Sizes
    ) -> CachedProgram:
        names = tensor_arguments(function, args, kwargs, None)
        tensors = iter(shapes)
        arguments = [a if a.is_parameter else Argument(a.name, tuple(next(tensors))) for a in names]
        self._traces += 1
        traced = run_trace(function, args, kwargs, arguments, with_effects=True)
        compiled = CachedProgram(signature, tuple(shapes), ProgramRunner(traced))
        self._programs = [*self._programs, compiled][-MAX_PROGRAMS:]
        return compiled


def _general_shapes(signature: Signature, usable: Sequence[CachedProgram]) -> Iterator[Shapes]:
    """Symbolic shapes that fit a call and a call of one of the usable programs."""
    for other in usable:
        shapes = None if is_symbolic(other.shapes) else generalize(other.signature.sizes, signature.sizes)
        if shapes is not None:
            yield shapes
