"""Identities with a meaning: `boundary`, where a value enters or leaves a Cell, and `stop_gradient`."""

from __future__ import annotations

from typing import Any

from ..traits import Traits
from .registry import Array, OnnxGraph, Tensor, Type, operator

STOP_GRADIENT = "cellbridge.stop_gradient"  # metadata of an ONNX Identity that stops gradients
GRADIENT_KINDS = {"input": "input_gradient", "output": "output_gradient", "parameter": "parameter_gradient"}


@operator
def boundary(x: Tensor, *, call: int, kind: str, slot: str) -> Tensor:
    """Identity that marks a value that crosses the boundary of a Cell.

    Args:
        x: any tensor.
        call: index of the Cell call in `Program.calls`.
        kind: "input" or "output"; in gradient programs also "input_gradient" (the cotangent that the Cell computes for
            that input) and "output_gradient" (the cotangent that it gets for that output).
        slot: which of the Cell's tensors it is, e.g. `[0]` or `['mask']`.
    """


boundary.traits = Traits(elementwise=True, moves="first", view=True, mixed_precision="as given")


@boundary.infer
def _(x: Type, **_: Any) -> Type:
    return x


@boundary.native_kernel
def _(x: Array, **_: Any) -> Array:
    return x


@boundary.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, call: int, kind: str, slot: str) -> Tensor:
    back = GRADIENT_KINDS.get(kind)
    return g if back is None else boundary(g, call=call, kind=back, slot=slot)


@boundary.onnx
def _(graph: OnnxGraph, x: str, **_: Any) -> str:
    return x


@operator
def stop_gradient(x: Tensor) -> Tensor:
    """Identity through which no gradient flows. ATen `detach`."""


stop_gradient.traits = Traits(elementwise=True, moves="first", view=True, mixed_precision="as given", in_cells=True)


@stop_gradient.infer
def _(x: Type) -> Type:
    return x


@stop_gradient.native_kernel
def _(x: Array) -> Array:
    return x


@stop_gradient.vjp
def _(g: Tensor, y: Tensor, x: Tensor) -> None:
    return None


@stop_gradient.onnx
def _(graph: OnnxGraph, x: str) -> Any:
    result = graph.op("Identity", x)
    graph.note(STOP_GRADIENT, "true")
    return result
