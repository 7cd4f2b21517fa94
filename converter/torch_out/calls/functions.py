"""Functions that graphs of `to_torch` call for ops without a single torch function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....runtime import tree

Widths = Sequence[tuple[int, int]]

_CONV = (F.conv1d, F.conv2d, F.conv3d)
_ADAPTIVE_AVG_POOL: tuple[Any, ...] = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
_MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_REDUCE = {"mul": "prod", "max": "amax", "min": "amin"}


# ---- bounds ----


def clamp_inclusive(x: Tensor, *, min: float = -math.inf, max: float = math.inf) -> Tensor:
    """`torch.clamp` whose gradient passes at the bounds, on any torch."""
    return torch.where((x >= min) & (x <= max), x, x.detach().clamp(min, max))


def clamp_exclusive(x: Tensor, *, min: float = -math.inf, max: float = math.inf) -> Tensor:
    """`torch.clamp` whose gradient doesn't pass at the bounds, on any torch."""
    within = torch.ones_like(x, dtype=torch.bool)
    within = within if min == -math.inf else x > min
    within = within if max == math.inf else within & (x < max)
    return torch.where(within, x, x.detach().clamp(min, max))


# ---- calls between modules ----


class ExtraTensors:
    """Tensors that cross a module boundary in addition to those of the original; hooks don't see them."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __getitem__(self, position: int) -> Any:
        return self.values[position]


def require_constant(name: str, value: Any, expected: Any) -> None:
    """Raise `ValueError` unless an argument that isn't a tensor has the value that it was captured with."""
    if isinstance(value, Tensor) or value != expected:
        raise ValueError(
            f"argument {name!r}: the program was captured with {expected!r}, given "
            f"{'a tensor' if isinstance(value, Tensor) else repr(value)}; capture it again with this value"
        )


def field(value: Any, name: Any) -> Any:
    """The value under a name in an object, or in the dict that represents it."""
    return value[name] if isinstance(value, Mapping) else getattr(value, name)


def named_tuple(name: str, fields: tuple[str, ...], *values: Any) -> Any:
    """A named tuple with these values."""
    return tree.named_tuple(name, fields)(*values)


# ---- padding ----


def pad_or_crop(x: Tensor, before: Sequence[int], after: Sequence[int], mode: str) -> Tensor:
    """`x` cropped by negative widths, then padded along any axes: "reflect", "replicate" or "circular"."""
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        if (b, a) == (0, 0):
            continue
        x = x.narrow(axis, max(-b, 0), x.shape[axis] - max(-b, 0) - max(-a, 0))
        size = x.shape[axis]
        places = torch.arange(-max(b, 0), size + max(a, 0), device=x.device)
        if mode == "replicate":
            places = places.clamp(0, size - 1)
        elif mode == "circular":
            places = places % max(size, 1)
        else:
            places = size - 1 - (size - 1 - places.abs()).abs()
        x = x.index_select(axis, places)
    return x


# ---- indices: negative ones count from the end ----


def _from_front(indices: Tensor, size: int) -> Tensor:
    return torch.where(indices < 0, indices + size, indices)


def index_add(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """`x` with slices of `updates` added at `indices` along `axis`."""
    return x.index_add(axis, _from_front(indices, x.shape[axis]), updates)


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Gather single elements along an axis."""
    return x.gather(axis, _from_front(indices, x.shape[axis]))


def scatter(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    """`x` with single elements along an axis replaced by, or combined with, `updates`."""
    if x.ndim == 0:
        return scatter(x[None], indices[None], updates[None], 0, reduction)[0]
    indices = _from_front(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, indices, updates)
    if reduction == "add":
        return x.scatter_add(axis, indices, updates)
    return x.scatter_reduce(axis, indices, updates, _REDUCE[reduction])


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """`x` combined with `updates` at coordinates for its first axes."""
    depth = indices.shape[-1]
    rows = torch.zeros_like(indices[..., 0])
    for axis in range(depth):
        rows = rows * x.shape[axis] + _from_front(indices[..., axis], x.shape[axis])
    width = math.prod(x.shape[depth:])
    flat = x.reshape(-1, width)
    places = rows.reshape(-1, 1).expand(-1, width)
    return flat.scatter_reduce(0, places, updates.reshape(-1, width), _REDUCE[reduction]).reshape(x.shape)


def unique(x: Tensor, axis: int | None, sorted: bool) -> tuple[Tensor, ...]:
    """Unique elements or slices, their first indices, the inverse indices, and the counts; see the op `unique`."""
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=axis)
    inverse = inverse.reshape(-1)
    places = torch.arange(len(inverse), device=x.device)
    first = torch.full_like(counts, len(inverse)).scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = first.argsort()
        values = values[order] if axis is None else values.index_select(axis, order)
        first, counts, inverse = first[order], counts[order], order.argsort()[inverse]
    return values, first, inverse, counts


# ---- attention ----


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """`softmax(q k^T * scale + mask)`; 0 for a query that may attend to no key."""
    scores = q @ k.mT * (1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)


# ---- groups of rows ----


def grouped_matmul(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """The rows of each group times the group's matrix; zeros after the last group."""
    group = torch.searchsorted(ends, torch.arange(len(x), dtype=ends.dtype, device=x.device), right=True)
    y = x.new_zeros(len(x), weight.shape[2])
    for i in range(len(weight)):
        y = torch.where((group == i)[:, None], x @ weight[i], y)
    return y


def grouped_outer(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """For each group of rows, the transposed rows of `a` times those of `b`."""
    group = torch.searchsorted(ends, torch.arange(len(a), dtype=ends.dtype, device=a.device), right=True)
    return torch.stack([torch.where((group == i)[:, None], a, 0).mT @ b for i in range(len(ends))])


# ---- convolution and pooling ----


def _apply_transpose(function: Callable[[Tensor], Tensor], g: Tensor, size: Sequence[int]) -> Tensor:
    """Apply the transpose of a linear function of images of `size` to `g`, which is the function's gradient."""
    x = torch.zeros((*g.shape[:2], *size), dtype=g.dtype, device=g.device, requires_grad=True)
    with torch.enable_grad():
        y = function(x)
    (result,) = torch.autograd.grad(y, x, g, create_graph=g.requires_grad)
    return result


def avg_pool_gradient(g: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    """The gradient of `avg_pool` with these options on images of `size`."""
    return _apply_transpose(lambda x: avg_pool(x, *options), g, size)


def adaptive_avg_pool_gradient(g: Tensor, size: Sequence[int]) -> Tensor:
    """The gradient of adaptive average pooling of images of `size`."""
    return _apply_transpose(lambda x: _ADAPTIVE_AVG_POOL[len(size) - 1](x, g.shape[2:]), g, size)


def resize_gradient(g: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    """The gradient of `resize` with these options from images of `size`."""
    return _apply_transpose(lambda x: resize(x, g.shape[2:], *options), g, size)


def resize_from_corners_gradient(g: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    """The gradient of `resize_from_corners` with these options from images of `size`."""
    return _apply_transpose(lambda x: resize_from_corners(x, g.shape[2:], *options), g, size)


def conv_weight_gradient(
    x: Tensor, g: Tensor, kernel_shape: Sequence[int], stride: Any, dilation: Any, groups: int
) -> Tensor:
    """The gradient of a convolution of the padded `x` with respect to its weight."""
    shape = (g.shape[1], x.shape[1] // groups, *kernel_shape)
    weight = torch.zeros(shape, dtype=x.dtype, device=x.device, requires_grad=True)
    with torch.enable_grad():
        y = _CONV[len(kernel_shape) - 1](x, weight, None, stride, 0, dilation, groups)
    (result,) = torch.autograd.grad(y, weight, g, create_graph=x.requires_grad or g.requires_grad)
    return result


def max_pool(
    x: Tensor, kernel: Any, stride: Any, padding: Widths, dilation: Any, ceil_mode: bool, counts: Sequence[int] | None
) -> tuple[Tensor, Tensor]:
    """Maxima and their indices, with asymmetric padding; `counts` windows per axis if known."""
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    sizes = x.shape[2:]
    wide = F.pad(x, [size for width in reversed(padding) for size in width], value=lowest)
    y, indices = _MAX_POOL[len(kernel) - 1](wide, kernel, stride, 0, dilation, ceil_mode, True)
    for axis, count in enumerate(counts or y.shape[2:], start=2):
        y, indices = y.narrow(axis, 0, count), indices.narrow(axis, 0, count)
    places = torch.zeros_like(indices)
    step = 1
    for size, full, (before, _) in zip(sizes[::-1], wide.shape[:1:-1], reversed(padding), strict=True):
        places = places + (indices % full - before) * step
        indices, step = indices // full, step * size
    return y, places


def max_pool_gradient(g: Tensor, indices: Tensor, size: Sequence[int]) -> Tensor:
    """The sums of `g` at `indices` of flattened images of `size`."""
    zeros = torch.zeros((*g.shape[:2], math.prod(size)), dtype=g.dtype, device=g.device)
    return zeros.scatter_add(2, indices.flatten(2), g.flatten(2)).reshape(*g.shape[:2], *size)


def avg_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Widths,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Means of windows for any padding and divisor: the sums divided by the number of elements."""
    if len(kernel) == 1:  # torch has no divisor for one axis
        kernel, stride, padding = (1, *kernel), (1, *stride), ((0, 0), *padding)
        options = (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return avg_pool(x[:, :, None], *options)[:, :, 0]
    pool: Callable[..., Tensor] = F.avg_pool2d if len(kernel) == 2 else F.avg_pool3d
    flat = [size for width in reversed(padding) for size in width]
    counts = []
    for size, k, s, (before, after) in zip(x.shape[2:], kernel, stride, padding, strict=True):
        room = size + before + after - k
        count = -(-room // s) + 1 if ceil_mode else room // s + 1
        counts.append(count - 1 if ceil_mode and (count - 1) * s >= size + before else count)

    def sums(x: Tensor) -> Tensor:
        y = pool(x, kernel, stride, 0, ceil_mode, divisor_override=1)
        for axis, count in enumerate(counts, start=2):
            y = y.narrow(axis, 0, count)
        return y

    total = sums(F.pad(x, flat))
    if divisor_override is not None:
        return total / divisor_override
    ones = F.pad(torch.ones_like(x[:1, :1]), flat, value=1.0 if count_include_pad else 0.0)
    return total / sums(ones)


# ---- interpolation ----

_NEAREST = {
    ("nearest", 1): torch.ops.aten.upsample_nearest1d.default,
    ("nearest", 2): torch.ops.aten.upsample_nearest2d.default,
    ("nearest", 3): torch.ops.aten.upsample_nearest3d.default,
    ("nearest-exact", 1): torch.ops.aten._upsample_nearest_exact1d.default,
    ("nearest-exact", 2): torch.ops.aten._upsample_nearest_exact2d.default,
    ("nearest-exact", 3): torch.ops.aten._upsample_nearest_exact3d.default,
}
_SMOOTH = {
    ("linear", 1): torch.ops.aten.upsample_linear1d.default,
    ("bilinear", 2): torch.ops.aten.upsample_bilinear2d.default,
    ("trilinear", 3): torch.ops.aten.upsample_trilinear3d.default,
    ("bicubic", 2): torch.ops.aten.upsample_bicubic2d.default,
}


def resize(
    x: Tensor, size: Sequence[int], mode: str, align_corners: bool, scales: Sequence[float | None] | None
) -> Tensor:
    """Interpolate to a size with scales that are independent of it."""
    factors = scales or (None,) * len(size)
    if mode in ("nearest", "nearest-exact"):
        result: Tensor = _NEAREST[mode, len(size)](x, size, *factors)
    else:
        result = _SMOOTH[mode, len(size)](x, size, align_corners, *factors)
    return result


def resize_from_corners(x: Tensor, size: Sequence[int], mode: str, scales: Sequence[float | None] | None) -> Tensor:
    """Linear or cubic interpolation with elements at the corners of their cells, which torch lacks."""
    for axis, (new, scale) in enumerate(zip(size, scales or (None,) * len(size), strict=True), start=2):
        old = x.shape[axis]
        if old == new and not scale:
            continue
        real = torch.float64 if x.dtype == torch.float64 else torch.float32
        source = torch.arange(new, dtype=real, device=x.device) * (1.0 / scale if scale else old / new)
        first = source.floor()
        rest = source - first
        steps, weights = (range(-1, 3), _cubic(rest)) if mode == "bicubic" else (range(2), [1 - rest, rest])
        along = (-1, *(1,) * (x.ndim - 1 - axis))
        taps = [x.index_select(axis, (first.long() + step).clamp(0, old - 1)) for step in steps]
        x = sum((tap * w.to(x.dtype).reshape(along) for tap, w in zip(taps[1:], weights[1:], strict=True)),
                start=taps[0] * weights[0].to(x.dtype).reshape(along))  # fmt: skip
    return x


def _cubic(t: Tensor) -> list[Tensor]:
    """Weights of the four elements around a position, `t` after the second; Keys 1981 with a = -0.75, as in ATen."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


# ---- losses ----


def ctc_alphas(log_probs: Tensor, targets: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """Log-probabilities of each state after each step, (time, batch, states)."""
    log_probs = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
    time, batch, _ = log_probs.shape
    length = targets.shape[1]
    within = torch.arange(length, device=targets.device) < target_lengths[:, None]
    classes = torch.full((batch, 2 * length + 1), blank, dtype=torch.int64, device=targets.device)
    classes[:, 1::2] = torch.where(within, targets.long(), blank)
    skippable = torch.zeros_like(classes, dtype=torch.bool)
    skippable[:, 2:] = (classes[:, 2:] != blank) & (classes[:, 2:] != classes[:, :-2])
    emissions = log_probs.gather(2, classes.expand(time, -1, -1))
    never = torch.full_like(emissions[0], -math.inf) if time else None
    alphas: list[Tensor] = []
    for t in range(time):
        assert never is not None
        if t == 0:
            now = torch.cat([emissions[0, :, :2], never[:, 2:]], 1)
        else:
            before = alphas[-1]
            advanced = torch.cat([never[:, :1], before[:, :-1]], 1)
            two = torch.where(skippable, torch.cat([never[:, :2], before[:, :-2]], 1)[:, : before.shape[1]], never)
            now = torch.logaddexp(torch.logaddexp(before, advanced), two) + emissions[t]
        alphas.append(now)
    return torch.stack(alphas) if alphas else log_probs.new_zeros(0, batch, 2 * length + 1)
