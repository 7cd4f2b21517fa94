"""The inputs of an ONNX graph (tensors, sequences and optionals of tensors) as the input tensors of a program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto, TypeProto, ValueInfoProto

from ...runtime.errors import ConversionError, ShapeError, UsageError
from ...runtime.ir.dims import SymbolicDim
from ...runtime.ir.types import Type
from ...runtime.memory import check_memory
from ...runtime.tree import TENSOR, Structure
from .model import protos
from .model.values import Optional
from .model.values import Sequence as Items
from .tables.table import MAX_PARTS

Shapes = Mapping[str, Sequence[int] | None]
"""Shapes of inputs by name.

The items of a sequence `s` are `s[0]`, `s[1]`, ...; the name `s` stands for all of them. None means an empty optional.
"""

TEXT = np.dtype(object)
LENGTH = 2  # the length of a sequence without given shapes
ABSENT = Structure("constant")


@dataclass(frozen=True)
class Input:
    """An input of a graph, and the tensors in it.

    Attributes:
        is_sequence: whether it is a sequence, whose items are the tensors.
        is_optional: whether it may be empty.
        tensors: types by name: `x`, or `s[0]`, `s[1]`, ... for the items of a sequence; None if it is empty.
    """

    is_sequence: bool
    is_optional: bool
    tensors: Mapping[str, Type] | None

    @property
    def structure(self) -> Structure:
        """The structure of the program's argument for this input: a tensor, a list of tensors or None."""
        if self.tensors is None:
            return ABSENT
        return Structure("list", (TENSOR,) * len(self.tensors)) if self.is_sequence else TENSOR

    def assemble(self, leaves: Iterator[Any]) -> Any:
        """The argument built from the next tensors of `leaves`: a tensor, a list or None."""
        if self.tensors is None:
            return None
        items = [next(leaves) for _ in self.tensors]
        return items if self.is_sequence else items[0]

    def to_value(self, leaves: Iterator[Any]) -> Any:
        """The imported value built from the next tensors of `leaves`."""
        value = self.assemble(leaves)
        value = Items(tuple(value)) if isinstance(value, list) else value
        return Optional(value) if self.is_optional else value


def read_inputs(graph: GraphProto, symbols: protos.Symbols, shapes: Shapes, *, texts: bool = False) -> dict[str, Input]:
    """The inputs without an initializer, in order, with the sizes from `shapes`.

    A sequence has as many items as `shapes` names, or two if it names none. The sizes of the items are independent,
    even if their dimensions have the same names. An optional holds a value unless its shape is None. With `texts`,
    tensors of strings have the dtype `TEXT`, which programs don't support.

    Raises:
        ConversionError: an input has an unsupported type, two have the same name, or a declared shape is too large.
        UsageError: `shapes` names an unknown input, or a shape that an input can't have.
    """
    declarations = {info.name: _declaration(info, shapes) for info in _infos_without_data(graph)}
    protos_of = {
        name: proto for declaration in declarations.values() for name, proto in (declaration.tensors or {}).items()
    }
    names = [name for declaration in declarations.values() for name in declaration.tensors or {}]
    for name, count in Counter(names).items():
        if count > 1:
            raise ConversionError(f"two inputs are named {name!r}")
    given_shapes = _shapes_of_tensors(declarations, shapes)

    def declared_types() -> dict[str, Type]:
        return {
            name: _declared_type(name, proto, symbols, given_shapes.get(name), texts)
            for name, proto in protos_of.items()
        }

    symbols.name_unsolved_dims(declared_types().values())
    before = declared_types()
    symbols.sizes |= solve_sizes(before, given_shapes)
    types = declared_types()
    for name, type in types.items():
        if name in given_shapes and type.sizes not in (None, tuple(given_shapes[name])):
            raise _mismatch(name, before[name], given_shapes[name])
        if type.sizes is not None:
            try:
                check_memory(type.sizes, type.dtype)
            except ShapeError as error:
                raise ConversionError(f"input {name!r}: {error}") from None
    return {
        name: Input(
            declaration.is_sequence,
            declaration.is_optional,
            None if declaration.tensors is None else {tensor: types[tensor] for tensor in declaration.tensors},
        )
        for name, declaration in declarations.items()
    }


def shapes_for_arrays(graph: GraphProto, arrays: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int] | None]:
    """The shapes that import needs to accept these arrays: lengths of sequences, empty optionals, unknown ranks."""
    result: dict[str, Sequence[int] | None] = {}
    for info in _infos_without_data(graph):
        declaration = _declaration(info, {})
        if declaration.is_sequence:
            item = _item_pattern(info.name)
            items = {name: shape for name, shape in arrays.items() if item.fullmatch(name)}
        else:
            items = {info.name: arrays[info.name]} if info.name in arrays else {}
        if declaration.is_optional and not items:
            result[info.name] = None
        elif declaration.is_sequence or not declaration.element.tensor_type.HasField("shape"):
            result |= items
    return result


def rename_input_shapes(shapes: Shapes, names: Mapping[str, str]) -> Shapes:
    """`shapes` with the inputs, and the items of sequences, renamed by `names`."""
    patterns = {name: _item_pattern(name) for name in names}
    renamed: dict[str, Sequence[int] | None] = {}
    for key, shape in shapes.items():
        for name, other in names.items():
            if key == name or patterns[name].fullmatch(key):
                renamed[other + key[len(name) :]] = shape
    return renamed


def input_names(graph: GraphProto) -> list[str]:
    """The names of the inputs without an initializer."""
    return [info.name for info in _infos_without_data(graph)]


def types_without_rank(graph: GraphProto, shapes: Shapes) -> list[TypeProto]:
    """The types of input tensors without a declared rank and without an entry in `shapes`."""
    types = []
    for info in _infos_without_data(graph):
        declaration = _declaration(info, shapes)
        has_shape = info.name in shapes or any(name in shapes for name in declaration.tensors or {})
        if not has_shape and not declaration.element.tensor_type.HasField("shape"):
            types.append(declaration.element)
    return types


def _infos_without_data(graph: GraphProto) -> list[ValueInfoProto]:
    has_data = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    protos.require_text(*(info.name for info in graph.input))
    infos = [info for info in graph.input if info.name not in has_data]
    for name, count in Counter(info.name for info in infos).items():
        if count > 1:
            raise ConversionError(f"two inputs are named {name!r}")
    return infos


@dataclass(frozen=True)
class _Declaration:
    """The declaration of an input; `tensors` has the types of its tensors, before sizes are known."""

    is_sequence: bool
    is_optional: bool
    element: TypeProto
    tensors: Mapping[str, TypeProto] | None


def _declaration(info: ValueInfoProto, shapes: Shapes) -> _Declaration:
    proto, name = info.type, info.name
    is_optional = proto.HasField("optional_type")
    proto = proto.optional_type.elem_type if is_optional else proto
    is_sequence = proto.HasField("sequence_type")
    proto = proto.sequence_type.elem_type if is_sequence else proto
    if not proto.HasField("tensor_type") or proto.tensor_type.elem_type == TensorProto.UNDEFINED:
        words = [info.type, *([proto] if proto is not info.type else [])]
        kind = " of ".join((word.WhichOneof("value") or "nothing").removesuffix("_type") for word in words)
        raise ConversionError(
            f"input {name!r} is declared as {kind}: needed a tensor with known dtype, or a sequence or an optional of "
            "such tensors"
        )
    if name in shapes and shapes[name] is None:
        if not is_optional:
            raise UsageError(f"input {name!r} of the model isn't optional: it needs a value")
        return _Declaration(is_sequence, is_optional, proto, None)
    if not is_sequence:
        return _Declaration(is_sequence, is_optional, proto, {name: proto})
    anonymous = TypeProto()
    anonymous.CopyFrom(proto)
    for dim in anonymous.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    return _Declaration(is_sequence, is_optional, proto, dict.fromkeys(_item_names(name, shapes), anonymous))


def _item_pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name) + r"\[[0-9]+\]")


def _item_names(name: str, shapes: Shapes) -> list[str]:
    """The names of the items of a sequence."""
    item = _item_pattern(name)
    count = sum(item.fullmatch(key) is not None for key in shapes)
    items = [f"{name}[{i}]" for i in range(count or LENGTH)]
    if missing := [item for item in items if count and item not in shapes]:
        raise UsageError(f"sequence {name!r} of the model: {count} items are given, but {missing[0]} is missing")
    if count > MAX_PARTS:
        raise UsageError(f"sequence {name!r} of the model: {count} items are given; at most {MAX_PARTS} are supported")
    return items


def _shapes_of_tensors(declarations: Mapping[str, _Declaration], shapes: Shapes) -> dict[str, Sequence[int]]:
    """The given shapes by tensor; a sequence's shape applies to those of its items that have no shape of their own."""
    by_tensor: dict[str, Sequence[int]] = {}
    for name, shape in shapes.items():
        declaration = declarations.get(name)
        if declaration is None or not declaration.is_sequence:
            if shape is not None:
                by_tensor[name] = shape
        elif declaration.tensors is not None and shape is not None:
            by_tensor |= {tensor: shape for tensor in declaration.tensors if tensor not in shapes}
    return by_tensor


def _declared_type(
    name: str, proto: TypeProto, symbols: protos.Symbols, given_shape: Sequence[int] | None, texts: bool
) -> Type:
    if texts and proto.tensor_type.elem_type == TensorProto.STRING:
        numbers = TypeProto()
        numbers.CopyFrom(proto)
        numbers.tensor_type.elem_type = TensorProto.FLOAT
        return _declared_type(name, numbers, symbols, given_shape, texts).with_dtype(TEXT)
    type = protos.declared_type(proto, name, symbols, f"input {name!r}")
    if type is not None:
        return type
    if given_shape is None:
        raise ConversionError(
            f"input {name!r} has no declared number of dimensions: give its shape (--shape, or shapes=)"
        )
    if any(size < 0 for size in given_shape):
        raise UsageError(f"input {name!r} of the model can't have the shape {list(given_shape)}")
    return Type(protos.dtype_of(proto.tensor_type.elem_type, f"input {name!r}"), tuple(given_shape))


def solve_sizes(declared: Mapping[str, Type], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The values of the declared symbols for inputs with the given shapes.

    Raises:
        UsageError: an input doesn't exist, or can't have that shape.
    """
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in declared:
            raise UsageError(f"the model has no input {name!r}: it takes {', '.join(declared) or 'nothing'}")
        type = declared[name]
        if len(shape) != type.rank or any(size < 0 for size in shape):
            raise _mismatch(name, type, shape)
        for dim, size in zip(type.shape, shape, strict=True):
            if not isinstance(dim, SymbolicDim):
                fits = dim == size
            else:
                solved = dim.solve(size)
                fits = solved is None or sizes.setdefault(*solved) == solved[1]
            if not fits:
                raise _mismatch(name, type, shape)
    return sizes


def _mismatch(name: str, type: Type, shape: Sequence[int]) -> UsageError:
    return UsageError(f"input {name!r} of the model is {type}: it can't have the shape {list(shape)}")


def assemble(inputs: Mapping[str, Input], leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments built from flat tensors: tensors, lists and None."""
    remaining = iter(leaves)
    return tuple(entry.assemble(remaining) for entry in inputs.values())


def create_inputs(inputs: Mapping[str, Input], new: Callable[[str, Type], Any]) -> tuple[list[Any], dict[str, Any]]:
    """Create the tensors of a program for these inputs with `new`; return them flat, and the values by name."""
    leaves = [new(name, type) for entry in inputs.values() for name, type in (entry.tensors or {}).items()]
    remaining = iter(leaves)
    return leaves, {name: entry.to_value(remaining) for name, entry in inputs.items()}
