"""Functions for ONNX operators that move elements: Reshape, Slice, Expand, Pad and the like."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..ir.dims import Dim, SymbolicDim, product
from ..ops import scanning, slicing
from ..ops import shaping as ops
from ..ops.common import broadcast_shapes, normalize_axes, normalize_axis
from ..ops.registry import Tensor, require
from .registry import onnx_function

MAX_PIECES = 2**16  # of a split

Dims = tuple[Dim, ...]
END = 2**31 - 1  # exporters write this number or a larger one for "to the end"


@onnx_function("Reshape", "shape")
def reshape(data: Tensor, shape: Dims, *, allowzero: int = 0) -> Any:
    """Reshape-25: 0 keeps a size (unless `allowzero`), -1 is inferred."""
    target = list(shape)
    for axis, size in enumerate(target):
        if isinstance(size, int) and size == 0 and not allowzero:
            require(axis < len(data.shape), f"size {axis} of shape {shape} is 0, the operand has shape {data.shape}")
            target[axis] = data.shape[axis]
    open_axes = [axis for axis, size in enumerate(target) if isinstance(size, int) and size == -1]
    require(len(open_axes) <= 1, f"shape {shape} has -1 more than once")
    if open_axes:
        rest = product(size for axis, size in enumerate(target) if axis not in open_axes)
        require(rest != 0, f"shape {shape} doesn't determine the size at -1")
        target[open_axes[0]] = product(data.shape) // rest
    if tuple(target) == tuple(data.shape):
        return data
    return ops.reshape(data, shape=tuple(target))


@onnx_function("Slice", "starts", "ends", "axes", "steps")
def slice(data: Tensor, starts: Dims, ends: Dims, axes: Any = None, steps: Any = None) -> Any:
    """Slice-13: negative bounds count from the end, those beyond an end are clipped; a negative step goes backwards."""
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    require(len(starts) == len(ends) == len(axes) == len(steps), "needed one start, end and step for each axis")
    cuts: list[tuple[Dim, Dim, int, int]] = []
    for start, end, axis, step in zip(starts, ends, positive_axes(axes, data.ndim), steps, strict=True):
        size = data.shape[axis]
        require(isinstance(step, int) and step != 0, f"needed steps other than 0, given {steps}")
        if step < 0:
            data = ops.flip(data, axes=(axis,))
            start, end = _mirror_bound(size, start, -1), _mirror_bound(size, end, -1)
        first, last = _bounds(size, start, end)
        if not (first == 0 and last == size and abs(step) == 1):
            cuts.append((first, last, abs(step), axis))
    if not cuts:
        return data
    first_, last_, steps_, axes_ = zip(*cuts, strict=True)
    return slicing.slice(data, starts=first_, stops=last_, steps=steps_, axes=axes_)


def _mirror_bound(size: Dim, bound: Dim, offset: int) -> Dim:
    """Return a bound of a backward slice, counted in the flipped dimension."""
    if isinstance(bound, int) and isinstance(size, int):
        position = bound + size if bound < 0 else bound
        return size + offset - min(max(position, -1), size - 1)
    if isinstance(bound, int) and bound <= -END:
        return size
    if isinstance(bound, int) and bound >= END:
        return 0
    if isinstance(bound, int) and bound < 0:
        return -1 - bound
    return size + offset - bound


def _bounds(size: Dim, start: Dim, end: Dim) -> tuple[Dim, Dim]:
    first, last = _position(size, start), _position(size, end)
    if isinstance(first, int) and isinstance(last, int):
        return first, max(first, last)
    return first, last


def _position(size: Dim, index: Dim) -> Dim:
    """Return `index` counted from the front, clipped to the dimension; symbolic ones are assumed to lie within it."""
    if isinstance(index, SymbolicDim):
        falls = all(coefficient < 0 for monomial, coefficient in index.terms if monomial)
        return size + index if falls else index
    if index >= END:
        return size
    if index < 0:
        return max(size + index, 0) if isinstance(size, int) else 0 if index <= -END else size + index
    return min(index, size) if isinstance(size, int) else index


def positive_axes(axes: Any, rank: int) -> tuple[int, ...]:
    """Return axes counted from the front, in the given order; `ShapeError` if one is out of range or repeated."""
    result = tuple(normalize_axis(axis, rank) for axis in axes)
    require(len(set(result)) == len(result), f"axes {tuple(axes)} name one dimension twice")
    return result


@onnx_function("Expand", "shape")
def expand(input: Tensor, shape: Dims) -> Any:
    """Expand-13: bidirectional broadcasting."""
    target = broadcast_shapes(tuple(input.shape), shape)
    return input if target == tuple(input.shape) else ops.expand(input, shape=target)


@onnx_function("Tile", "repeats")
def tile(input: Tensor, repeats: Dims) -> Any:
    """Tile-13."""
    require(len(repeats) == input.ndim, f"needed {input.ndim} repeats, given {len(repeats)}")
    return slicing.tile(input, repeats=repeats)


@onnx_function("Squeeze", "axes")
def squeeze(data: Tensor, axes: Any = None) -> Any:
    """Squeeze-13; without `axes`, all axes of size 1 are removed."""
    if axes is None:
        drop = tuple(axis for axis, size in enumerate(data.shape) if size == 1)
    else:
        drop = normalize_axes(axes, data.ndim)
        for axis in drop:
            size = data.shape[axis]
            require(isinstance(size, SymbolicDim) or size == 1, f"axis {axis} has size {size}, not 1")
    if not drop:
        return data
    return ops.reshape(data, shape=tuple(size for axis, size in enumerate(data.shape) if axis not in drop))


@onnx_function("Unsqueeze", "axes")
def unsqueeze(data: Tensor, axes: Any) -> Any:
    """Unsqueeze-13; the axes are those of the result."""
    axes = (axes,) if isinstance(axes, int) else axes
    added = positive_axes(axes, data.ndim + len(axes))
    sizes = iter(data.shape)
    shape = tuple(1 if axis in added else next(sizes) for axis in range(data.ndim + len(axes)))
    return ops.reshape(data, shape=shape)


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@onnx_function("Pad", "pads", "constant_value", "axes")
def pad(data: Tensor, pads: Dims, constant_value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    """Pad-19: `pads` are the numbers of elements to add before each axis, then those after; negative ones crop."""
    require(mode in _PAD_MODES, f"mode {mode!r} isn't one of {', '.join(_PAD_MODES)}")
    axes = tuple(range(data.ndim)) if axes is None else positive_axes(axes, data.ndim)
    require(len(pads) == 2 * len(axes), f"needed {2 * len(axes)} pads, given {len(pads)}")
    before: list[Dim] = [0] * data.ndim
    after: list[Dim] = [0] * data.ndim
    for axis, b, a in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[axis], after[axis] = b, a
    while isinstance(constant_value, tuple):
        require(len(constant_value) == 1, f"needed one value to pad with, given {len(constant_value)}")
        constant_value = constant_value[0]
    if all(b == 0 for b in (*before, *after)):
        return data
    value = 0.0 if constant_value is None else constant_value
    if mode == "reflect":
        return _reflect(data, before, after)
    return slicing.pad(data, before=tuple(before), after=tuple(after), mode=_PAD_MODES[mode], value=value)


def _reflect(data: Tensor, before: list[Dim], after: list[Dim]) -> Any:
    """Mirror at the edge elements, repeatedly if needed, since the op adds at most as many elements as there are."""
    while True:
        most = [size - 1 for size in data.shape]
        now_b, now_a = ([_min_if_known(p, m) for p, m in zip(pads, most, strict=True)] for pads in (before, after))
        if any(now == 0 and rest != 0 for now, rest in zip(now_b + now_a, before + after, strict=True)):
            raise ShapeError(f"a dimension of size 1 of {tuple(data.shape)} can't be mirrored")
        data = slicing.pad(data, before=tuple(now_b), after=tuple(now_a), mode="reflect")
        before = [b - n for b, n in zip(before, now_b, strict=True)]
        after = [a - n for a, n in zip(after, now_a, strict=True)]
        if all(b == 0 for b in before + after):
            return data


def _min_if_known(padding: Dim, limit: Dim) -> Dim:
    return min(padding, limit) if isinstance(padding, int) and isinstance(limit, int) else padding


@onnx_function("CenterCropPad", "shape")
def center_crop_pad(input_data: Tensor, shape: Dims, *, axes: Any = None) -> Any:
    """CenterCropPad-18: crops, or pads with zeros, around the centre."""
    axes = tuple(range(input_data.ndim)) if axes is None else positive_axes(axes, input_data.ndim)
    before: list[Dim] = [0] * input_data.ndim
    after: list[Dim] = [0] * input_data.ndim
    for axis, target in zip(axes, shape, strict=True):
        size = input_data.shape[axis]
        if isinstance(size, int) and isinstance(target, int) and target < size:
            before[axis] = -((size - target) // 2)
            after[axis] = target - size - before[axis]
        else:
            before[axis] = (target - size) // 2
            after[axis] = target - size - before[axis]
    return slicing.pad(input_data, before=tuple(before), after=tuple(after))


@onnx_function("Split", "split")
def split(input: Tensor, split: Any = None, *, axis: int = 0, num_outputs: int = 0) -> Any:
    """Split-18: pieces of given sizes, or `num_outputs` of equal size, the last of which may be smaller."""
    at = normalize_axis(axis, input.ndim)
    size = input.shape[at]
    if split is None:
        require(0 < num_outputs <= MAX_PIECES, f"needed sizes, or 1 to {MAX_PIECES} outputs, given {num_outputs}")
        piece = (size + num_outputs - 1) // num_outputs
        split = (*(piece,) * (num_outputs - 1), size - piece * (num_outputs - 1))
    parts, start = [], 0
    for piece in split:
        stop = start + piece
        parts.append(slicing.slice(input, starts=(start,), stops=(stop,), steps=(1,), axes=(at,)))
        start = stop
    is_static = isinstance(start, int) and isinstance(size, int)
    require(not is_static or start == size, f"pieces of sizes {split} don't add up to {size}")
    return tuple(parts)


@onnx_function("Trilu", "k")
def trilu(input: Tensor, k: Any = None, *, upper: int = 1) -> Any:
    """Trilu-14."""
    limit = 2**30  # beyond any diagonal
    return ops.triangle(input, k=max(-limit, min(limit, scalar(k, 0))), upper=bool(upper))


def scalar(contents: Any, default: Any = None) -> Any:
    """Return the only number in `contents`, or `default` if it is None."""
    while isinstance(contents, tuple):
        require(len(contents) == 1, f"needed one number, given {len(contents)}")
        contents = contents[0]
    return default if contents is None else contents


@onnx_function("CumSum", "axis")
def cumsum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """CumSum-14; from the other end with `reverse`, without the element itself with `exclusive`."""
    return _cumulative(x, axis, exclusive, reverse, scanning.cumsum, 0)


@onnx_function("CumProd", "axis")
def cumprod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """CumProd-26; the options are those of CumSum."""
    return _cumulative(x, axis, exclusive, reverse, scanning.cumprod, 1)


def _cumulative(x: Tensor, axis: Any, exclusive: int, reverse: int, op: Any, neutral: int) -> Any:
    at = normalize_axis(scalar(axis), x.ndim)
    if reverse:
        x = ops.flip(x, axes=(at,))
    if exclusive:
        size = x.shape[at]
        first = tuple(1 if i == at else 0 for i in range(x.ndim))
        x = slicing.slice(x, starts=(0,), stops=(size - 1,), steps=(1,), axes=(at,))
        x = slicing.pad(x, before=first, after=(0,) * x.ndim, value=float(neutral))
    result = op(x, axis=at)
    return ops.flip(result, axes=(at,)) if reverse else result
