"""Where convolutions and pools of either framework lay their windows: read off the layers, for given sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...runtime.functional.geometry import resolve_padding
from ...runtime.ops.windows import Padding, Sizes, window_span
from ..pairing.layers import kind_of_cell
from .entry import Pair, Shape
from .reading import MISSING, read, sizes


@dataclass(frozen=True)
class Windows:
    """Windows along the spatial axes.

    Attributes:
        kernel: taps of a window.
        stride: distance of the windows.
        dilation: distance of the taps.
        padding: elements (before, after) each axis; "same": so that there are `ceil(size / stride)` windows.
        ceil_mode: whether a window may stick out at the end; None if that isn't known.
        grown: elements added after each axis of a transposed convolution; None for other layers.
    """

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    padding: Padding | str
    ceil_mode: bool | None = False
    grown: Sizes | None = None

    def padding_for(self, spatial: Shape) -> Padding:
        """The padding of axes of these sizes."""
        if not isinstance(self.padding, str):
            return self.padding
        return resolve_padding("same", (), spatial, self.kernel, self.stride, self.dilation)

    def counts(self, spatial: Shape) -> Shape:
        """The sizes of the output for these of the input; at least 0."""
        found = []
        for n, (before, after), k, s, d, grown in zip(
            spatial, self.padding_for(spatial), self.kernel, self.stride, self.dilation, self.grown or spatial,
            strict=True,
        ):  # fmt: skip
            room = n + before + after - window_span(k, d)
            if self.grown is not None:
                count = (n - 1) * s + window_span(k, d) - before - after + grown
            elif self.ceil_mode:
                count = -(-room // s) + 1
                count -= (count - 1) * s >= n + before  # the last window must start inside
            else:
                count = room // s + 1
            found.append(max(count, 0))
        return tuple(found)


def axes_of(pair: Pair) -> int:
    """How many spatial axes the layer has: the 2 of `Conv2d`."""
    found = re.search(r"(\d)d", kind_of_cell(pair.cell))
    return int(found[1]) if found else 1


def sizes_here(pair: Pair, name: str) -> Any:
    """One int for each axis of the Cell's argument."""
    return sizes(read(pair.cell, name), axes_of(pair))


def sizes_there(pair: Pair, name: str) -> Any:
    """One int for each axis of the module's argument."""
    return sizes(read(pair.module, name), axes_of(pair))


def windows_here(pair: Pair) -> Windows | None:
    """The Cell's windows; None if it doesn't keep what they are."""
    cell, axes = pair.cell, axes_of(pair)
    kernel, stride = sizes_here(pair, "kernel_size"), sizes_here(pair, "stride")
    dilation = (1,) * axes if read(cell, "dilation") is MISSING else sizes_here(pair, "dilation")
    mode, given = read(cell, "pad_mode"), read(cell, "padding")
    if MISSING in (kernel, stride, mode):
        return None
    mode = mode.lower()
    if mode == "pad" and given is MISSING:
        return None
    sides = _sides(given, axes) if mode == "pad" else ((0, 0),) * axes
    if "transpose" not in kind_of_cell(cell):
        ceil_mode = read(cell, "ceil_mode", "max_pool.ceil_mode")
        if ceil_mode is MISSING:
            ceil_mode = None if "pool" in kind_of_cell(cell) and mode == "pad" else False
        return Windows(kernel, stride, dilation, "same" if mode == "same" else sides, ceil_mode)
    spans = [window_span(k, d) for k, d in zip(kernel, dilation, strict=True)]
    if mode == "pad":
        extra = read(cell, "output_padding")
        return Windows(kernel, stride, dilation, sides, grown=(0,) * axes if extra is MISSING else sizes(extra, axes))
    if mode == "same":  # cuts off what is beyond `stride` elements for each of the input
        totals = [max(span - s, 0) for span, s in zip(spans, stride, strict=True)]
        sides = tuple((total // 2, total - total // 2) for total in totals)
    return Windows(
        kernel, stride, dilation, sides, grown=tuple(max(s - n, 0) for n, s in zip(spans, stride, strict=True))
    )


def windows_there(pair: Pair) -> Windows:
    """The module's windows."""
    module, axes = pair.module, axes_of(pair)
    kernel, stride = sizes_there(pair, "kernel_size"), sizes_there(pair, "stride")
    dilation = (1,) * axes if read(module, "dilation") is MISSING else sizes_there(pair, "dilation")
    given = module.padding
    if given == "same":  # torch allows it for stride 1 only, where it is that of Cells
        padding: Padding | str = "same"
    else:
        padding = tuple((size, size) for size in ((0,) * axes if given == "valid" else sizes(_plain(given), axes)))
    ceil_mode = read(module, "ceil_mode") is True
    grown = sizes_there(pair, "output_padding") if read(module, "transposed") is True else None
    return Windows(kernel, stride, dilation, padding, ceil_mode, grown)


def output_shapes(pair: Pair) -> tuple[Shape, Shape] | None:
    """The shapes of both outputs; None where they aren't known."""
    here, there, shape = windows_here(pair), windows_there(pair), pair.shape
    axes = axes_of(pair)
    if here is None or here.ceil_mode is None or shape is None or len(shape) <= axes:
        return None
    leading = [shape[:-axes], shape[:-axes]]
    channels = read(pair.cell, "out_channels"), read(pair.module, "out_channels")
    if MISSING not in channels:
        leading = [(*shape[: -axes - 1], count) for count in channels]
    spatial = shape[-axes:]
    return (*leading[0], *here.counts(spatial)), (*leading[1], *there.counts(spatial))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _sides(value: Any, axes: int) -> Padding:
    """(before, after) of each axis, from one int, one for each axis or one for each side."""
    given = value if isinstance(value, tuple) else (value,)
    if len(given) == 1:
        given *= 2 * axes
    elif len(given) in (axes, 3):  # a pool's: on both sides; MindSpore's have three axes in any case
        given = tuple(size for size in given[-axes:] for _ in range(2))
    last = given[-2 * axes :]
    return tuple((last[i], last[i + 1]) for i in range(0, 2 * axes, 2))
