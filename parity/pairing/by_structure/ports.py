"""Networks that can be given other weights for a while: torch modules, Cells of the runtime, networks in JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch

from ....converter.structure.program_names import named_buffers, named_parameters
from ....runtime.common.tensor import Tensor
from ....runtime.ir.program import Program
from ....runtime.nn.cell import Cell
from ...sides.kinds import Kind
from ...sides.opening import kind_of
from ...sides.port_program import trace_port
from ...sides.records import Array
from ...sides.torch_program import capture_program


class Port(Protocol):
    """A network that can be given other weights.

    Attributes:
        parameters: names of its parameters, each once.
        shapes: shapes of all tensors by name, those of tied ones by each of their names.
        tied: the names of each tied parameter, by any of them.
    """

    parameters: list[str]
    shapes: dict[str, tuple[int, ...]]
    tied: dict[str, list[str]]

    def capture(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        """Return its program in float32; raise `CellbridgeError` if it can't be captured."""

    def given(self, arrays: Mapping[str, Array]) -> contextlib.AbstractContextManager[Any]:
        """Within the context, the network that it yields has these tensors; afterwards it has its own again."""


class ModulePort:
    """A torch module."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.parameters = [name for name, _ in named_parameters(module)]
        self.tied = names_of_tied(module)
        self._tensors = tensors_of(module)
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def capture(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        """Return its program in float32."""
        return capture_program(self.module, args, dict(kwargs), None, "float32", False, copy=False)

    @contextlib.contextmanager
    def given(self, arrays: Mapping[str, Array]) -> Iterator[Any]:
        """Within the context, the network has these tensors; afterwards its own again."""
        before = {name: self._tensors[name].detach().clone() for name in arrays}
        try:
            self._copy({name: torch.as_tensor(array) for name, array in arrays.items()})
            yield self.module
        finally:
            self._copy(before)

    def _copy(self, values: Mapping[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, value in values.items():
                self._tensors[name].copy_(value)


class CellPort:
    """A Cell of the runtime. Its shared Parameters have one name."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self._by_name = dict(cell.parameters_and_names())
        self.parameters = [name for name, parameter in self._by_name.items() if parameter.requires_grad]
        self.shapes = {name: tuple(parameter.shape) for name, parameter in self._by_name.items()}
        self.tied: dict[str, list[str]] = {}

    def capture(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        """Return its program in float32, with its Parameters by path."""
        traced = trace_port(self.cell, args, kwargs, "float32")
        paths = {id(parameter): name for name, parameter in self._by_name.items()}
        names = {name: paths.get(id(parameter), name) for name, parameter in traced.parameters.items()}
        program = traced.program
        return program.replace(
            parameters={names.get(name, name): item for name, item in program.parameters.items()},
            buffers={names.get(name, name): item for name, item in program.buffers.items()},
        )

    @contextlib.contextmanager
    def given(self, arrays: Mapping[str, Array]) -> Iterator[Any]:
        """Within the context, the network has these tensors; afterwards its own again."""
        before = {name: self._by_name[name].asnumpy().copy() for name in arrays}
        try:
            self._set(arrays)
            yield self.cell
        finally:
            self._set(before)

    def _set(self, arrays: Mapping[str, Array]) -> None:
        for name, array in arrays.items():
            self._by_name[name].set_data(Tensor(array))


def port_of(network: Any) -> Port | None:
    """Return a network as one that can be given other weights; None if it can't.

    Raises:
        UsageError: it is a network in JAX, which isn't installed.
    """
    kind = kind_of(network)
    if kind is Kind.MODULE:
        return ModulePort(network)
    if kind is Kind.JAX:
        from .jax_ports import JaxPort

        return JaxPort(network)
    return CellPort(network) if isinstance(network, Cell) else None


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a module by name, tied ones by each of their names."""
    return {**dict(named_buffers(module)), **dict(named_parameters(module, remove_duplicate=False))}


def names_of_tied(module: torch.nn.Module) -> dict[str, list[str]]:
    """Return the names of each tied parameter, by any of them."""
    by_tensor: dict[int, list[str]] = {}
    for name, parameter in named_parameters(module, remove_duplicate=False):
        by_tensor.setdefault(id(parameter), []).append(name)
    return {name: names for names in by_tensor.values() for name in names}
