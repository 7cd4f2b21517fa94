"""The windows of convolutions and pools of either framework, read from the layers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ....runtime.functional.geometry import resolve_padding
from ....runtime.ops.windows import Padding, Sizes, window_span
from ...correspondence.layers import kind_of_cell
from .entry import LayerPair, Shape
from .reading import MISSING, read_argument, sizes


@dataclass(frozen=True)
class Windows:
    """Windows along the spatial axes.

    Attributes:
        kernel: taps of a window.
        stride: distance between windows.
        dilation: distance between taps.
        padding: elements (before, after) each axis; "same" for `ceil(size / stride)` windows.
        ceil_mode: whether a window may extend beyond the end; None if unknown.
        output_padding: elements added after each axis of a transposed convolution; None for other layers.
    """

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    padding: Padding | str
    ceil_mode: bool | None = False
    output_padding: Sizes | None = None

    def padding_for(self, spatial: Shape) -> Padding:
        """Return the padding of axes of these sizes."""
        if not isinstance(self.padding, str):
            return self.padding
        return resolve_padding("same", (), spatial, self.kernel, self.stride, self.dilation)

    def counts(self, spatial: Shape) -> Shape:
        """Return the sizes of the output, at least 0, for these sizes of the input."""
        result = []
        for n, (before, after), k, s, d, extra in zip(
            spatial, self.padding_for(spatial), self.kernel, self.stride, self.dilation, self.output_padding or spatial,
            strict=True,
        ):  # fmt: skip
            room = n + before + after - window_span(k, d)
            if self.output_padding is not None:
                count = (n - 1) * s + window_span(k, d) - before - after + extra
            elif self.ceil_mode:
                count = -(-room // s) + 1
                count -= (count - 1) * s >= n + before  # the last window must start inside
            else:
                count = room // s + 1
            result.append(max(count, 0))
        return tuple(result)


def axes_of(pair: LayerPair) -> int:
    """Number of spatial axes of the layer: 2 for `Conv2d`."""
    match = re.search(r"(\d)d", kind_of_cell(pair.cell))
    return int(match[1]) if match else 1


def sizes_of_cell(pair: LayerPair, name: str) -> Any:
    """Return one int for each axis of the Cell's argument."""
    return sizes(read_argument(pair.cell, name), axes_of(pair))


def sizes_of_module(pair: LayerPair, name: str) -> Any:
    """Return one int for each axis of the module's argument."""
    return sizes(read_argument(pair.module, name), axes_of(pair))


def windows_of_cell(pair: LayerPair) -> Windows | None:
    """Return the Cell's windows; None if it doesn't store them."""
    cell, axes = pair.cell, axes_of(pair)
    kernel, stride = sizes_of_cell(pair, "kernel_size"), sizes_of_cell(pair, "stride")
    dilation = (1,) * axes if read_argument(cell, "dilation") is MISSING else sizes_of_cell(pair, "dilation")
    mode, padding = read_argument(cell, "pad_mode"), read_argument(cell, "padding")
    if MISSING in (kernel, stride, mode):
        return None
    mode = mode.lower()
    if mode == "pad" and padding is MISSING:
        return None
    sides = _sides(padding, axes) if mode == "pad" else ((0, 0),) * axes
    if "transpose" not in kind_of_cell(cell):
        ceil_mode = read_argument(cell, "ceil_mode", "max_pool.ceil_mode")
        if ceil_mode is MISSING:
            ceil_mode = None if "pool" in kind_of_cell(cell) and mode == "pad" else False
        return Windows(kernel, stride, dilation, "same" if mode == "same" else sides, ceil_mode)
    spans = [window_span(k, d) for k, d in zip(kernel, dilation, strict=True)]
    if mode == "pad":
        extra = read_argument(cell, "output_padding")
        return Windows(
            kernel, stride, dilation, sides, output_padding=(0,) * axes if extra is MISSING else sizes(extra, axes)
        )
    if mode == "same":  # the output has `stride` elements for each input element
        totals = [max(span - s, 0) for span, s in zip(spans, stride, strict=True)]
        sides = tuple((total // 2, total - total // 2) for total in totals)
    return Windows(
        kernel, stride, dilation, sides, output_padding=tuple(max(s - n, 0) for n, s in zip(spans, stride, strict=True))
    )


def windows_of_module(pair: LayerPair) -> Windows:
    """Return the module's windows."""
    module, axes = pair.module, axes_of(pair)
    kernel, stride = sizes_of_module(pair, "kernel_size"), sizes_of_module(pair, "stride")
    dilation = (1,) * axes if read_argument(module, "dilation") is MISSING else sizes_of_module(pair, "dilation")
    module_padding = module.padding
    if module_padding == "same":  # torch allows it for stride 1 only, where it equals that of Cells
        padding: Padding | str = "same"
    else:
        padding = tuple(
            (size, size) for size in ((0,) * axes if module_padding == "valid" else sizes(_plain(module_padding), axes))
        )
    ceil_mode = read_argument(module, "ceil_mode") is True
    output_padding = sizes_of_module(pair, "output_padding") if read_argument(module, "transposed") is True else None
    return Windows(kernel, stride, dilation, padding, ceil_mode, output_padding)


def output_shapes(pair: LayerPair) -> tuple[Shape, Shape] | None:
    """Return the shapes of both outputs; None if they aren't known."""
    cell_windows, module_windows, shape = windows_of_cell(pair), windows_of_module(pair), pair.shape
    axes = axes_of(pair)
    if cell_windows is None or cell_windows.ceil_mode is None or shape is None or len(shape) <= axes:
        return None
    leading = [shape[:-axes], shape[:-axes]]
    channels = read_argument(pair.cell, "out_channels"), read_argument(pair.module, "out_channels")
    if MISSING not in channels:
        leading = [(*shape[: -axes - 1], count) for count in channels]
    spatial = shape[-axes:]
    return (*leading[0], *cell_windows.counts(spatial)), (*leading[1], *module_windows.counts(spatial))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _sides(value: Any, axes: int) -> Padding:
    """Return (before, after) for each axis, from one int, one for each axis, or one for each side."""
    sides = value if isinstance(value, tuple) else (value,)
    if len(sides) == 1:
        sides *= 2 * axes
    elif len(sides) in (axes, 3):  # a pool's padding, for both sides; MindSpore's pools always have three axes
        sides = tuple(size for size in sides[-axes:] for _ in range(2))
    last = sides[-2 * axes :]
    return tuple((last[i], last[i + 1]) for i in range(0, 2 * axes, 2))
