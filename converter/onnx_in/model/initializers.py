"""The initializers of a model, which become parameters, buffers or constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ....runtime.errors import ConversionError
from ....runtime.ir.dims import SymbolicDim
from ....runtime.ir.types import Buffer, ProgramParameter, Type, is_floating
from ....runtime.ops import creation, shaping, slicing
from ....runtime.tracing import Builder, SymbolicTensor
from . import protos
from .origin import Origin
from .values import Imported, KnownTensor

# names that exporters generate for tensors that weren't parameters of the module
GENERATED_NAME = re.compile(
    r"/|(val|constant|const|scalar_tensor|onnx|_?\d+)([_:.]|\d|$)|.*_output_\d+$", re.IGNORECASE
)


class Initializers:
    """Turns known tensors into tensors of the program: initializers that are used as data become parameters."""

    def __init__(self, folder: Path | None, origin: Origin | None) -> None:
        """`origin` has the kinds of tensors by name; all others are constants."""
        self.folder = folder
        self.original_kinds: Mapping[str, str] | None = origin.kinds if origin else None
        self.transposed = origin.transposed if origin else {}
        self.parameters: dict[str, ProgramParameter] = {}
        self.buffers: dict[str, Buffer] = {}
        self.kinds: dict[str, str] = {}
        self._tensors: dict[Builder, dict[int, tuple[Any, SymbolicTensor]]] = {}
        self._enclosing: dict[Builder, Builder] = {}

    def enter(self, builder: Builder, enclosing: Builder | None = None) -> None:
        """Register a program under construction, in which each tensor is created once.

        If it is a sub-program, `enclosing` is the builder of the program enclosing it. Tensors of that program are
        captured: each becomes an input of the sub-program, listed by `captures`.
        """
        self._tensors[builder] = {}
        if enclosing is not None:
            self._enclosing[builder] = enclosing

    def captures(self, builder: Builder) -> list[tuple[SymbolicTensor, SymbolicTensor]]:
        """The captured tensors of a sub-program: pairs of a tensor of the enclosing program and its input."""
        return [
            (value, tensor)
            for value, tensor in self._tensors[builder].values()
            if isinstance(value, SymbolicTensor) and value.builder is not builder
        ]

    def initializer(self, tensor: onnx.TensorProto) -> KnownTensor:
        """An initializer as a known tensor."""
        array = protos.array_of(tensor, self.folder, f"initializer {tensor.name!r}")
        return self._add(array, tensor.name)

    def sparse_initializer(self, tensor: onnx.SparseTensorProto) -> KnownTensor:
        """A sparse initializer as a known tensor."""
        name = tensor.values.name
        return self._add(protos.to_dense(tensor, self.folder, f"initializer {name!r}"), name)

    def _add(self, array: np.ndarray[Any, Any], name: str) -> KnownTensor:
        if self.original_kinds is not None:
            self.kinds[name] = self.original_kinds.get(name, "constant")
        else:
            scalar = array.ndim == 0 and GENERATED_NAME.match(name) is not None
            self.kinds[name] = "parameter" if is_floating(array.dtype) and not scalar else "constant"
        return KnownTensor(array, array.dtype, name)

    def is_state(self, value: KnownTensor) -> bool:
        """Whether the tensor is a parameter or buffer, so that it must not be folded."""
        return self.kinds.get(value.name, "constant") != "constant"

    def tensor(self, builder: Builder, value: Imported, *, state: bool = False) -> SymbolicTensor:
        """Convert a value to a tensor of the program under construction; with `state`, a parameter becomes a buffer."""
        if isinstance(value, SymbolicTensor) and value.builder is builder:
            return value
        if not isinstance(value, SymbolicTensor | KnownTensor):
            kind = "nothing" if value is None else f"a {type(value).__name__.lower()}"
            raise ConversionError(f"needed a tensor, given {kind}")
        enclosing = self._enclosing.get(builder)
        if enclosing is not None and (isinstance(value, SymbolicTensor) or self.is_state(value)):
            value = self.tensor(enclosing, value, state=state)
            key = id(value.value)
            if key not in self._tensors[builder]:
                self._tensors[builder][key] = value, builder.new_value("captured", value.value.type)
            return self._tensors[builder][key][1]
        assert isinstance(value, KnownTensor), "only tensors of enclosing programs are captured"
        if builder not in self._tensors:  # a builder for constant folding
            return self._tensor(builder, value, state)
        tensors = self._tensors[builder]
        if id(value) not in tensors:
            tensors[id(value)] = value, self._tensor(builder, value, state)
        return tensors[id(value)][1]

    def _tensor(self, builder: Builder, value: KnownTensor, state: bool) -> SymbolicTensor:
        if value.symbolic:
            return _size_tensor(builder, value)
        kind = self.kinds.get(value.name, "constant")
        if kind == "constant":
            return builder.constant(value.data, value.dtype)
        if value.name in self.transposed:
            return self._transposed(builder, value)
        if kind == "buffer" or state:
            buffer = builder.new_value(value.name, Type(value.dtype, value.shape))
            self.buffers[value.name] = Buffer(buffer.value, value.data)
            return buffer
        return self._parameter(builder, value.name, value.data, kind)

    def _parameter(self, builder: Builder, name: str, data: np.ndarray[Any, Any], kind: str) -> SymbolicTensor:
        if name not in self.parameters:
            parameter = builder.new_value(name, Type(data.dtype, data.shape))
            self.parameters[name] = ProgramParameter(parameter.value, data, kind != "frozen")
        return SymbolicTensor(builder, self.parameters[name].value)

    def _transposed(self, builder: Builder, value: KnownTensor) -> SymbolicTensor:
        """The transpose of a parameter, for a tensor that is stored with the parameter's axes permuted."""
        name, order = self.transposed[value.name]
        if sorted(order) != list(range(value.ndim)):
            raise ConversionError(f"the model's metadata says that {value.name!r} is {name!r} transposed by {order}")
        parameter = self._parameter(builder, name, np.transpose(value.data, np.argsort(order)), self.kinds[value.name])
        result: SymbolicTensor = shaping.transpose(parameter, permutation=order)
        return result


def _size_tensor(builder: Builder, value: KnownTensor) -> SymbolicTensor:
    """Symbolic sizes as a tensor that the program computes."""
    parts: list[SymbolicTensor] = []
    fixed: list[Any] = []

    def flush() -> None:
        if fixed:
            parts.append(builder.constant(np.array(fixed, value.dtype)))
            fixed.clear()

    for item in value.data.reshape(-1).tolist():
        if isinstance(item, SymbolicDim):
            flush()
            parts.append(builder.create(creation.full, shape=(1,), value=item, dtype=value.dtype))
        else:
            fixed.append(item)
    flush()
    flat = parts[0] if len(parts) == 1 else slicing.concat(*parts, axis=0)
    result: SymbolicTensor = flat if value.ndim == 1 else shaping.reshape(flat, shape=value.shape)
    return result
