"""Parameters, buffers and constants of a module in the program under construction."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.errors import ConversionError
from ...runtime.ir.dims import Dim
from ...runtime.ir.types import Buffer, Constant, ProgramParameter, Type
from ...runtime.ops.complex_numbers import Complex
from ...runtime.programs.call import as_array
from ...runtime.tracing import Builder, SymbolicTensor
from ..dtypes import numpy_dtype
from ..structure.program_names import named_buffers, named_parameters
from ..unsupported import Unsupported
from .tables.table import cast


class State:
    """Parameters, buffers and constants of a module as values of a program; a shared tensor is one value.

    With `copy`, the program has a copy of the parameters, else it reads the module's.
    """

    def __init__(self, module: torch.nn.Module, builder: Builder, *, copy: bool) -> None:
        self.builder = builder
        self.parameters: dict[str, ProgramParameter] = {}
        self.buffers: dict[str, Buffer] = {}
        self.canonical: dict[int, str] = {}
        self.module_buffers = dict(module.named_buffers(remove_duplicate=False))
        self.all_parameters = dict(module.named_parameters(remove_duplicate=False))
        names: dict[int, list[str]] = {}
        for name, parameter in named_parameters(module, remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        for name, parameter in named_parameters(module):
            self.canonical[id(parameter)] = name
            aliases = tuple(other for other in names[id(parameter)] if other != name)
            value, data = self._value(name, parameter).value, as_array(parameter)
            if copy:
                data = data.copy()
            else:
                data.flags.writeable = False
            self.parameters[name] = ProgramParameter(value, data, parameter.requires_grad, aliases)
        for name, buffer in named_buffers(module):
            self.canonical[id(buffer)] = name
            traced = self._value(name, buffer)
            self.buffers[name] = Buffer(traced.value, as_array(buffer).copy())

    def _value(self, name: str, tensor: torch.Tensor) -> SymbolicTensor:
        return self.builder.new_value(name, tensor_type(tensor, name, tuple(tensor.shape)))

    def parameter(self, target: str) -> SymbolicTensor | Complex:
        """The parameter of that name, which may be one of several names."""
        tensor = self.all_parameters[target]
        return as_numbers(SymbolicTensor(self.builder, self.parameters[self.canonical[id(tensor)]].value), tensor)

    def buffer(self, target: str) -> SymbolicTensor | Complex:
        """The buffer of that name, as it was before the call."""
        buffer = self.buffers[self._buffer_name(target)]
        return as_numbers(SymbolicTensor(self.builder, buffer.value), self.module_buffers[target])

    def _buffer_name(self, target: str) -> str:
        return self.canonical[id(self.module_buffers[target])]

    def constant(self, target: str, data: Any) -> SymbolicTensor | Complex:
        """A tensor that the model created or holds outside of its parameters and buffers."""
        traced = self._value(target, data)
        self.builder.constants.append(Constant(traced.value, as_array(data).copy()))
        return as_numbers(traced, data)

    def update(self, target: str, value: Any) -> None:
        """Set the value of a buffer after the call."""
        if isinstance(value, Complex):
            value = value.pair()
        name = self._buffer_name(target)
        before = self.buffers[name]
        # torch infers wider running statistics for half precision than the buffer that it copies them to
        self.buffers[name] = Buffer(before.value, before.data, cast(value, before.value.dtype).value)


def tensor_type(tensor: torch.Tensor, name: str, shape: tuple[Dim, ...]) -> Type:
    """The type of the value that stands for a tensor: complex numbers are pairs of reals."""
    try:
        dtype = numpy_dtype(tensor.dtype)
    except Unsupported as reason:
        raise ConversionError(f"tensor {name!r}: {reason} can't be converted") from None
    return Type(dtype, (*shape, 2) if tensor.is_complex() else shape)


def as_numbers(traced: SymbolicTensor, tensor: torch.Tensor) -> SymbolicTensor | Complex:
    """A tensor's value as translations take it: a pair of reals for complex numbers."""
    return Complex.from_pair(traced) if tensor.is_complex() else traced
