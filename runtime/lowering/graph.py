"""`Graph`: the ONNX nodes, constants and types that the `onnx` rules of ops emit."""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..ir.dims import Dim, symbols_in
from ..ir.types import BFLOAT16, Type, as_dtype
from ..namespace import Namespace
from ..visible import encodable_name
from . import opset17
from .deferred import DeferredTensor
from .onnx_node import OnnxNode
from .opsets import NewerOpset, require_bfloat16, require_dtype, require_operator
from .sizes import Sizes

Array = np.ndarray[Any, Any]

CELL = "cellbridge.cell"  # node metadata: the Cell call that it belongs to, `layer1.0`, or `head@1` for a second call
SOURCE = "cellbridge.source"  # node metadata: file, line and text of its origin
CONSTANT = "constant"  # the name of tensors that belong to no parameter
SHARED_SIZE = 64  # equal constants of at most this many elements are shared


class Graph:
    """The nodes and tensors emitted so far; op rules get its subclass `nodes.ProgramGraph`.

    Attributes:
        opset: version of the standard operator set.
        ceiling: the newest version that may be chosen to keep an operator whole; None if `opset` is fixed.
        nodes: in order of computation.
        initializers: data by tensor name.
        sources: by tensor name, the names of the parameters and buffers from which alone a tensor is computed; a
            parameter or buffer is its own source.
        transposed: by tensor name, the parameter that a tensor is a transpose of, and the order of the axes.
        types: types of inputs, initializers and results of ops, by tensor name.
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
        """Within the context, new nodes belong to the Cell call `cell` (empty for the root) and come from `source`."""
        before = self._prefix, self._metadata
        self._prefix = "/" + cell.replace(".", "/") if cell else ""
        self._metadata = {key: encodable_name(text) for key, text in ((CELL, cell), (SOURCE, source)) if text}
        try:
            yield
        finally:
            self._prefix, self._metadata = before

    @contextlib.contextmanager
    def at_node(self, node: OnnxNode) -> Iterator[None]:
        """Within the context, new nodes belong to the Cell call of `node`, and have its source."""
        before = self._prefix, self._metadata
        self._prefix, self._metadata = node.name.rpartition("/")[0], node.metadata
        try:
            yield
        finally:
            self._prefix, self._metadata = before

    @property
    def cell(self) -> str:
        """The label of the Cell call that new nodes belong to."""
        return self._metadata.get(CELL, "")

    @property
    def source(self) -> str:
        """The source line of new nodes."""
        return self._metadata.get(SOURCE, "")

    def within(self) -> Self:
        """Return a graph nested in this one, with access to its tensors and sizes and with the same unique names."""
        inner = copy.copy(self)
        inner.nodes = []
        inner.sizes = self.sizes.within(inner)
        return inner

    def define(self, name: str, type: Type) -> str:
        """Define a tensor that no node computes (an input or initializer); return its name, numbered if taken."""
        require_dtype(type.dtype.name, self.opset)
        tensor = self.unique(name)
        self.types[tensor] = type
        return tensor

    def at_root(self) -> contextlib.AbstractContextManager[None]:
        """Within the context, new nodes belong to no Cell but the root, and to no source line."""
        return self.at("", "")

    def unique(self, stem: str) -> str:
        """Return a name that isn't taken yet: `stem`, or `stem` with a number."""
        return self._names.unique(encodable_name(stem))

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node of the standard domain; return its output name, or a tuple of names if `outputs` is above 1."""
        name = self.unique(f"{self._prefix}/{op_type}")
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        results = tuple(f"{name}_output_{i}" for i in range(outputs))
        defined = {key: value for key, value in attributes.items() if value is not None}
        require_operator(op_type, self.opset)
        for value in defined.values():
            if isinstance(value, np.dtype):
                require_dtype(value.name, self.opset)
        for index, tensor in enumerate(inputs):
            if tensor in self.types and self.types[tensor].dtype == BFLOAT16:
                require_bfloat16(op_type, index, self.opset)
        if self.opset == 17:
            inputs, defined = opset17.to_opset17(op_type, inputs, defined, self.initializers)
        self.nodes.append(OnnxNode(op_type, name, inputs, results, defined, self._metadata))
        return results[0] if outputs == 1 else results

    def has(self, op_type: str, version: int) -> bool:
        """Whether the opset has an operator that was added in opset `version`; see `OnnxGraph`."""
        if self.ceiling is not None and self.opset < version <= self.ceiling:
            raise NewerOpset(version, op_type)
        return self.opset >= version

    def note(self, key: str, text: str) -> None:
        """Add metadata to the last node."""
        last = self.nodes[-1]
        self.nodes[-1] = replace(last, metadata=last.metadata | {key: text})

    def constant(self, data: Any, dtype: Any = None) -> str:
        """Return the name of a constant tensor; small equal ones are shared."""
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
        """Return the name of an int64 vector of these sizes; symbolic ones are computed at run time."""
        return self.sizes.vector(dims)

    def read_sizes(self, tensor: str, symbols: tuple[str, ...]) -> None:
        """Bind these symbols to the elements of an integer tensor."""
        self.sizes.read(tensor, symbols)

    def depend_on_data(self, dims: tuple[Dim, ...]) -> bool:
        """Whether one of these sizes depends on a size that a node determines at run time."""
        return not symbols_in(dims).isdisjoint(self.sizes.data_dependent)

    def type(self, name: str) -> Type:
        """Return dtype and shape of an operand of the op being lowered, of a constant, or of a cast of either."""
        return self.types[name]

    def cast(self, name: str, dtype: Any) -> str:
        """Return the tensor cast to a dtype; itself if it is known to have that dtype already."""
        target = as_dtype(dtype)
        known_type = self.types.get(name)
        if known_type is not None and known_type.dtype == target:
            return name
        result: str = self.op("Cast", name, to=target)
        if known_type is not None:
            self.types[result] = known_type.with_dtype(target)
        return result

    def constant_value(self, name: str) -> Array | None:
        """Return the data of a tensor that is stored in the model; None for one that is computed or an input."""
        data = self.initializers.get(name)
        return data if isinstance(data, np.ndarray) else None

    def replace(self, names: Mapping[str, str]) -> None:
        """Replace the tensors that are keys of `names` by the corresponding values."""
        if names:
            self.nodes = [node.with_inputs(names) for node in self.nodes]
            self._replacements |= names

    def current(self, name: str) -> str:
        """Return the tensor that has replaced a tensor; itself if none has."""
        while name in self._replacements:
            name = self._replacements[name]
        return name

    def uses(self) -> Counter[str]:
        """Count how often nodes use each tensor."""
        return Counter(
            name for node in self.nodes for name in (*node.inputs, *(node.used_tensors() - set(node.inputs)))
        )
