"""The inputs of ONNX files: given as arrays or shapes, or generated at sizes that the file runs at."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from onnx import GraphProto, TensorShapeProto

from ...converter.onnx_in.importing import read_model
from ...converter.onnx_in.inputs import (
    TEXT,
    Input,
    Shapes,
    assemble,
    read_inputs,
    shapes_for_arrays,
    types_without_rank,
)
from ...converter.onnx_in.model.protos import Symbols, graphs_of
from ...runtime.compiled.isolated import IsolatedSession, SessionEnded
from ...runtime.compiled.session import SessionError
from ...runtime.errors import UsageError
from ...runtime.ir.dims import SymbolicDim, evaluate, symbols_in
from ...runtime.ir.program import Program
from ...runtime.ir.types import BOOL, FLOAT64, Node, Value, is_floating
from ...runtime.memory import check_memory
from ...runtime.ops.registry import get
from ..sides.records import Array
from .arrays import array_shapes, read_arrays
from .sizes import Sizes, format_sizes

SIZES = (2, 5, 3, 7)  # of open dimensions, in the order of their first use in the inputs
OTHER_SIZES = ((2, 64), (1, 64), (2, 224), (1, 224), (1, 256), (1, 512), (1, 1024), (1, 16000))
"""Sizes of counts (samples, states) and of extents (in space or time), tried if a model doesn't run at `SIZES`."""
POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)  # a dtype of powers of two, in which 0 and negative numbers are NaN
OTHER_TEXT = "a text"
MAX_INPUT_ELEMENTS = 2**24  # elements of a generated input
WINDOWS = frozenset({"BlackmanWindow", "HammingWindow", "HannWindow"})
"""Operators with a length as their operand."""
LENGTH = 6
"""Length of a window whose length is an input; of length 1, all windows are one number that says nothing of them."""
RANKS = (2, 1, 3, 4, 0)  # ranks tried for inputs that declare none


@dataclass(frozen=True)
class DeclaredInputs:
    """The inputs that a file declares.

    Attributes:
        inputs: the inputs by name.
        values: the tensors that they consist of, in flat order.
        ranked: whether the file declares the rank of each.
        texts: strings that occur in its nodes, from which string inputs are generated.
    """

    inputs: Mapping[str, Input]
    values: list[Value]
    ranked: bool = True
    texts: tuple[str, ...] = ()

    def arguments(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Build the inputs from these arrays: tensors, lists for sequences, None for empty optionals."""
        return assemble(self.inputs, arrays)

    def shapes(self, arrays: Sequence[Array]) -> dict[str, Sequence[int] | None]:
        """Return the shapes of arrays by name; None for empty optionals."""
        absent = {name: None for name, declaration in self.inputs.items() if declaration.tensors is None}
        return {**{value.name: array.shape for value, array in zip(self.values, arrays, strict=True)}, **absent}

    def structure(self, arrays: Sequence[Array]) -> Shapes:
        """Return only the shapes that determine structure: those of sequences and optionals."""
        structured = [
            declaration for declaration in self.inputs.values() if declaration.is_sequence or declaration.is_optional
        ]
        names = {name for declaration in structured if declaration.is_sequence for name in declaration.tensors or {}}
        return {name: shape for name, shape in self.shapes(arrays).items() if shape is None or name in names}


def read_declared_inputs(path: str, shapes: Shapes | None = None, inputs: str | None = None) -> DeclaredInputs:
    """Read the inputs that a file declares, with the sizes from `shapes` or the arrays in the file `inputs`.

    Raises:
        UsageError, ConversionError: see `read_inputs`; or ONNX Runtime runs with none of the ranks that were tried for
            inputs that declare none.
    """
    graph, known_shapes = read_model(path).graph, dict(shapes or {})
    if inputs is not None:
        known_shapes |= shapes_for_arrays(graph, array_shapes(inputs))
    open_ranks = types_without_rank(graph, known_shapes)
    if not open_ranks:
        return _declare(graph, known_shapes)
    for rank in RANKS:
        for proto in open_ranks:
            proto.tensor_type.shape.CopyFrom(TensorShapeProto(dim=[TensorShapeProto.Dimension()] * rank))
        declared = _declare(graph, known_shapes)
        try:
            arrays = next(runnable_inputs(path, declared, None, 0))
            IsolatedSession(path).run(session_inputs(declared, arrays))
        except UsageError:
            continue
        return replace(declared, ranked=False)
    names = ", ".join(value.name for value in declared.values)
    raise UsageError(
        f"{path} doesn't say how many dimensions some of its inputs ({names}) have, and runs with none of those that "
        f"were tried\n  what to do: give the shapes, --shape NAME=2,3, or arrays by input name, --inputs arrays.npz"
    )


def _declare(graph: GraphProto, shapes: Shapes) -> DeclaredInputs:
    inputs = read_inputs(graph, Symbols(), shapes, texts=True)
    types = {name: type for declaration in inputs.values() for name, type in (declaration.tensors or {}).items()}
    texts = tuple(_texts(graph)) if TEXT in {type.dtype for type in types.values()} else ()
    return DeclaredInputs(inputs, [Value(name, type) for name, type in types.items()], texts=texts)


def _texts(graph: GraphProto) -> Iterator[str]:
    """Yield the UTF-8 strings in tensors and attributes of the graph's nodes."""
    attributes = [attribute for subgraph in graphs_of(graph) for node in subgraph.node for attribute in node.attribute]
    tensors = [tensor for subgraph in graphs_of(graph) for tensor in subgraph.initializer]
    tensors += [attribute.t for attribute in attributes]
    for data in itertools.chain(*(a.strings for a in attributes), *(tensor.string_data for tensor in tensors)):
        with contextlib.suppress(UnicodeDecodeError):
            yield data.decode()


def session_inputs(declared: DeclaredInputs, arrays: Sequence[Array]) -> dict[str, Any]:
    """Return the inputs of ONNX Runtime's session for these arrays."""
    return dict(zip(declared.inputs, declared.arguments(arrays), strict=True))


def _symbols(values: Sequence[Value]) -> list[str]:
    return list(dict.fromkeys(name for value in values for name in sorted(symbols_in(value.shape))))


def default_sizes(values: Sequence[Value]) -> Sizes:
    """Return the sizes of open axes that are tried first, by name."""
    return _default(_symbols(values))


def runnable_inputs(path: str, declared: DeclaredInputs, inputs: str | None, seed: int) -> Iterator[list[Array]]:
    """Yield inputs that ONNX Runtime runs a file on: those of the .npz file `inputs`, or generated ones.

    Open sizes are first small and all different, then sizes that models of images, sound or text need.

    Raises:
        UsageError: arrays don't fit, or the file runs at none of the sizes.
    """
    values = declared.values
    if inputs is not None:
        yield read_arrays(inputs, values)
        return
    names = _symbols(values)
    if not names:
        yield generate(values, seed, {}, texts=declared.texts)
        return
    session = IsolatedSession(path)
    failures: list[str] = []
    candidates = [sizes for sizes in (_default(names), *_other_sizes(values, names)) if _fits(values, sizes)]
    for sizes in candidates:
        arrays = generate(values, seed, sizes, texts=declared.texts)
        try:
            results = session.run(session_inputs(declared, arrays))
        except SessionError as error:
            if session.refused:  # reading or running the file reports the error
                yield arrays
                return
            failures.append(str(error).partition("\n")[0])
            if isinstance(error, SessionEnded):
                session = IsolatedSession(path)
        else:
            if all(array.size for items in results.values() for array in items.values()):
                yield arrays
            else:
                failures.append("its outputs have no element")
    if len(failures) == len(candidates):
        listing = ", ".join(f"{value.name} {value.type}" for value in values)
        first = f"  at {format_sizes(candidates[0])}: {failures[0]}\n" if candidates else ""
        raise UsageError(
            f"{path} runs at none of the {len(candidates)} sizes that were tried for its inputs: {listing}\n{first}"
            f"  what to do: give the shapes, --shape {_example(values)}, or arrays by input name, --inputs arrays.npz"
        )


def _default(names: Sequence[str]) -> Sizes:
    return {name: SIZES[i] if i < len(SIZES) else SIZES[-1] + 2 * i for i, name in enumerate(names)}


def _fits(values: Sequence[Value], sizes: Sizes) -> bool:
    """Whether inputs of these sizes exist and aren't too large."""
    try:
        shapes = [[evaluate(dim, sizes) for dim in value.shape] for value in values]
    except ZeroDivisionError:
        return False
    return all(min(shape, default=0) >= 0 and math.prod(shape) <= MAX_INPUT_ELEMENTS for shape in shapes)


def _example(values: Sequence[Value]) -> str:
    """Return an example of the option for the first input with open sizes."""
    value = next(value for value in values if symbols_in(value.shape))
    likely = (1, 3, 224, 224) if len(value.shape) == 4 else (1,) + (512,) * (len(value.shape) - 1)
    sizes = (dim if isinstance(dim, int) else size for dim, size in zip(value.shape, likely, strict=True))
    return f"{value.name}={','.join(map(str, sizes))}"


def _other_sizes(values: Sequence[Value], names: Sequence[str]) -> Iterator[Sizes]:
    """Yield sizes of the open dimensions: one for counts, another for extents."""
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
    declared: DeclaredInputs, arrays: Sequence[Array], count: int, largest: int, seed: int
) -> tuple[Sizes, list[Array]] | None:
    """Return inputs like `arrays` with `count` samples, and the sizes that differ; None if the file's sizes are fixed.

    The number of samples is an open first dimension. No input gets more than `largest` elements.
    """
    sizes: Sizes = {}
    for value, array in zip(declared.values, arrays, strict=True):
        for dim, size in zip(value.shape, array.shape, strict=True):
            if isinstance(dim, SymbolicDim) and (solution := dim.solve(size)):
                sizes[solution[0]] = solution[1]
    samples = dict.fromkeys(sorted(symbols_in(*(value.shape[:1] for value in declared.values)) & sizes.keys()), count)
    sizes |= samples
    if not samples or not all(symbols_in(value.shape) <= sizes.keys() for value in declared.values):
        return None
    if any(math.prod(evaluate(dim, sizes) for dim in value.shape) > largest for value in declared.values):
        return None
    return samples, generate(declared.values, seed, sizes, texts=declared.texts)


def generate_inputs(program: Program, seed: int, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Generate random inputs of the declared types: normal numbers, valid indices of tables, bits.

    Symbolic dimensions get `sizes`; by default small, different ones.
    """
    if sizes is None:
        sizes = _default(_symbols(program.inputs))
    return generate(program.inputs, seed, sizes, program)


def generate(
    values: Sequence[Value],
    seed: int,
    sizes: Mapping[str, int],
    program: Program | None = None,
    texts: Sequence[str] = (),
) -> list[Array]:
    """Generate random arrays for declared inputs at these sizes; `program` determines the tables that indices look up.

    Strings are chosen from `texts` and one other string.
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
        elif program is not None and is_length(program, value):
            arrays.append(np.full(shape, LENGTH, value.dtype))
        else:
            lengths = () if program is None else tables(program, value)
            arrays.append(_indices(rng, max(min(lengths, default=2), 1), shape).astype(value.dtype, copy=False))
    return arrays


def _indices(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Return random integers from 0 to `count - 1`, not all equal if possible, since a mask of ones masks nothing."""
    indices = np.asarray(rng.integers(0, count, shape))
    if count > 1 and indices.size > 1 and (indices == indices.flat[0]).all():
        indices.flat[-1] = (indices.flat[-1] + 1) % count
    return indices


def is_length(program: Program, value: Value) -> bool:
    """Whether an input is the length of a window."""
    return any(
        node.op == "runtime_shaped" and node.attributes["operator"] in WINDOWS for node, _ in _readers(program, value)
    )


def tables(program: Program, indices: Value) -> Iterator[int]:
    """Yield the lengths of the tables that `indices` look up."""
    for node, derived in _readers(program, indices):
        if node.op == "take" and node.inputs[1] in derived and node.inputs[0] is not None:
            size = node.inputs[0].shape[node.attributes["axis"]]
            if isinstance(size, int):
                yield size


def _readers(program: Program, value: Value) -> Iterator[tuple[Node, Collection[Value]]]:
    """Yield the nodes that read an input, or its elements in another place or dtype, with all such values so far."""
    derived = {value}
    for node in program.nodes:
        if derived.intersection(v for v in node.inputs if v is not None):
            yield node, derived
            if not derived.isdisjoint(_moved(node)):
                derived.update(node.outputs)


def _moved(node: Node) -> Sequence[Value | None]:
    """Return the operands whose elements the results of a node consist of."""
    moves = get(node.op).traits.moves
    if moves == "several":
        return [value for value in node.inputs if value is not None and value.dtype == node.outputs[0].dtype]
    return node.inputs[:1] if moves == "first" or node.op == "cast" else ()
