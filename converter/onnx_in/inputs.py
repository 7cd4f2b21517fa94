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
"""Shapes of inputs by name; of the items of a sequence `s` as `s[0]`, `s[1]`, ..., or of all of them as `s`. None is an
empty optional."""

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
        """The structure of the program's argument for it: a tensor, a list of tensors or None."""
        if self.tensors is None:
            return ABSENT
        return Structure("list", (TENSOR,) * len(self.tensors)) if self.is_sequence else TENSOR

    def assemble(self, leaves: Iterator[Any]) -> Any:
        """The argument made of the next of `leaves`: a tensor, a list or None."""
        if self.tensors is None:
            return None
        items = [next(leaves) for _ in self.tensors]
        return items if self.is_sequence else items[0]

    def to_value(self, leaves: Iterator[Any]) -> Any:
        """The imported value made of the next of `leaves`."""
        value = self.assemble(leaves)
        value = Items(tuple(value)) if isinstance(value, list) else value
        return Optional(value) if self.is_optional else value


def read_inputs(graph: GraphProto, symbols: protos.Symbols, shapes: Shapes, *, texts: bool = False) -> dict[str, Input]:
    """The inputs without an initializer, in order, with the sizes from `shapes`.

    A sequence has as many items as `shapes` name, else two; the items have independent sizes, even if their dimensions
    have the same names. An optional holds a value unless its shape is None. With `texts`, tensors of strings have the
    dtype `TEXT`, which no program has.

    Raises:
        ConversionError: an input has another type, two have the same name, or a declared shape is too large.
        UsageError: `shapes` name an unknown input, or sizes that it can't have.
    """
    forms = {info.name: _form(info, shapes) for info in _infos(graph)}
    protos_of = {name: proto for form in forms.values() for name, proto in (form.tensors or {}).items()}
    names = [name for form in forms.values() for name in form.tensors or {}]
    for name, count in Counter(names).items():
        if count > 1:
            raise ConversionError(f"two inputs are named {name!r}")
    given = _shapes_of_tensors(forms, shapes)

    def declared_types() -> dict[str, Type]:
        return {name: _declared_type(name, proto, symbols, given.get(name), texts) for name, proto in protos_of.items()}

    symbols.name_unsolved_dims(declared_types().values())
    before = declared_types()
    symbols.sizes |= solve_sizes(before, given)
    types = declared_types()
    for name, type in types.items():
        if name in given and type.sizes not in (None, tuple(given[name])):
            raise _mismatch(name, before[name], given[name])
        if type.sizes is not None:
            try:
                check_memory(type.sizes, type.dtype)
            except ShapeError as error:
                raise ConversionError(f"input {name!r}: {error}") from None
    return {
        name: Input(
            form.is_sequence,
            form.is_optional,
            None if form.tensors is None else {one: types[one] for one in form.tensors},
        )
        for name, form in forms.items()
    }


def shapes_by_arrays(graph: GraphProto, arrays: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int] | None]:
    """The shapes to import with for arrays of these shapes: lengths of sequences, empty optionals, open ranks."""
    decided: dict[str, Sequence[int] | None] = {}
    for info in _infos(graph):
        form = _form(info, {})
        if form.is_sequence:
            item = _item(info.name)
            items = {name: shape for name, shape in arrays.items() if item.fullmatch(name)}
        else:
            items = {info.name: arrays[info.name]} if info.name in arrays else {}
        if form.is_optional and not items:
            decided[info.name] = None
        elif form.is_sequence or not form.element.tensor_type.HasField("shape"):
            decided |= items
    return decided


def shapes_with_names(shapes: Shapes, names: Mapping[str, str]) -> Shapes:
    """`shapes` with the inputs, and the items of sequences, renamed by `names`."""
    patterns = {name: _item(name) for name in names}
    found: dict[str, Sequence[int] | None] = {}
    for key, shape in shapes.items():
        for name, other in names.items():
            if key == name or patterns[name].fullmatch(key):
                found[other + key[len(name) :]] = shape
    return found


def input_names(graph: GraphProto) -> list[str]:
    """The names of the inputs without an initializer."""
    return [info.name for info in _infos(graph)]


def without_rank(graph: GraphProto, shapes: Shapes) -> list[TypeProto]:
    """The types of input tensors without a declared rank and without an entry in `shapes`."""
    found = []
    for info in _infos(graph):
        form = _form(info, shapes)
        told = info.name in shapes or any(name in shapes for name in form.tensors or {})
        if not told and not form.element.tensor_type.HasField("shape"):
            found.append(form.element)
    return found


def _infos(graph: GraphProto) -> list[ValueInfoProto]:
    has_data = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    protos.require_text(*(info.name for info in graph.input))
    infos = [info for info in graph.input if info.name not in has_data]
    for name, count in Counter(info.name for info in infos).items():
        if count > 1:
            raise ConversionError(f"two inputs are named {name!r}")
    return infos


@dataclass(frozen=True)
class _Form:
    """The declaration of an input; `tensors` are the types of the tensors in it, before sizes are known."""

    is_sequence: bool
    is_optional: bool
    element: TypeProto
    tensors: Mapping[str, TypeProto] | None


def _form(info: ValueInfoProto, shapes: Shapes) -> _Form:
    proto, name = info.type, info.name
    is_optional = proto.HasField("optional_type")
    proto = proto.optional_type.elem_type if is_optional else proto
    is_sequence = proto.HasField("sequence_type")
    proto = proto.sequence_type.elem_type if is_sequence else proto
    if not proto.HasField("tensor_type") or proto.tensor_type.elem_type == TensorProto.UNDEFINED:
        words = [info.type, *([proto] if proto is not info.type else [])]
        kind = " of ".join((one.WhichOneof("value") or "nothing").removesuffix("_type") for one in words)
        raise ConversionError(
            f"input {name!r} is declared as {kind}: needed a tensor with known dtype, or a sequence or an optional of "
            "such tensors"
        )
    if name in shapes and shapes[name] is None:
        if not is_optional:
            raise UsageError(f"input {name!r} of the model is no optional: it can't be left out")
        return _Form(is_sequence, is_optional, proto, None)
    if not is_sequence:
        return _Form(is_sequence, is_optional, proto, {name: proto})
    anonymous = TypeProto()
    anonymous.CopyFrom(proto)
    for dim in anonymous.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    return _Form(is_sequence, is_optional, proto, dict.fromkeys(_items(name, shapes), anonymous))


def _item(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name) + r"\[[0-9]+\]")


def _items(name: str, shapes: Shapes) -> list[str]:
    """The names of the items of a sequence."""
    item = _item(name)
    count = sum(item.fullmatch(key) is not None for key in shapes)
    items = [f"{name}[{i}]" for i in range(count or LENGTH)]
    if missing := [one for one in items if count and one not in shapes]:
        raise UsageError(f"sequence {name!r} of the model: {count} items are given, without {missing[0]}")
    if count > MAX_PARTS:
        raise UsageError(f"sequence {name!r} of the model: {count} items; at most {MAX_PARTS} are read")
    return items


def _shapes_of_tensors(forms: Mapping[str, _Form], shapes: Shapes) -> dict[str, Sequence[int]]:
    """The given shapes by tensor: the shape of a sequence applies to all its items without a shape of their own."""
    given: dict[str, Sequence[int]] = {}
    for name, shape in shapes.items():
        form = forms.get(name)
        if form is None or not form.is_sequence:
            if shape is not None:
                given[name] = shape
        elif form.tensors is not None and shape is not None:
            given |= {one: shape for one in form.tensors if one not in shapes}
    return given


def _declared_type(
    name: str, proto: TypeProto, symbols: protos.Symbols, given: Sequence[int] | None, texts: bool
) -> Type:
    if texts and proto.tensor_type.elem_type == TensorProto.STRING:
        numbers = TypeProto()
        numbers.CopyFrom(proto)
        numbers.tensor_type.elem_type = TensorProto.FLOAT
        return _declared_type(name, numbers, symbols, given, texts).with_dtype(TEXT)
    type = protos.declared_type(proto, name, symbols, f"input {name!r}")
    if type is not None:
        return type
    if given is None:
        raise ConversionError(
            f"input {name!r} is declared without a number of dimensions: give its shape, --shape or shapes="
        )
    if any(size < 0 for size in given):
        raise UsageError(f"input {name!r} of the model can't have the shape {list(given)}")
    return Type(protos.dtype_of(proto.tensor_type.elem_type, f"input {name!r}"), tuple(given))


def solve_sizes(declared: Mapping[str, Type], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The values of the declared symbols for inputs with the given shapes.

    Raises:
        UsageError: an input doesn't exist, or can't have that shape.
    """
    found: dict[str, int] = {}
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
                fits = solved is None or found.setdefault(*solved) == solved[1]
            if not fits:
                raise _mismatch(name, type, shape)
    return found


def _mismatch(name: str, type: Type, shape: Sequence[int]) -> UsageError:
    return UsageError(f"input {name!r} of the model is {type}, it can't have the shape {list(shape)}")


def assemble(inputs: Mapping[str, Input], leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments made of these tensors, which are in flat order: tensors, lists and None."""
    remaining = iter(leaves)
    return tuple(one.assemble(remaining) for one in inputs.values())


def create_inputs(inputs: Mapping[str, Input], new: Callable[[str, Type], Any]) -> tuple[list[Any], dict[str, Any]]:
    """The tensors of a program for these inputs, created by `new`, in flat order, and the imported values by name."""
    leaves = [new(name, type) for one in inputs.values() for name, type in (one.tensors or {}).items()]
    remaining = iter(leaves)
    return leaves, {name: one.to_value(remaining) for name, one in inputs.items()}
