"""`Graph`: the ONNX nodes, constants and types that the ops' `onnx` rules write."""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..ir.dims import Dim, symbols_in
from ..ir.types import Type, as_dtype
from ..namespace import Namespace
from ..visible import encodable_name
from . import opset17
from .deferred import DeferredTensor
from .onnx_node import OnnxNode
from .opsets import NewerOpset, require_operator
from .sizes import Sizes

Array = np.ndarray[Any, Any]

CELL = "cellbridge.cell"  # node metadata: the call of the Cell that it belongs to, `layer1.0`, or `head@1` for a second
SOURCE = "cellbridge.source"  # node metadata: file, line and text that it comes from
CONSTANT = "constant"  # what tensors are called that belong to no parameter
SHARED_SIZE = 64  # constants of up to so many elements are shared where they are equal


class Graph:
    """What is emitted so far; `nodes.ProgramGraph` is the one that op rules are given.

    Attributes:
        opset: version of the standard operator set.
        ceiling: up to which version it may rise so that an operator is kept whole; None where it may not.
        nodes: in order of computation.
        initializers: data by tensor name.
        sources: by tensor name, of parameters and buffers and of what is computed of them alone: their names.
        transposed: by tensor name, of parameters with their axes in another order: the name, and that order.
        types: by tensor name, of inputs, initializers and results of ops.
        sizes: the symbolic dimensions.
    """

    def __init__(self, opset: int, ceiling: int | None = None) -> None:
        self.opset = opset
        self.ceiling = ceiling
        self.nodes: list[OnnxNode] = []
        self.initializers: dict[str, Array | DeferredTensor] = {}
        self.sources: dict[str, tuple[str, ...]] = {}
        self.transposed: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.types: dict[str, Type] = {}
        self.sizes = Sizes(self)
        self._prefix = ""
        self._metadata: dict[str, str] = {}
        self._names = Namespace()
        self._shared_constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._replacements: dict[str, str] = {}

    @contextlib.contextmanager
    def at(self, cell: str, source: str) -> Iterator[None]:
        """Within the context, new nodes belong to a Cell's call `cell` (empty: the root) and come from `source`."""
        before = self._prefix, self._metadata
        self._prefix = "/" + cell.replace(".", "/") if cell else ""
        self._metadata = {key: encodable_name(text) for key, text in ((CELL, cell), (SOURCE, source)) if text}
        try:
            yield
        finally:
            self._prefix, self._metadata = before

    @contextlib.contextmanager
    def at_node(self, node: OnnxNode) -> Iterator[None]:
        """Within the context, new nodes belong where `node` does."""
        before = self._prefix, self._metadata
        self._prefix, self._metadata = node.name.rpartition("/")[0], node.metadata
        try:
            yield
        finally:
            self._prefix, self._metadata = before

    @property
    def cell(self) -> str:
        """The Cell call that new nodes belong to."""
        return self._metadata.get(CELL, "")

    @property
    def source(self) -> str:
        """Where new nodes come from."""
        return self._metadata.get(SOURCE, "")

    def within(self) -> Self:
        """A graph within this one: it knows this one's tensors and sizes, and shares names and constants with it."""
        inner = copy.copy(self)
        inner.nodes = []
        inner.sizes = self.sizes.within(inner)
        return inner

    def define(self, name: str, type: Type) -> str:
        """A tensor that no node computes: an input or initializer; its name, with a number if that is taken."""
        tensor = self.unique(name)
        self.types[tensor] = type
        return tensor

    def at_root(self) -> contextlib.AbstractContextManager[None]:
        """Within the context, new nodes belong to no Cell but the root, and to no source line."""
        return self.at("", "")

    def unique(self, stem: str) -> str:
        """A name that isn't taken yet: `stem`, or `stem` with a number."""
        return self._names.free(encodable_name(stem))

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node of the standard domain; its output name, or a tuple of names when `outputs` is above 1."""
        name = self.unique(f"{self._prefix}/{op_type}")
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        results = tuple(f"{name}_output_{i}" for i in range(outputs))
        given = {key: value for key, value in attributes.items() if value is not None}
        require_operator(op_type, self.opset)
        if self.opset == 17:
            inputs, given = opset17.to_opset17(op_type, inputs, given, self.initializers)
        self.nodes.append(OnnxNode(op_type, name, inputs, results, given, self._metadata))
        return results[0] if outputs == 1 else results

    def has(self, op_type: str, version: int) -> bool:
        """Whether the opset is of that version, the first that has an operator; see `OnnxGraph`."""
        if self.ceiling is not None and self.opset < version <= self.ceiling:
            raise NewerOpset(version, op_type)
        return self.opset >= version

    def note(self, key: str, text: str) -> None:
        """Add to the metadata of the node that was written last."""
        last = self.nodes[-1]
        self.nodes[-1] = replace(last, metadata=last.metadata | {key: text})

    def constant(self, data: Any, dtype: Any = None) -> str:
        """The name of a constant tensor; small equal ones are one."""
        array = np.asarray(data, None if dtype is None else as_dtype(dtype))
        if array.size > SHARED_SIZE:
            return self._new_constant(array)
        key = array.dtype.name, array.shape, array.tobytes()
        if key not in self._shared_constants:
            self._shared_constants[key] = self._new_constant(array)
        return self._shared_constants[key]

    def _new_constant(self, array: Array) -> str:
        name = self.unique(CONSTANT)
        self.initializers[name] = array
        self.types[name] = Type(array.dtype, array.shape)
        return name

    def dims(self, dims: tuple[Dim, ...]) -> str:
        """The name of an int64 vector with these sizes, computed at run time where they are symbolic."""
        return self.sizes.vector(dims)

    def read_sizes(self, tensor: str, symbols: tuple[str, ...]) -> None:
        """Let the elements of an integer tensor be the sizes that these symbols stand for."""
        self.sizes.read(tensor, symbols)

    def depend_on_data(self, dims: tuple[Dim, ...]) -> bool:
        """Whether a size among these is made of one that only a node of the program finds."""
        return not symbols_in(dims).isdisjoint(self.sizes.data_dependent)

    def type(self, name: str) -> Type:
        """Dtype and shape of an operand of the op being lowered, of a constant, or of a cast of either."""
        return self.types[name]

    def cast(self, name: str, dtype: Any) -> str:
        """The value cast to a dtype; itself if it is known to have that dtype already."""
        target = as_dtype(dtype)
        known = self.types.get(name)
        if known is not None and known.dtype == target:
            return name
        result: str = self.op("Cast", name, to=target)
        if known is not None:
            self.types[result] = known.with_dtype(target)
        return result

    def constant_value(self, name: str) -> Array | None:
        """The data of a tensor that is in the model; None for one that is computed or given."""
        data = self.initializers.get(name)
        return data if isinstance(data, np.ndarray) else None

    def replace(self, names: Mapping[str, str]) -> None:
        """Let other tensors, the values, take the place of the keys."""
        if names:
            self.nodes = [node.with_inputs(names) for node in self.nodes]
            self._replacements |= names

    def current(self, name: str) -> str:
        """The tensor that has taken the place of a tensor; itself if none has."""
        while name in self._replacements:
            name = self._replacements[name]
        return name

    def uses(self) -> Counter[str]:
        """How often nodes take each tensor."""
        return Counter(
            name for node in self.nodes for name in (*node.inputs, *(node.used_tensors() - set(node.inputs)))
        )
