"""`Context`: what a translation of an ONNX operator is given beside its operands."""

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
    """What a translation needs to know beside its operands.

    Attributes:
        builder: of the program under construction.
        opset: version of the operator's domain that the model (or function) imports.
        outputs: names of the outputs, empty for one that is left out.
        notes: metadata of the node.
        folder: where external data lie; None for a model that was given as a proto.
        declared: the types that the model declares or onnx infers for the outputs; None where they don't.
        tensor: an imported value as a tensor of the program.
        run: a sub-graph (the value of an attribute) on operands; its outputs.
        draft: a sub-graph as a sub-program, with operands that are known or, given as types, its inputs; and its name.
        choice: whether the first of two branches is taken, where the graph around doesn't fit both.
    """

    builder: Builder
    opset: int
    outputs: tuple[str, ...]
    notes: Mapping[str, str]
    folder: Path | None
    declared: Callable[[], tuple[Type | None, ...]]
    tensor: Callable[[Imported], SymbolicTensor]
    run: Callable[[GraphProto, tuple[Imported, ...]], tuple[Any, ...]]
    draft: Callable[[GraphProto, tuple[Type | Imported, ...], str], Draft]
    choice: Callable[[], bool]

    def fresh(self) -> SymbolicDim:
        """A symbol for a size that only the run tells."""
        return symbol(self.builder.new_symbol())

    def uses(self, output: int) -> bool:
        """Whether the node has an output of that number."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def full(self, shape: tuple[Any, ...], value: Any, dtype: np.dtype[Any]) -> SymbolicTensor:
        """A tensor with `value` everywhere."""
        result: SymbolicTensor = self.builder.create(creation.full, shape=shape, value=value, dtype=dtype)
        return result

    def runtime_shaped(self, operator: str, *operands: Any, types: tuple[Type | None, ...] = (), **options: Any) -> Any:
        """Apply the function of an ONNX operator, now if what it needs is known, else when the program runs.

        Args:
            operator: name of the function.
            *operands: those of the operator's newest version; None for absent ones.
            types: what is known of the outputs, if they are computed when the program runs, where the model doesn't
                say; without them the ranks must be inferred from the model.
            **options: the attributes.

        Raises:
            Unsupported: the rank of an output is known only when the program runs.
        """
        onnx_function = get_onnx_function(operator)
        pairs = list(zip(operands, onnx_function.flags(len(operands)), strict=True))
        fixed = [x for x, structural in pairs if structural]
        if all(x is None or (isinstance(x, KnownTensor) and (onnx_function.symbolic or not x.symbolic)) for x in fixed):
            taken = [
                x if x is None else x.contents() if structural and isinstance(x, KnownTensor) else self.tensor(x)
                for x, structural in pairs
            ]
            try:
                return onnx_function.function(*taken, **options)
            except ShapeError:  # sizes that can't be told to fit before the program runs
                if all(isinstance(size, int) for x in taken if isinstance(x, SymbolicTensor) for size in x.shape):
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
        """Apply the function of an elementwise operator; at run time, if it isn't known before whether the sizes fit.

        Args:
            operator: name of the function.
            *operands: tensors that broadcast.
            dtype: of the result; that of the first operand if not given.
            **options: the attributes.
        """
        try:
            return get_onnx_function(operator).function(*operands, **options)
        except ShapeError:
            if all(isinstance(size, int) for x in operands for size in x.shape):
                raise
        shape = self.common(*(x.shape for x in operands))
        return self.when_run(operator, operands, Type(dtype or operands[0].dtype, shape), options)

    def when_run(self, operator: str, operands: tuple[Any, ...], type: Type, options: dict[str, Any]) -> Any:
        """Apply the function of an operator without structural operands when the program runs."""
        kind = None if type.dtype == operands[0].dtype else type.dtype
        shape = tuple(size if isinstance(size, int) else str(size) for size in type.shape)
        return runtime_shaped(
            *operands, operator=operator, options=tuple(sorted(options.items())), types=((kind, shape),)
        )

    def common(self, *shapes: tuple[Any, ...]) -> tuple[Any, ...]:
        """The shape to which shapes broadcast, as far as it can be told before the program runs."""
        rank = max(map(len, shapes))
        return tuple(self._common({s[axis] for s in shapes if -axis <= len(s)}) for axis in range(-rank, 0))

    def _common(self, sizes: set[Any]) -> Any:
        """The size to which sizes broadcast: a fixed one wins, of several symbolic ones only the run tells which."""
        fixed = {size for size in sizes if isinstance(size, int)} - {1}
        if len(fixed) == 1:
            return fixed.pop()
        symbolic = {size for size in sizes if not isinstance(size, int)}
        return self.fresh() if len(symbolic) > 1 else symbolic.pop() if symbolic else 1

    def _output_types(self, known: tuple[Type | None, ...], first: Any) -> tuple[tuple[Any, ...], ...]:
        """Types of the outputs as attributes, with fresh symbols for sizes that only the run tells."""
        result = []
        for i, declared in enumerate(self.declared()):
            type = known[i] if i < len(known) and known[i] is not None else declared
            if type is None:
                raise Unsupported("the number of dimensions of its result is known only when the program runs")
            dtype = None if first is not None and type.dtype == first.dtype else type.dtype
            result.append((dtype, tuple(d if isinstance(d, int) else str(d) for d in type.shape)))
        return tuple(result)
