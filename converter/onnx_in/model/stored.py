"""The stored tensors of a model: which become parameters, which buffers, and which constants."""

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
from .values import Imported, Known

# names that exporters make up for tensors that were no parameter of the module
MADE_UP = re.compile(r"/|(val|constant|const|scalar_tensor|onnx|_?\d+)([_:.]|\d|$)|.*_output_\d+$", re.IGNORECASE)


class Stored:
    """Turns known contents into tensors of the program: initializers that are used as data become parameters."""

    def __init__(self, folder: Path | None, origin: Origin | None) -> None:
        """`origin` says of tensors by name what they are, and that all others are constants."""
        self.folder = folder
        self.told: Mapping[str, str] | None = origin.kinds if origin else None
        self.transposed = origin.transposed if origin else {}
        self.parameters: dict[str, ProgramParameter] = {}
        self.buffers: dict[str, Buffer] = {}
        self.kinds: dict[str, str] = {}
        self._made: dict[Builder, dict[int, tuple[Any, SymbolicTensor]]] = {}
        self._around: dict[Builder, Builder] = {}

    def enter(self, builder: Builder, around: Builder | None = None) -> None:
        """Let tensors be made in a program under construction, once each.

        If it is a sub-program of that of the builder `around`, what comes from there is captured: an input is made for
        it. `captured` lists them.
        """
        self._made[builder] = {}
        if around is not None:
            self._around[builder] = around

    def captured(self, builder: Builder) -> list[tuple[SymbolicTensor, SymbolicTensor]]:
        """What a sub-program has captured: the tensor in the program around it, and the input made for it."""
        return [
            (value, made)
            for value, made in self._made[builder].values()
            if isinstance(value, SymbolicTensor) and value.builder is not builder
        ]

    def initializer(self, tensor: onnx.TensorProto) -> Known:
        """The contents of an initializer."""
        array = protos.array_of(tensor, self.folder, f"initializer {tensor.name!r}")
        return self._named(array, tensor.name)

    def sparse(self, tensor: onnx.SparseTensorProto) -> Known:
        """The contents of a sparse initializer."""
        name = tensor.values.name
        return self._named(protos.dense(tensor, self.folder, f"initializer {name!r}"), name)

    def _named(self, array: np.ndarray[Any, Any], name: str) -> Known:
        if self.told is not None:
            self.kinds[name] = self.told.get(name, "constant")
        else:
            scalar = array.ndim == 0 and MADE_UP.match(name) is not None
            self.kinds[name] = "parameter" if is_floating(array.dtype) and not scalar else "constant"
        return Known(array, array.dtype, name)

    def trains(self, value: Known) -> bool:
        """Whether the contents are those of a parameter or buffer, which must not be folded."""
        return self.kinds.get(value.name, "constant") != "constant"

    def tensor(self, builder: Builder, value: Imported, *, state: bool = False) -> SymbolicTensor:
        """A value as a tensor of the program that `builder` builds; a parameter as a buffer if it is `state`."""
        if isinstance(value, SymbolicTensor) and value.builder is builder:
            return value
        if not isinstance(value, SymbolicTensor | Known):
            kind = "nothing" if value is None else f"a {type(value).__name__.lower()}"
            raise ConversionError(f"needed a tensor, given {kind}")
        around = self._around.get(builder)
        if around is not None and (isinstance(value, SymbolicTensor) or self.trains(value)):
            value = self.tensor(around, value, state=state)
            key = id(value.value)
            if key not in self._made[builder]:
                self._made[builder][key] = value, builder.new_value("captured", value.value.type)
            return self._made[builder][key][1]
        assert isinstance(value, Known), "a tensor of another program is captured"
        if builder not in self._made:  # of what is computed on import
            return self._tensor(builder, value, state)
        made = self._made[builder]
        if id(value) not in made:
            made[id(value)] = value, self._tensor(builder, value, state)
        return made[id(value)][1]

    def _tensor(self, builder: Builder, value: Known, state: bool) -> SymbolicTensor:
        if value.symbolic:
            return _sizes(builder, value)
        kind = self.kinds.get(value.name, "constant")
        if kind == "constant":
            return builder.constant(value.data, value.dtype)
        if value.name in self.transposed:
            return self._transposed(builder, value)
        if kind == "buffer" or state:
            made = builder.new_value(value.name, Type(value.dtype, value.shape))
            self.buffers[value.name] = Buffer(made.value, value.data)
            return made
        return self._parameter(builder, value.name, value.data, kind)

    def _parameter(self, builder: Builder, name: str, data: np.ndarray[Any, Any], kind: str) -> SymbolicTensor:
        if name not in self.parameters:
            made = builder.new_value(name, Type(data.dtype, data.shape))
            self.parameters[name] = ProgramParameter(made.value, data, kind != "frozen")
        return SymbolicTensor(builder, self.parameters[name].value)

    def _transposed(self, builder: Builder, value: Known) -> SymbolicTensor:
        """A parameter that is stored with its axes in another order, brought into that order again."""
        name, order = self.transposed[value.name]
        if sorted(order) != list(range(value.ndim)):
            raise ConversionError(f"the model's metadata say that {value.name!r} is {name!r} transposed by {order}")
        parameter = self._parameter(builder, name, np.transpose(value.data, np.argsort(order)), self.kinds[value.name])
        result: SymbolicTensor = shaping.transpose(parameter, permutation=order)
        return result


def _sizes(builder: Builder, value: Known) -> SymbolicTensor:
    """Symbolic sizes as a tensor that is computed when the program runs."""
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
