"""ATen pooling."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import adaptive_pooling
from ....runtime.ops import pooling as ops
from ....runtime.tracing import Traced
from ..table import Context, aten
from .spatial import batched, both_sides, per_dimension, unbatched


def _enter_max_pool(count: int) -> None:
    def with_indices(
        context: Context, self: Traced, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Traced, Traced]:  # fmt: skip
        """max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2]
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
        """
        values, indices = ops.max_pool(
            batched(self, count),
            kernel=per_dimension(kernel_size, count),
            stride=per_dimension(stride or kernel_size, count),
            padding=both_sides(padding, count),
            dilation=per_dimension(dilation, count),
            ceil_mode=ceil_mode,
        )
        return unbatched(values, self), unbatched(indices, self)

    def max_pool(context: Context, *args: Any, **kwargs: Any) -> Traced:
        """max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool
        ceil_mode=False) -> Tensor
        """
        return with_indices(context, *args, **kwargs)[0]

    aten(f"aten.max_pool{count}d_with_indices.default")(with_indices)
    aten(f"aten.max_pool{count}d.default")(max_pool)


def _enter_avg_pool(count: int) -> None:
    def avg_pool(
        context: Context, self: Traced, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Traced:  # fmt: skip
        """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool
        count_include_pad=True, int? divisor_override=None) -> Tensor
        """
        y = ops.avg_pool(
            batched(self, count),
            kernel=per_dimension(kernel_size, count),
            stride=per_dimension(stride or kernel_size, count),
            padding=both_sides(padding, count),
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )
        return unbatched(y, self)

    aten(f"aten.avg_pool{count}d.default")(avg_pool)


def _enter_adaptive(count: int) -> None:
    def avg_pool(context: Context, self: Traced, output_size: Any) -> Traced:
        """adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
        y = adaptive_pooling.adaptive_avg_pool(batched(self, count), output_size=per_dimension(output_size, count))
        return unbatched(y, self)

    def max_pool(context: Context, self: Traced, output_size: Any) -> tuple[Traced, Traced]:
        """adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""
        size = per_dimension(output_size, count)
        values, indices = adaptive_pooling.adaptive_max_pool(batched(self, count), output_size=size)
        return unbatched(values, self), unbatched(indices, self)

    aten(f"aten.adaptive_avg_pool{count}d.default")(avg_pool)
    aten(f"aten.adaptive_max_pool{count}d.default")(max_pool)
    if count > 1:
        aten(f"aten._adaptive_avg_pool{count}d.default")(avg_pool)


for _count in (1, 2, 3):
    _enter_max_pool(_count)
    _enter_avg_pool(_count)
    _enter_adaptive(_count)
