"""The inputs of ONNX files: given as arrays or shapes, or generated at sizes that ONNX Runtime runs the file at."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from onnx import GraphProto, TensorShapeProto

from ...converter.onnx_in.importing import read_model
from ...converter.onnx_in.inputs import TEXT, Input, Shapes, assemble, read_inputs, shapes_by_arrays, without_rank
from ...converter.onnx_in.model.protos import Symbols, graphs_of
from ...runtime.compiled.isolated import IsolatedSession, SessionEnded
from ...runtime.compiled.session import SessionError
from ...runtime.errors import UsageError
from ...runtime.ir.dims import SymbolicDim, evaluate, symbols_in
from ...runtime.ir.program import Program
from ...runtime.ir.types import BOOL, FLOAT64, Value, is_floating
from ...runtime.memory import check_memory
from ..sides.records import Array
from .arrays import array_shapes, read_arrays
from .sizes import Sizes, described

SIZES = (2, 5, 3, 7)  # of open dimensions, in the order in which the inputs name them
OTHER_SIZES = ((2, 64), (1, 64), (2, 224), (1, 224), (1, 256), (1, 512), (1, 1024), (1, 16000))
"""Sizes of counts (of samples, of states) and of extents (in space or time), where a model doesn't run at `SIZES`."""
POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)  # of two, in which 0 and what is negative is NaN
OTHER_TEXT = "a text"
MAX_INPUT_ELEMENTS = 2**24  # elements of a generated input
PASSING_ON = frozenset({"boundary", "cast", "reshape", "expand", "transpose", "concat", "slice"})


RANKS = (2, 1, 3, 4, 0)  # of inputs that declare none


@dataclass(frozen=True)
class Declared:
    """What a file declares of its inputs.

    Attributes:
        inputs: by name.
        values: the tensors that they are made of, in flat order.
        ranked: whether it declares the number of dimensions of each.
        texts: what its nodes know of strings, of which inputs of strings are generated.
    """

    inputs: Mapping[str, Input]
    values: list[Value]
    ranked: bool = True
    texts: tuple[str, ...] = ()

    def arguments(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """The inputs made of these arrays: tensors, lists for sequences, None for optionals that hold nothing."""
        return assemble(self.inputs, arrays)

    def shapes(self, arrays: Sequence[Array]) -> dict[str, Sequence[int] | None]:
        """The shapes of arrays by name; None of optionals that hold nothing."""
        absent = {name: None for name, one in self.inputs.items() if one.tensors is None}
        return {**{value.name: array.shape for value, array in zip(self.values, arrays, strict=True)}, **absent}

    def structure(self, arrays: Sequence[Array]) -> Shapes:
        """Of these shapes, those that decide more than sizes: what there is of sequences and optionals."""
        structured = [one for one in self.inputs.values() if one.is_sequence or one.is_optional]
        names = {name for one in structured if one.is_sequence for name in one.tensors or {}}
        return {name: shape for name, shape in self.shapes(arrays).items() if shape is None or name in names}


def declared_inputs(path: str, shapes: Shapes | None = None, inputs: str | None = None) -> Declared:
    """What a file declares of its inputs, with the sizes that `shapes` or the arrays in the file `inputs` give.

    Raises:
        UsageError, ConversionError: see `read_inputs`; or ONNX Runtime runs at no number of dimensions that was tried
            for inputs that declare none.
    """
    graph, given = read_model(path).graph, dict(shapes or {})
    if inputs is not None:
        given |= shapes_by_arrays(graph, array_shapes(inputs))
    open_ranks = without_rank(graph, given)
    if not open_ranks:
        return _declared(graph, given)
    for rank in RANKS:
        for proto in open_ranks:
            proto.tensor_type.shape.CopyFrom(TensorShapeProto(dim=[TensorShapeProto.Dimension()] * rank))
        declared = _declared(graph, given)
        try:
            arrays = next(runnable(path, declared, None, 0))
            IsolatedSession(path).run(feed(declared, arrays))
        except UsageError:
            continue
        return replace(declared, ranked=False)
    names = ", ".join(value.name for value in declared.values)
    raise UsageError(
        f"{path} declares no number of dimensions for all of its inputs ({names}), and runs with none of those that "
        f"were tried\n  what to do: give the shapes, --shape NAME=2,3, or arrays by input name, --inputs arrays.npz"
    )


def _declared(graph: GraphProto, shapes: Shapes) -> Declared:
    inputs = read_inputs(graph, Symbols(), shapes, texts=True)
    types = {name: type for one in inputs.values() for name, type in (one.tensors or {}).items()}
    texts = tuple(_texts(graph)) if TEXT in {type.dtype for type in types.values()} else ()
    return Declared(inputs, [Value(name, type) for name, type in types.items()], texts=texts)


def _texts(graph: GraphProto) -> Iterator[str]:
    """The strings in tensors and attributes of the graph's nodes, as far as they are UTF-8."""
    attributes = [attribute for one in graphs_of(graph) for node in one.node for attribute in node.attribute]
    tensors = [tensor for one in graphs_of(graph) for tensor in one.initializer]
    tensors += [attribute.t for attribute in attributes]
    for data in itertools.chain(*(a.strings for a in attributes), *(tensor.string_data for tensor in tensors)):
        with contextlib.suppress(UnicodeDecodeError):
            yield data.decode()


def feed(declared: Declared, arrays: Sequence[Array]) -> dict[str, Any]:
    """What ONNX Runtime is given for these arrays."""
    return dict(zip(declared.inputs, declared.arguments(arrays), strict=True))


def _symbols(values: Sequence[Value]) -> list[str]:
    return list(dict.fromkeys(name for value in values for name in sorted(symbols_in(value.shape))))


def runnable(path: str, declared: Declared, inputs: str | None, seed: int) -> Iterator[list[Array]]:
    """Inputs that ONNX Runtime runs a file on, in order: those of the .npz file `inputs`, or generated ones.

    Sizes that are left open are small ones, each its own, then such as models of images, sounds or texts need.

    Raises:
        UsageError: arrays don't fit, or the file runs at none of the sizes.
    """
    values = declared.values
    if inputs is not None:
        yield read_arrays(inputs, values)
        return
    names = _symbols(values)
    if not names:
        yield generated(values, seed, {}, texts=declared.texts)
        return
    session = IsolatedSession(path)
    refused: list[str] = []
    tried = [sizes for sizes in (_default(names), *_other_sizes(values, names)) if _fits(values, sizes)]
    for sizes in tried:
        arrays = generated(values, seed, sizes, texts=declared.texts)
        try:
            results = session.run(feed(declared, arrays))
        except SessionError as error:
            if session.refused:  # what is wrong is said where the file is read, or run
                yield arrays
                return
            refused.append(str(error).partition("\n")[0])
            if isinstance(error, SessionEnded):
                session = IsolatedSession(path)
        else:
            if all(array.size for items in results.values() for array in items.values()):
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
    return all(min(shape, default=0) >= 0 and math.prod(shape) <= MAX_INPUT_ELEMENTS for shape in shapes)


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


def more_samples(
    declared: Declared, arrays: Sequence[Array], count: int, largest: int, seed: int
) -> tuple[Sizes, list[Array]] | None:
    """Inputs like `arrays` with `count` samples, and the sizes that differ; None where the file is of certain sizes.

    A number of samples is an open first dimension. No input gets more than `largest` elements.
    """
    sizes: Sizes = {}
    for value, array in zip(declared.values, arrays, strict=True):
        for dim, size in zip(value.shape, array.shape, strict=True):
            if isinstance(dim, SymbolicDim) and (solved := dim.solve(size)):
                sizes[solved[0]] = solved[1]
    samples = dict.fromkeys(sorted(symbols_in(*(value.shape[:1] for value in declared.values)) & sizes.keys()), count)
    sizes |= samples
    if not samples or not all(symbols_in(value.shape) <= sizes.keys() for value in declared.values):
        return None
    if any(math.prod(evaluate(dim, sizes) for dim in value.shape) > largest for value in declared.values):
        return None
    return samples, generated(declared.values, seed, sizes, texts=declared.texts)


def generated_inputs(program: Program, seed: int, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Random inputs of the declared types: normal numbers, indices that fit the tables they are taken from, bits.

    Symbolic dimensions get `sizes`; if not given, small ones, each its own.
    """
    if sizes is None:
        sizes = _default(_symbols(program.inputs))
    return generated(program.inputs, seed, sizes, program)


def generated(
    values: Sequence[Value],
    seed: int,
    sizes: Mapping[str, int],
    program: Program | None = None,
    texts: Sequence[str] = (),
) -> list[Array]:
    """Random arrays for declared inputs at these sizes; `program` tells which tables indices are for.

    Strings are some of `texts`, and one that is none of them.
    """
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    shapes = [tuple(evaluate(dim, sizes) for dim in value.shape) for value in values]
    check_memory((sum(math.prod(shape) for shape in shapes),), FLOAT64)
    for value, shape in zip(values, shapes, strict=True):
        check_memory(shape, FLOAT64)
        if value.dtype == TEXT:
            arrays.append(rng.choice(np.array([*texts, OTHER_TEXT], np.str_), shape))
        elif value.dtype == BOOL:
            arrays.append(_indices(rng, 2, shape).astype(BOOL))
        elif is_floating(value.dtype):
            arrays.append(np.asarray(rng.standard_normal(shape)).astype(value.dtype))
        elif value.dtype == POWERS:
            arrays.append(np.exp2(rng.standard_normal(shape)).astype(value.dtype))
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
