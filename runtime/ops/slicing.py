"""`slice`, `concat`, `tile` and `pad`. A slice and a padding are each other's gradients."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.dims import Dim
from ..traits import Traits
from .common import normalize_axes, normalize_axis, require_same_dtype
from .reduction import reduce_sum
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .shaping import flip, reshape

Shape = tuple[Dim, ...]

NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@operator
def slice(x: Tensor, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """Every `steps[i]`-th element from `starts[i]` to `stops[i]`, exclusive, along `axes[i]`: ONNX Slice-13.

    `starts` and `stops` count from the front and lie within the dimension, with no start after its stop; steps are
    positive.
    """


slice.traits = Traits(moves="first", view=True)


@slice.infer
def _(x: Type, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]) -> Type:
    require(len(starts) == len(stops) == len(steps) == len(axes), "needed one start, stop and step for each axis")
    shape = list(x.shape)
    normalize_axes(axes, x.rank)
    for start, stop, step, axis in zip(starts, stops, steps, axes, strict=True):
        require(step > 0, f"needed positive steps, given {steps}")
        size, at = x.shape[axis], normalize_axis(axis, x.rank)
        if isinstance(start, int) and isinstance(stop, int) and isinstance(size, int):
            _require_within(start, stop, size, at)
        shape[at] = (stop - start + (step - 1)) // step
    return x.with_shape(tuple(shape))


def _require_within(start: int, stop: int, size: int, axis: int) -> None:
    if not 0 <= start <= stop <= size:  # to format the message takes longer than to slice
        raise ShapeError(f"{start}:{stop} does not lie within axis {axis} of size {size}")


@slice.native_kernel
def _(
    x: Array, *, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...], axes: tuple[int, ...]
) -> Array:
    index = [builtins.slice(None)] * x.ndim
    for start, stop, step, axis in zip(starts, stops, steps, axes, strict=True):
        _require_within(start, stop, x.shape[axis], axis)  # `infer` can't check a symbolic size
        index[axis] = builtins.slice(start, stop, step)
    return x[tuple(index)]


@slice.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    before: list[Dim] = [0] * x.ndim
    after: list[Dim] = [0] * x.ndim
    for start, step, axis in zip(starts, steps, axes, strict=True):
        at = normalize_axis(axis, x.ndim)
        g = _insert_zeros(g, at, step)
        before[at], after[at] = start, x.shape[at] - start - g.shape[at]
    return pad(g, before=tuple(before), after=tuple(after))


@slice.onnx
def _(graph: OnnxGraph, x: str, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    at, by = graph.constant(axes, np.int64), graph.constant(steps, np.int64)
    return graph.op("Slice", x, graph.dims(starts), graph.dims(stops), at, by)


def _insert_zeros(g: Tensor, axis: int, step: int) -> Any:
    """Insert `step - 1` zeros after each element along `axis`."""
    if step == 1:
        return g
    shape = g.shape
    columns = reshape(g, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    none = (0,) * columns.ndim
    padded = pad(columns, before=none, after=(*none[: axis + 1], step - 1, *none[axis + 2 :]))
    return reshape(padded, shape=(*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))


@operator
def concat(*xs: Tensor, axis: int) -> Tensor:
    """The operands concatenated along `axis`: ATen `cat`, ONNX Concat-13."""


concat.traits = Traits(moves="several")


@concat.infer
def _(*xs: Type, axis: int) -> Type:
    require(len(xs) > 0, "needed at least one operand")
    require_same_dtype(*xs)
    shape = list(xs[0].shape)
    require(len(shape) > 0, "needed operands with at least one dimension")
    at = normalize_axis(axis, len(shape))
    for x in xs[1:]:
        fits = x.rank == len(shape) and all(x.shape[i] == size for i, size in enumerate(xs[0].shape) if i != at)
        require(fits, f"shapes {xs[0].shape} and {x.shape} differ outside axis {at}")
        shape[at] = shape[at] + x.shape[at]
    return xs[0].with_shape(tuple(shape))


@concat.native_kernel
def _(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis=axis)


@concat.vjp
def _(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> Any:
    parts: list[Any] = []
    start: Dim = 0
    for x in xs:
        stop = start + x.shape[axis]
        parts.append(slice(g, starts=(start,), stops=(stop,), steps=(1,), axes=(axis,)))
        start = stop
    return parts[0] if len(parts) == 1 else tuple(parts)


@concat.onnx
def _(graph: OnnxGraph, *xs: str, axis: int) -> Any:
    return graph.op("Concat", *xs, axis=axis)


@operator
def tile(x: Tensor, *, repeats: Shape) -> Tensor:
    """`x` repeated `repeats[i]` times along axis i, one number for each axis: ATen `repeat`, ONNX Tile-13."""


tile.traits = Traits(moves="first", bfloat16_kernel=False)


@tile.infer
def _(x: Type, *, repeats: Shape) -> Type:
    require(len(repeats) == x.rank, f"needed {x.rank} repeats, given {repeats}")
    return x.with_shape(tuple(size * count for size, count in zip(x.shape, repeats, strict=True)))


@tile.native_kernel
def _(x: Array, *, repeats: tuple[int, ...]) -> Array:
    return np.tile(x, repeats)


@tile.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, repeats: Shape) -> Any:
    copies = tuple(size for pair in zip(repeats, x.shape, strict=True) for size in pair)
    return reduce_sum(reshape(g, shape=copies), axes=tuple(range(0, 2 * x.ndim, 2)))


@tile.onnx
def _(graph: OnnxGraph, x: str, *, repeats: Shape) -> Any:
    return graph.op("Tile", x, graph.dims(repeats)) if repeats else x


@operator
def pad(x: Tensor, *, before: Shape, after: Shape, mode: str = "constant", value: float = 0.0) -> Tensor:
    """`x` padded with `before[i]` and `after[i]` elements along axis i; negative numbers crop, before any padding.

    Args:
        x: any tensor.
        before: one number for each axis.
        after: one number for each axis.
        mode: "constant" fills with `value`; "reflect" mirrors at the edge element without repeating it; "replicate"
            repeats the edge element; "circular" continues at the other end. Sizes may be symbolic only if they are
            known not to be negative, unless the mode is "constant".
        value: the constant.

    ATen `constant_pad_nd`, `reflection_pad*`, `replication_pad*` and `_pad_circular`; ONNX Pad-18.
    """


pad.traits = Traits(moves="several", wider_integers="most", bfloat16_kernel=False)


@pad.infer
def _(x: Type, *, before: Shape, after: Shape, mode: str, value: float) -> Type:
    require(len(before) == len(after) == x.rank, f"needed {x.rank} sizes before and after, given {before} and {after}")
    require(mode == "constant" or mode in NUMPY_MODES, f"mode {mode!r} isn't one of constant, {', '.join(NUMPY_MODES)}")
    for axis, (size, b, a) in enumerate(zip(x.shape, before, after, strict=True)):
        if not isinstance(size, int) or not isinstance(b, int) or not isinstance(a, int):
            continue
        kept = size + min(b, 0) + min(a, 0)
        require(size + b + a >= 0, f"cannot crop {-b} and {-a} from axis {axis} of size {size}")
        most = {"constant": max(b, a), "reflect": kept - 1, "circular": kept}.get(mode, max(b, a) if kept > 0 else 0)
        require(max(b, a) <= max(most, 0), f"{mode} adds at most {max(most, 0)} elements to axis {axis} of size {kept}")
    return x.with_shape(tuple(size + b + a for size, b, a in zip(x.shape, before, after, strict=True)))


@pad.native_kernel
def _(x: Array, *, before: tuple[int, ...], after: tuple[int, ...], mode: str, value: float) -> Any:
    kept = x[tuple(_crop_slice(*sizes) for sizes in zip(x.shape, before, after, strict=True))]
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    if not any(map(any, widths)):
        return kept
    if mode != "constant":
        return np.pad(kept, widths, NUMPY_MODES[mode])  # type: ignore[call-overload]
    y = np.full([size + b + a for size, b, a in zip(x.shape, before, after, strict=True)], value, x.dtype)
    y[tuple(builtins.slice(b, b + size) for size, (b, _) in zip(kept.shape, widths, strict=True))] = kept
    return y


def _crop_slice(size: int, before: int, after: int) -> builtins.slice:
    """Return the slice of an axis that remains after cropping by negative paddings."""
    start = max(-before, 0)
    return builtins.slice(start, max(size - max(-after, 0), start))


@pad.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, before: Shape, after: Shape, mode: str, value: float) -> Any:
    if mode != "constant":
        for axis, (size, b, a) in enumerate(zip(x.shape, before, after, strict=True)):
            g = _fold_padding(
                g, axis, size + _crop_amount(b) + _crop_amount(a), b - _crop_amount(b), a - _crop_amount(a), mode
            )
        before, after = tuple(map(_crop_amount, before)), tuple(map(_crop_amount, after))
    return pad(g, before=tuple(0 - b for b in before), after=tuple(0 - a for a in after))


def _crop_amount(amount: Dim) -> int:
    """Return the amount if it is negative, else 0."""
    return amount if isinstance(amount, int) and amount < 0 else 0


def _fold_padding(g: Tensor, axis: int, size: Dim, before: Dim, after: Dim, mode: str) -> Any:
    """Return the gradient of padding one axis of `size`: add the cotangents of copies to those of their originals."""
    folded = _part(g, axis, before, before + size)
    if before != 0:
        left = _part(g, axis, 0, before)
        if mode == "reflect":  # the elements 1 to `before` in reverse order
            folded = folded + _pad_axis(flip(left, axes=(axis,)), axis, 1, size - 1 - before)
        elif mode == "replicate":
            folded = folded + _pad_axis(reduce_sum(left, axes=(axis,), keepdims=True), axis, 0, size - 1)
        else:
            folded = folded + _pad_axis(left, axis, size - before, 0)
    if after != 0:
        right = _part(g, axis, before + size, before + size + after)
        if mode == "reflect":
            folded = folded + _pad_axis(flip(right, axes=(axis,)), axis, size - 1 - after, 1)
        elif mode == "replicate":
            folded = folded + _pad_axis(reduce_sum(right, axes=(axis,), keepdims=True), axis, size - 1, 0)
        else:
            folded = folded + _pad_axis(right, axis, 0, size - after)
    return folded


def _part(g: Tensor, axis: int, start: Dim, stop: Dim) -> Any:
    return slice(g, starts=(start,), stops=(stop,), steps=(1,), axes=(axis,))


def _pad_axis(g: Tensor, axis: int, before: Dim, after: Dim) -> Any:
    """Pad one axis of `g` with zeros."""
    none = (0,) * (g.ndim - 1)
    return pad(g, before=(*none[:axis], before, *none[axis:]), after=(*none[:axis], after, *none[axis:]))


@pad.onnx
def _(graph: OnnxGraph, x: str, *, before: Shape, after: Shape, mode: str, value: float) -> Any:
    if mode == "circular":  # Pad has the mode "wrap" from opset 19 on
        return _circular(graph, x, before, after)
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    options = [graph.constant(value, graph.type(x).dtype)] if mode == "constant" and value else []
    if not options and mode == "constant" and graph.has("Pad with axes", 18):
        # ONNX Runtime's optimizer would fuse a Pad without axes into a pool that follows, whose padding isn't 0
        # (MaxPool) or isn't counted (AveragePool)
        options = ["", graph.constant(np.arange(len(before)), np.int64)]
    return graph.op("Pad", x, graph.dims((*before, *after)), *options, mode=names[mode])


def _circular(graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:
    y = x
    for axis, (size, b, a) in enumerate(zip(graph.type(x).shape, before, after, strict=True)):
        if (b, a) == (0, 0):
            continue
        at = graph.constant([axis], np.int64)
        start, stop = -_crop_amount(b), size + _crop_amount(a)
        bounds = ((stop - (b - _crop_amount(b)), stop), (start, stop), (start, start + (a - _crop_amount(a))))
        parts = [graph.op("Slice", y, graph.dims((i,)), graph.dims((j,)), at) for i, j in bounds if i != j]
        y = graph.op("Concat", *parts, axis=axis)
    return y
