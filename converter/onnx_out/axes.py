"""Names of the symbolic dimensions of a model: those of the program, or those in `dynamic_axes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...runtime.errors import UsageError
from ...runtime.ir.dims import Dim, SymbolicDim, symbol
from ...runtime.ir.types import Type, Value

DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int]]


class AxisNames:
    """Names for dimensions.

    Attributes:
        symbols: names by the program's symbols.
        others: names of dimensions that aren't plain symbols, by tensor and axis.
    """

    def __init__(self, tensors: Sequence[tuple[str, Value]], dynamic_axes: DynamicAxes) -> None:
        """`tensors` are the inputs and outputs of the model; `UsageError` if they lack an axis of `dynamic_axes`."""
        self.symbols: dict[str, Dim] = {}
        self.others: dict[tuple[str, int], str] = {}
        values = dict(tensors)
        for tensor, axes in dynamic_axes.items():
            if tensor not in values:
                raise UsageError(f"dynamic_axes names {tensor!r}; inputs and outputs are {', '.join(values)}")
            shape = values[tensor].shape
            for axis in axes:
                if not -len(shape) <= axis < len(shape):
                    raise UsageError(f"dynamic_axes names axis {axis} of {tensor!r}, which has {len(shape)} dimensions")
                name = axes[axis] if isinstance(axes, Mapping) else None
                self._add(tensor, axis % len(shape), shape[axis], name)

    def _add(self, tensor: str, axis: int, dim: Dim, name: str | None) -> None:
        if not isinstance(dim, SymbolicDim):
            raise UsageError(
                f"dynamic_axes names axis {axis} of {tensor!r}, which was captured as {dim} and is fixed: "
                f"capture it as a symbol, with dynamic_shapes={{{tensor!r}: {{{axis}: {name or 'a name'!r}}}}}"
            )
        if name is None:
            return
        solved = dim.solve(0)
        if solved is None or dim != symbol(solved[0]):
            self.others[tensor, axis] = name
        elif self.symbols.setdefault(solved[0], symbol(name)) != symbol(name):
            raise UsageError(
                f"dynamic_axes calls axis {axis} of {tensor!r} {name!r}, and another axis, which always has "
                f"the same size {str(self.symbols[solved[0]])!r}: give both the same name"
            )

    def shape(self, tensor: str, type: Type) -> list[int | str]:
        """The shape of a tensor in the model: sizes, names, and sums and products of names."""
        return [
            dim if isinstance(dim, int) else self.others.get((tensor, axis), str(dim.substitute(self.symbols)))
            for axis, dim in enumerate(type.shape)
        ]
