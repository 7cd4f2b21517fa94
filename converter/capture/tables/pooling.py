"""ATen pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import product
from ....runtime.ir.types import INT64
from ....runtime.ops import adaptive_pooling, average_pooling, indexing, max_pooling, shaping, slicing, sorting
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .slicing import part
from .spatial import add_batch, both_sides, per_dimension, remove_batch
from .table import Context, aten, cast, operands


def _register_max_pool(count: int) -> None:
    def with_indices(
        context: Context, self: SymbolicTensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[SymbolicTensor, SymbolicTensor]:  # fmt: skip
        """max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2]
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
        """
        values, indices = max_pooling.max_pool(
            add_batch(self, count),
            kernel=per_dimension(kernel_size, count),
            stride=per_dimension(stride or kernel_size, count),
            padding=both_sides(padding, count),
            dilation=per_dimension(dilation, count),
            ceil_mode=ceil_mode,
        )
        return remove_batch(values, self), remove_batch(indices, self)

    def max_pool(context: Context, *args: Any, **kwargs: Any) -> SymbolicTensor:
        """max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool
        ceil_mode=False) -> Tensor
        """
        return with_indices(context, *args, **kwargs)[0]

    aten(f"aten.max_pool{count}d_with_indices.default")(with_indices)
    aten(f"aten.max_pool{count}d.default")(max_pool)


def _register_avg_pool(count: int) -> None:
    def avg_pool(
        context: Context, self: SymbolicTensor, kernel_size: Any, stride: Any = (), padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> SymbolicTensor:  # fmt: skip
        """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool
        count_include_pad=True, int? divisor_override=None) -> Tensor
        """
        y = average_pooling.avg_pool(
            add_batch(self, count),
            kernel=per_dimension(kernel_size, count),
            stride=per_dimension(stride or kernel_size, count),
            padding=both_sides(padding, count),
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )
        return remove_batch(y, self)

    aten(f"aten.avg_pool{count}d.default")(avg_pool)


def _register_adaptive(count: int) -> None:
    def avg_pool(context: Context, self: SymbolicTensor, output_size: Any) -> SymbolicTensor:
        """adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
        y = adaptive_pooling.adaptive_avg_pool(add_batch(self, count), output_size=per_dimension(output_size, count))
        return remove_batch(y, self)

    def max_pool(context: Context, self: SymbolicTensor, output_size: Any) -> tuple[SymbolicTensor, SymbolicTensor]:
        """adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""
        size = per_dimension(output_size, count)
        values, indices = adaptive_pooling.adaptive_max_pool(add_batch(self, count), output_size=size)
        return remove_batch(values, self), remove_batch(indices, self)

    aten(f"aten.adaptive_avg_pool{count}d.default")(avg_pool)
    aten(f"aten.adaptive_max_pool{count}d.default")(max_pool)
    if count > 1:
        aten(f"aten._adaptive_avg_pool{count}d.default")(avg_pool)


def _register_max_pool_backward(count: int) -> None:
    def backward(
        context: Context, grad_output: SymbolicTensor, self: SymbolicTensor, kernel_size: Any, stride: Any,
        padding: Any,
        dilation: Any, ceil_mode: bool, indices: SymbolicTensor,
    ) -> SymbolicTensor:  # fmt: skip
        """max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2]
        padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor
        """
        g, places = add_batch(grad_output, count), add_batch(indices, count)
        return remove_batch(max_pooling.max_pool_gradient(g, places, size=self.shape[self.ndim - count :]), self)

    aten(f"aten.max_pool{count}d_with_indices_backward.default")(backward)


def _register_fractional_max_pool(count: int) -> None:
    def fractional(
        context: Context, self: SymbolicTensor, kernel_size: Any, output_size: Any, random_samples: SymbolicTensor
    ) -> tuple[SymbolicTensor, SymbolicTensor]:
        """fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor,
        Tensor)

        Along each dimension of size n, the i-th of m windows of size k begins at floor((i + u) a) - floor(u a) with a =
        (n - k) / (m - 1), the last one at n - k; u is that dimension's random number.
        """
        x = add_batch(self, count)
        planes, sizes = x.shape[:2], x.shape[2:]
        kernel, target_sizes = per_dimension(kernel_size, count), per_dimension(output_size, count)
        if not all(isinstance(n, int) for n in (*sizes, *target_sizes)):
            raise Unsupported("symbolic sizes")
        order = range(count) if count == 3 else reversed(range(count))  # in 2d, the first number is for the width
        places: Any = context.builder.constant(0, INT64)
        for axis, number in enumerate(order):
            sample = part(random_samples, 2, number, number + 1)  # (batch, channels, 1)
            starts = _starts(context, sample, sizes[axis], target_sizes[axis], kernel[axis])
            taps = context.builder.constant(np.arange(kernel[axis]), INT64)
            at = shaping.reshape(starts, shape=(*planes, target_sizes[axis], 1)) + taps
            shape = [*planes, *[1] * (2 * count)]
            shape[2 + axis], shape[2 + count + axis] = target_sizes[axis], kernel[axis]
            places = places * operands(context, INT64, sizes[axis])[0] + shaping.reshape(at, shape=tuple(shape))
        windows = (*planes, product(target_sizes), product(kernel))
        places = shaping.reshape(places, shape=windows)
        flat = shaping.reshape(x, shape=(*planes, product(sizes)))
        elements = indexing.gather(flat, shaping.reshape(places, shape=(*planes, windows[2] * windows[3])), axis=2)
        best = sorting.argmax(shaping.reshape(elements, shape=windows), axis=3, keepdims=True)
        chosen = shaping.reshape(indexing.gather(places, best, axis=3), shape=(*planes, windows[2]))
        values = indexing.gather(flat, chosen, axis=2)
        results = (shaping.reshape(t, shape=(*planes, *target_sizes)) for t in (values, chosen))
        values, chosen = (remove_batch(t, self) for t in results)
        return values, chosen

    aten(f"aten.fractional_max_pool{count}d.default")(fractional)


def _starts(context: Context, sample: Any, size: Any, count: int, kernel: int) -> Any:
    """The first elements of the windows of a fractional pooling: (batch, channels, count)."""
    last = context.builder.constant(np.full((1, 1, 1), size - kernel), INT64)
    if count == 1:
        return shaping.expand(last, shape=sample.shape)
    (step,) = operands(context, sample.dtype, size - kernel)
    step = step / operands(context, sample.dtype, count - 1)[0]
    numbers = context.builder.constant(np.arange(count - 1), sample.dtype)
    begins = cast((numbers + sample) * step, INT64) - cast(sample * step, INT64)
    return slicing.concat(begins, shaping.expand(last, shape=sample.shape), axis=2)


for _count in (2, 3):
    _register_max_pool_backward(_count)
    _register_fractional_max_pool(_count)
for _count in (1, 2, 3):
    _register_max_pool(_count)
    _register_avg_pool(_count)
    _register_adaptive(_count)
