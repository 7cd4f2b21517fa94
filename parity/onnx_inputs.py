"""The inputs of ONNX files: given as arrays or shapes, or generated at sizes that ONNX Runtime runs the file at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..converter.onnx_in.importing import input_types, read_model
from ..converter.onnx_in.protos import Symbols
from ..runtime.compiled.isolated import IsolatedSession, SessionEnded
from ..runtime.compiled.session import SessionError
from ..runtime.errors import UsageError
from ..runtime.ir.dims import evaluate, symbols_in
from ..runtime.ir.program import Program
from ..runtime.ir.types import BOOL, FLOAT64, Value, is_floating
from ..runtime.memory import require_room
from .input_files import read_arrays
from .sides.records import Array
from .sizes import Sizes, described

Shapes = Mapping[str, Sequence[int]]

SIZES = (2, 5, 3, 7)  # of open dimensions, in the order in which the inputs name them
OTHER_SIZES = ((2, 64), (1, 64), (2, 224), (1, 224), (1, 256), (1, 512), (1, 1024), (1, 16000))
"""Sizes of counts (of samples, of states) and of extents (in space or time), where a model doesn't run at `SIZES`."""
LARGEST = 2**24  # elements of a generated input
PASSING_ON = frozenset({"boundary", "cast", "reshape", "expand", "transpose", "concat", "slice"})


def declared_inputs(path: str, shapes: Shapes | None = None) -> list[Value]:
    """What a file declares of its inputs, with the sizes that `shapes` give; see `input_types` for what is raised."""
    types = input_types(read_model(path).graph, Symbols(), shapes or {})
    return [Value(name, type) for name, type in types.items()]


def runnable(path: str, values: Sequence[Value], inputs: str | None, seed: int) -> Iterator[list[Array]]:
    """Inputs that ONNX Runtime runs a file on, in order: those of the .npz file `inputs`, or generated ones.

    Sizes that are left open are small ones, each its own, then such as models of images, sounds or texts need.

    Raises:
        UsageError: arrays don't fit, or the file runs at none of the sizes.
    """
    if inputs is not None:
        yield read_arrays(inputs, values)
        return
    names = list(dict.fromkeys(name for value in values for name in sorted(symbols_in(value.shape))))
    if not names:
        yield generated(values, seed, {})
        return
    session = IsolatedSession(path)
    refused: list[str] = []
    tried = [sizes for sizes in (_default(names), *_other_sizes(values, names)) if _fits(values, sizes)]
    for sizes in tried:
        arrays = generated(values, seed, sizes)
        try:
            results = session.run({value.name: array for value, array in zip(values, arrays, strict=True)})
        except SessionError as error:
            if session.refused:  # what is wrong is said where the file is read, or run
                yield arrays
                return
            refused.append(str(error).partition("\n")[0])
            if isinstance(error, SessionEnded):
                session = IsolatedSession(path)
        else:
            if all(array.size for items in results.values() for array in items):
                yield arrays
            else:
                refused.append("its outputs have no element")
    if len(refused) == len(tried):
        shown = ", ".join(f"{value.name} {value.type}" for value in values)
        first = f"  at {described(tried[0])}: {refused[0]}\n" if tried else ""
        raise UsageError(
            f"{path} runs at none of the {len(tried)} sizes that were tried for its inputs: {shown}\n{first}"
            f"  what to do: give the shapes, --shape {_example(values)}, or arrays by input name, --inputs arrays.npz"
        )


def _default(names: Sequence[str]) -> Sizes:
    return {name: SIZES[i] if i < len(SIZES) else SIZES[-1] + 2 * i for i, name in enumerate(names)}


def _fits(values: Sequence[Value], sizes: Sizes) -> bool:
    """Whether there are inputs of these sizes, and not too large ones."""
    try:
        shapes = [[evaluate(dim, sizes) for dim in value.shape] for value in values]
    except ZeroDivisionError:
        return False
    return all(min(shape, default=0) >= 0 and math.prod(shape) <= LARGEST for shape in shapes)


def _example(values: Sequence[Value]) -> str:
    """An option for the first input with open sizes, as a person may write it."""
    value = next(value for value in values if symbols_in(value.shape))
    likely = (1, 3, 224, 224) if len(value.shape) == 4 else (1,) + (512,) * (len(value.shape) - 1)
    sizes = (dim if isinstance(dim, int) else size for dim, size in zip(value.shape, likely, strict=True))
    return f"{value.name}={','.join(map(str, sizes))}"


def _other_sizes(values: Sequence[Value], names: Sequence[str]) -> Iterator[Sizes]:
    """Sizes of the open dimensions: those that count things have one size, extents others."""
    extents: dict[str, None] = {}
    for value in values:
        for axis, dim in enumerate(value.shape):
            in_space = axis >= 2 if len(value.shape) >= 4 else axis >= 1 and not isinstance(value.shape[0], int)
            if in_space:
                extents.update(dict.fromkeys(symbols_in(dim)))
    for name in symbols_in(*(value.shape[:1] for value in values if len(value.shape) > 1)):
        extents.pop(name, None)
    for count, extent in OTHER_SIZES:
        yield {name: extent if name in extents else count for name in names}


def generated_inputs(program: Program, seed: int, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Random inputs of the declared types: normal numbers, indices that fit the tables they are taken from, bits.

    Symbolic dimensions get `sizes`; if not given, small ones, each its own.
    """
    names = list(dict.fromkeys(name for value in program.inputs for name in sorted(symbols_in(value.shape))))
    if sizes is None:
        sizes = _default(names)
    return generated(program.inputs, seed, sizes, program)


def generated(
    values: Sequence[Value], seed: int, sizes: Mapping[str, int], program: Program | None = None
) -> list[Array]:
    """Random arrays for declared inputs at these sizes; `program` tells which tables indices are for."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    shapes = [tuple(evaluate(dim, sizes) for dim in value.shape) for value in values]
    require_room((sum(math.prod(shape) for shape in shapes),), FLOAT64)
    for value, shape in zip(values, shapes, strict=True):
        require_room(shape, FLOAT64)
        if value.dtype == BOOL:
            arrays.append(_indices(rng, 2, shape).astype(BOOL))
        elif is_floating(value.dtype):
            arrays.append(np.asarray(rng.standard_normal(shape)).astype(value.dtype))
        else:
            lengths = () if program is None else _tables(program, value)
            arrays.append(_indices(rng, min(lengths, default=2), shape).astype(value.dtype, copy=False))
    return arrays


def _indices(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Random integers from 0 to `count - 1`, not all equal if they can differ: a mask of ones masks nothing."""
    found = np.asarray(rng.integers(0, count, shape))
    if count > 1 and found.size > 1 and (found == found.flat[0]).all():
        found.flat[-1] = (found.flat[-1] + 1) % count
    return found


def shapes_of(values: Sequence[Value], arrays: Sequence[Array]) -> dict[str, tuple[int, ...]]:
    """The shapes of arrays by the names of the inputs."""
    return {value.name: array.shape for value, array in zip(values, arrays, strict=True)}


def _tables(program: Program, indices: Value) -> Iterator[int]:
    """The lengths of what is looked up by `indices`."""
    reached = {indices}
    for node in program.nodes:
        if node.op == "take" and node.inputs[1] in reached and node.inputs[0] is not None:
            size = node.inputs[0].shape[node.attributes["axis"]]
            if isinstance(size, int):
                yield size
        elif node.op in PASSING_ON and reached.intersection(v for v in node.inputs if v is not None):
            reached.update(node.outputs)
