"""`Context`: the first argument of a translation of an ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import SymbolicDim, symbol
from ....runtime.ir.types import Type
from ....runtime.onnx_functions import get_onnx_function
from ....runtime.ops import creation
from ....runtime.ops.higher_order.runtime_shaped import runtime_shaped
from ....runtime.tracing import Builder, SymbolicTensor
from ...unsupported import Unsupported
from ..model.subprograms import Draft
from ..model.values import Imported, KnownTensor


@dataclass(frozen=True)
class Context:
    """The context of a translation, besides its operands.

    Attributes:
        builder: the builder of the program under construction.
        opset: version of the operator's domain that the model (or function) imports.
        outputs: names of the outputs, empty for an omitted one.
        metadata: metadata of the node.
        folder: folder of external data; None if the model was given as a proto.
        declared: returns the types that the model declares or onnx infers for the outputs; None for unknown ones.
        tensor: converts an imported value to a tensor of the program.
        run: imports a sub-graph (the value of an attribute) on operands; returns its outputs.
        draft: imports a sub-graph as a sub-program with a name; each operand is a value, or the type of an input.
        choice: answers a yes-or-no question that only the rest of the model can settle; see `Choices`.
    """

    builder: Builder
    opset: int
    outputs: tuple[str, ...]
    metadata: Mapping[str, str]
    folder: Path | None
    declared: Callable[[], tuple[Type | None, ...]]
    tensor: Callable[[Imported], SymbolicTensor]
    run: Callable[[GraphProto, tuple[Imported, ...]], tuple[Any, ...]]
    draft: Callable[[GraphProto, tuple[Type | Imported, ...], str], Draft]
    choice: Callable[[], bool]

    def new_symbol(self) -> SymbolicDim:
        """A new symbol for a data-dependent size."""
        return symbol(self.builder.new_symbol())

    def uses(self, output: int) -> bool:
        """Whether the node has an output with that index."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def full(self, shape: tuple[Any, ...], value: Any, dtype: np.dtype[Any]) -> SymbolicTensor:
        """A tensor filled with `value`."""
        result: SymbolicTensor = self.builder.create(creation.full, shape=shape, value=value, dtype=dtype)
        return result

    def runtime_shaped(self, operator: str, *operands: Any, types: tuple[Type | None, ...] = (), **options: Any) -> Any:
        """Apply the function of an ONNX operator: on import if its structural operands are known, else at run time.

        Args:
            operator: name of the function.
            *operands: the operands of the operator's newest version; None for absent ones.
            types: types of the outputs at run time, for outputs whose type the model doesn't declare. Without them,
                the ranks must be inferred from the model.
            **options: the attributes.

        Raises:
            Unsupported: the rank of an output is known only when the program runs.
        """
        onnx_function = get_onnx_function(operator)
        pairs = list(zip(operands, onnx_function.flags(len(operands)), strict=True))
        fixed = [x for x, structural in pairs if structural]
        if all(x is None or (isinstance(x, KnownTensor) and (onnx_function.symbolic or not x.symbolic)) for x in fixed):
            arguments = [
                x if x is None else x.contents() if structural and isinstance(x, KnownTensor) else self.tensor(x)
                for x, structural in pairs
            ]
            try:
                return onnx_function.function(*arguments, **options)
            except ShapeError:  # sizes that aren't known to fit before the program runs
                if all(isinstance(size, int) for x in arguments if isinstance(x, SymbolicTensor) for size in x.shape):
                    raise
        tensors = [None if x is None else self.tensor(x) for x, _ in pairs]
        return runtime_shaped(
            *tensors,
            operator=operator,
            options=tuple(sorted(options.items())),
            types=self._output_types(types, tensors[0]),
        )

    def broadcast(
        self, operator: str, *operands: SymbolicTensor, dtype: np.dtype[Any] | None = None, **options: Any
    ) -> Any:
        """Apply the function of an elementwise operator, at run time if the sizes aren't known to broadcast.

        Args:
            operator: name of the function.
            *operands: tensors that broadcast.
            dtype: dtype of the result; by default that of the first operand.
            **options: the attributes.
        """
        try:
            return get_onnx_function(operator).function(*operands, **options)
        except ShapeError:
            if all(isinstance(size, int) for x in operands for size in x.shape):
                raise
        shape = self.broadcast_shape(*(x.shape for x in operands))
        return self.apply_at_run_time(operator, operands, Type(dtype or operands[0].dtype, shape), options)

    def apply_at_run_time(self, operator: str, operands: tuple[Any, ...], type: Type, options: dict[str, Any]) -> Any:
        """Apply the function of an operator without structural operands at run time."""
        kind = None if type.dtype == operands[0].dtype else type.dtype
        shape = tuple(size if isinstance(size, int) else str(size) for size in type.shape)
        return runtime_shaped(
            *operands, operator=operator, options=tuple(sorted(options.items())), types=((kind, shape),)
        )

    def broadcast_shape(self, *shapes: tuple[Any, ...]) -> tuple[Any, ...]:
        """The shape to which shapes broadcast, with new symbols for unknown sizes."""
        rank = max(map(len, shapes))
        return tuple(self._broadcast_size({s[axis] for s in shapes if -axis <= len(s)}) for axis in range(-rank, 0))

    def _broadcast_size(self, sizes: set[Any]) -> Any:
        """The size to which sizes broadcast: the constant if there is one, or a new symbol for several symbols."""
        fixed = {size for size in sizes if isinstance(size, int)} - {1}
        if len(fixed) == 1:
            return fixed.pop()
        symbolic = {size for size in sizes if not isinstance(size, int)}
        return self.new_symbol() if len(symbolic) > 1 else symbolic.pop() if symbolic else 1

    def _output_types(self, declared_types: tuple[Type | None, ...], first: Any) -> tuple[tuple[Any, ...], ...]:
        """The types of the outputs as attributes, with new symbols for data-dependent sizes."""
        result = []
        for i, declared in enumerate(self.declared()):
            type = declared_types[i] if i < len(declared_types) and declared_types[i] is not None else declared
            if type is None:
                raise Unsupported("the number of dimensions of its result is known only when the program runs")
            dtype = None if first is not None and type.dtype == first.dtype else type.dtype
            result.append((dtype, tuple(d if isinstance(d, int) else str(d) for d in type.shape)))
        return tuple(result)
