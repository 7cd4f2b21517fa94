"""Reads tensors, attributes and types from protobuf messages. External data is read from the model's folder only."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, TensorProto, TypeProto

from ....runtime.errors import ConversionError
from ....runtime.ir.dim_parser import parse
from ....runtime.ir.dims import Dim, SymbolicDim, substitute, symbol
from ....runtime.ir.types import MAX_RANK, Type
from ....runtime.memory import check_memory
from ....runtime.namespace import Namespace
from .written import written_number

Array = np.ndarray[Any, Any]

MAX_SPARSITY = 1000  # a sparse tensor is stored dense if it has at most this many elements per non-zero element ...
SMALL = 2**20  # ... or at most this many elements in total
MAX_NAME_LENGTH = 1000  # characters of the name of a dimension
MAX_WORK = 3 * 10**6  # limit for the sum, over all expressions in dimensions, of characters times operators


class NonNumericTensor(ConversionError):
    """A tensor has elements that a program can't have: strings or complex numbers."""


def dtype_of(element_type: int, where: str) -> np.dtype[Any]:
    """The NumPy dtype of an ONNX element type; raises `ConversionError` for strings, complex and unknown types."""
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
    except (KeyError, TypeError, ValueError):
        raise ConversionError(f"{where}: {element_type} isn't an ONNX element type") from None
    if dtype.kind in "OSUTc":
        name = TensorProto.DataType.Name(element_type).lower()
        raise NonNumericTensor(f"{where}: tensors of {name} aren't supported")
    return dtype


def array_of(tensor: TensorProto, folder: Path | None, where: str) -> Array:
    """The data of a tensor; external data is read from `folder` only.

    Raises:
        ConversionError: the data doesn't fit dtype and shape, or its file is outside the folder or can't be read.
    """
    dtype = dtype_of(tensor.data_type, where)
    if any(dim < 0 for dim in tensor.dims):
        raise ConversionError(f"{where}: shape {list(tensor.dims)} has negative sizes")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, dtype, folder, where)
    try:
        array: Array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConversionError(f"{where}: its data doesn't fit {dtype.name}{list(tensor.dims)}: {error}") from None
    return array


def _external(tensor: TensorProto, dtype: np.dtype[Any], folder: Path | None, where: str) -> Array:
    """Data in a file beside the model. It is read, not mapped: truncating a mapped file would crash the process."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    require_text(*entries.values())
    if folder is None:
        raise ConversionError(f"{where} has external data: give the path of the model rather than its proto")
    root = folder.resolve()
    try:
        path = (root / entries.get("location", "")).resolve()
        is_readable = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name that is too long, a null byte, a cycle of links
        is_readable = False
    if not is_readable:
        location = entries.get("location", "")[:200]
        raise ConversionError(f"{where}: its data {location!r} is no file in the folder of the model")
    offset = _number(entries.get("offset", "0"), "offset", where)
    count = math.prod(tensor.dims)
    size = (count * onnx_bits(tensor.data_type, dtype) + 7) // 8
    length = _number(entries.get("length", str(size)), "length", where)
    if length != size:
        raise ConversionError(
            f"{where}: {dtype.name}{list(tensor.dims)} takes {size} bytes, but its external data has length {length}"
        )
    if offset + size > path.stat().st_size:
        raise ConversionError(
            f"{where}: needs {size} bytes at offset {offset}, but {path.name} has {path.stat().st_size}"
        )
    if not count:
        return np.zeros(tuple(tensor.dims), dtype)
    check_memory((size,), np.dtype(np.uint8))  # a sparse file may be larger than the disk
    try:
        raw = np.fromfile(path, np.uint8, size, offset=offset)
    except OSError as error:
        raise ConversionError(f"{where}: its data can't be read from {path.name}: {error.strerror}") from None
    if raw.size < size:
        raise ConversionError(
            f"{where}: needs {size} bytes at offset {offset}, but {path.name} was cut off while it was read"
        )
    if onnx_bits(tensor.data_type, dtype) == 8 * dtype.itemsize:
        return raw.view(dtype).reshape(tuple(tensor.dims))
    inline = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=raw.tobytes())
    return onnx.numpy_helper.to_array(inline)


def _number(text: str, key: str, where: str) -> int:
    if not re.fullmatch("[0-9]{1,20}", text):
        raise ConversionError(f"{where}: the {key} of its external data must be a number of bytes, given {text[:40]!r}")
    return int(text)


_SMALL: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4}
_SMALL |= {getattr(TensorProto, name): 2 for name in ("INT2", "UINT2") if hasattr(TensorProto, name)}


def onnx_bits(element_type: int, dtype: np.dtype[Any]) -> int:
    """The number of bits of an element in a file."""
    return _SMALL.get(element_type, 8 * dtype.itemsize)


def to_dense(sparse: onnx.SparseTensorProto, folder: Path | None, where: str) -> Array:
    """A sparse tensor as a dense array."""
    shape = tuple(sparse.dims)
    values, indices = array_of(sparse.values, folder, where), array_of(sparse.indices, folder, where)
    if not shape or any(dim < 0 for dim in shape) or math.prod(shape) > max(SMALL, MAX_SPARSITY * values.size):
        raise ConversionError(
            f"{where}: a sparse tensor of shape {list(shape)} with {values.size} values "
            "is too large to store as a dense one"
        )
    count = values.size
    if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in ((count,), (count, len(shape))):
        raise ConversionError(
            f"{where}: a sparse tensor needs a vector of values and int64 indices of shape {[count]} or "
            f"{[count, len(shape)]}, given {values.dtype.name}{list(values.shape)} and "
            f"{indices.dtype.name}{list(indices.shape)}"
        )
    limits = np.array(shape if indices.ndim == 2 else [math.prod(shape)])
    columns = indices.reshape(len(indices), -1)
    wrong = ((columns < 0) | (columns >= limits)).any(axis=1)
    if wrong.any():
        index = columns[wrong][0].tolist()
        raise ConversionError(f"{where}: the sparse tensor of shape {list(shape)} has no element {index}")
    result = np.zeros(shape, values.dtype)
    if indices.ndim == 2:
        result[tuple(indices.T)] = values
    else:
        result.reshape(-1)[indices] = values
    return result


def resolve_reference(proto: AttributeProto, attributes: Mapping[str, AttributeProto] | None) -> AttributeProto | None:
    """The attribute itself, or the one that it refers to.

    Args:
        proto: the attribute.
        given: attributes of the enclosing function call, to which `proto` may refer.

    Returns:
        The attribute; None for a reference to an attribute that the call doesn't set.
    """
    if not proto.ref_attr_name:
        return proto
    if attributes is None or proto.ref_attr_name not in attributes:
        return None
    return attributes[proto.ref_attr_name]


def attribute(proto: AttributeProto, where: str) -> Any:
    """The value of an attribute: strings decoded, tensors and graphs as protos."""
    match proto.type:
        case AttributeProto.FLOAT:
            return written_number(proto.f)
        case AttributeProto.INT:
            return proto.i
        case AttributeProto.STRING:
            return _text(proto.s, where)
        case AttributeProto.TENSOR:
            return proto.t
        case AttributeProto.GRAPH:
            return proto.g
        case AttributeProto.FLOATS:
            return [written_number(number) for number in proto.floats]
        case AttributeProto.INTS:
            return list(proto.ints)
        case AttributeProto.STRINGS:
            return [_text(s, where) for s in proto.strings]
        case AttributeProto.TENSORS:
            return list(proto.tensors)
        case AttributeProto.SPARSE_TENSOR:
            return proto.sparse_tensor
        case AttributeProto.TYPE_PROTO:
            return proto.tp
    raise ConversionError(f"{where}: attribute {proto.name!r} has a type that isn't supported")


def require_text(*texts: Any) -> None:
    """Raise `ConversionError` if one of these string fields isn't UTF-8: protobuf returns bytes for such a field."""
    for text in texts:
        if not isinstance(text, str):
            raise ConversionError(f"the name or text {text[:40]!r} isn't UTF-8")


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConversionError(f"{where}: the string {data[:40]!r} isn't UTF-8") from None


def graphs_of(graph: GraphProto) -> list[GraphProto]:
    """The graph and all its sub-graphs."""
    graphs = [graph]
    for current in graphs:
        for node in current.node:
            for item in node.attribute:
                graphs += [item.g] if item.HasField("g") else []
                graphs += item.graphs
    return graphs


class Symbols:
    """Symbolic sizes by their names in the model. Names become identifiers; different names stay different.

    Attributes:
        sizes: known values of symbols, such as those of an input whose shape was given.
        opaque: symbols that replace expressions whose own symbols can't be solved from the shapes.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, Dim] = {}
        self.opaque: dict[Dim, SymbolicDim] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._given = Namespace(first=2)
        self._parsed: dict[str, Dim] = {}
        self._work = 0

    def dim(self, proto: onnx.TensorShapeProto.Dimension, unnamed: str) -> Dim:
        """A declared dimension.

        It is called `unnamed` if its size is -1, if it has neither value nor name, or if its name means nothing:
        exporters write "?", "-1" or "None" for several open dimensions.
        """
        dim = self._declared_dim(proto, unnamed)
        try:
            return substitute(self.opaque.get(dim, dim), self.sizes)
        except ZeroDivisionError:
            raise ConversionError(
                f"dimension {unnamed!r}: its size {dim} is a division by 0 for the given sizes"
            ) from None

    def name_unsolved_dims(self, inputs: Iterable[Type]) -> None:
        """Replace each dimension of the inputs whose symbols the input shapes don't determine by a new symbol.

        In ONNX, `N//2` or `N%s` is only a name, and there may be no dimension of size `N`.
        """
        dims = [dim for declared in inputs for dim in declared.shape if isinstance(dim, SymbolicDim)]
        symbols = {solved[0] for dim in dims if (solved := dim.solve(0))}
        for dim in dims:
            if not dim.symbols() <= symbols:
                self.opaque[dim] = self._symbol(str(dim))

    def _declared_dim(self, proto: onnx.TensorShapeProto.Dimension, unnamed: str) -> Dim:
        if proto.HasField("dim_value") and proto.dim_value != -1:
            if proto.dim_value < 0:
                raise ConversionError(f"dimension {unnamed!r} has the size {proto.dim_value}")
            return int(proto.dim_value)
        require_text(proto.dim_param)
        if _MEANINGLESS.fullmatch(proto.dim_param):
            return self._symbol(unnamed, named=False)
        if len(proto.dim_param) > MAX_NAME_LENGTH:
            raise ConversionError(
                f"dimension {unnamed!r}: its name has {len(proto.dim_param)} characters; "
                f"at most {MAX_NAME_LENGTH} are supported"
            )
        if proto.dim_param not in self._parsed:
            self._parsed[proto.dim_param] = self._parse(proto.dim_param)
        return self._parsed[proto.dim_param]

    def _parse(self, text: str) -> Dim:
        """Parse a name or an expression, in time proportional to its length times its number of operators."""
        if text.isascii() and text.isidentifier():
            return self._symbol(text)
        self._work += len(text) * sum(map(text.count, "+-*/%,"))
        if self._work > MAX_WORK:
            raise ConversionError("the names of the model's dimensions have too many long expressions")
        try:
            dim = parse(text)
        except ValueError:
            return self._symbol(text)
        if isinstance(dim, int):
            return dim if text.strip().isdecimal() else self._symbol(text)
        return substitute(dim, {name: self._symbol(name) for name in dim.symbols()})

    def _symbol(self, text: str, *, named: bool = True) -> SymbolicDim:
        """The symbol of a name, or a new one for a dimension without a name."""
        if (text, named) not in self._names:
            self._names[text, named] = self._given.unique(symbol_name(text))
        return symbol(self._names[text, named])


_MEANINGLESS = re.compile(r"[^A-Za-z0-9]*|\s*-\s*\d+\s*|none", re.IGNORECASE)


def symbol_name(text: str) -> str:
    """`text` as the name of a symbol, valid in an expression of sizes."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{name}" if not name or name[0].isdigit() or keyword.iskeyword(name) else name


def declared_type(proto: TypeProto, name: str, symbols: Symbols, where: str) -> Type | None:
    """The type that a model declares for a tensor; None for another kind of value, or an open dtype or rank."""
    if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    if proto.tensor_type.elem_type == TensorProto.UNDEFINED:
        return None
    dims = proto.tensor_type.shape.dim
    if len(dims) > MAX_RANK:
        raise ConversionError(f"{where} has {len(dims)} dimensions; at most {MAX_RANK} are supported")
    shape = tuple(symbols.dim(dim, f"{name}_{i}") for i, dim in enumerate(dims))
    return Type(dtype_of(proto.tensor_type.elem_type, where), shape)
