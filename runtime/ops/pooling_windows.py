"""The windows of pooling: their number and extent."""

from __future__ import annotations

from typing import Any

from ..ir.dims import minimum
from .registry import OnnxGraph, Type, require
from .windows import Padding, Sizes, window_count, window_span


def check_pooling(x: Type, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> None:
    """Raise `ShapeError` unless these windows can be applied to tensors of this type."""
    spatial = x.rank - 2
    require(1 <= spatial <= 3, f"needed one to three spatial dimensions after (batch, channels), x has rank {x.rank}")
    for name, values in {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}.items():
        require(len(values) == spatial, f"{name} {values} must have an entry per spatial dimension: {spatial}")
    require(min(*kernel, *stride, *dilation) >= 1, "kernel, stride and dilation must be positive")
    for pads, k, d in zip(padding, kernel, dilation, strict=True):
        fits = min(pads) >= 0 and 2 * max(pads) <= window_span(k, d)
        require(fits, f"padding {pads} must be at most half a window of {window_span(k, d)}")


def pooled_counts(
    sizes: Any, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[Any, ...]:
    """Return the number of windows per axis: `pooling_output_shape` in ATen/native/Pool.h."""
    counts = []
    for size, k, s, (before, after), d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        if ceil_mode:
            rounded_up = window_count(size, window_span(k, d), s, (before, after + s - 1))
            counts.append(minimum(rounded_up, (size + before + s - 1) // s))
        else:
            counts.append(window_count(size, window_span(k, d), s, (before, after)))
    return tuple(counts)


def required_padding(
    sizes: Any, counts: Any, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> Padding:
    """Return the padding per axis, at least `padding`, with which the last window fits."""
    geometry = zip(sizes, counts, kernel, stride, padding, dilation, strict=True)
    return tuple(
        (before, max(after, (n - 1) * s + window_span(k, d) - size - before))
        for size, n, k, s, (before, after), d in geometry
    )


def onnx_ceil_mode(
    graph: OnnxGraph, x: str, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> int:
    """Return `ceil_mode`, or 0 if rounding up adds no window: opsets before 22 then count one too many."""
    sizes = graph.type(x).shape[2:]
    if ceil_mode and all(isinstance(size, int) for size in sizes):
        spans = [window_span(k, d) for k, d in zip(kernel, dilation, strict=True)]
        padded_sizes = [int(size) + sum(pads) for size, pads in zip(sizes, padding, strict=True)]
        if any(size < span for size, span in zip(padded_sizes, spans, strict=True)):
            return 1  # rounding down leaves no window at all
        up, down = (pooled_counts(sizes, kernel, stride, padding, dilation, mode) for mode in (True, False))
        return int(up != down)
    return int(ceil_mode)
