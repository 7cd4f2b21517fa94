"""The table: convolutions and pools."""

from __future__ import annotations

from typing import Any

from .entry import Difference, Finding, LayerPair, argument, shape_effect
from .reading import MISSING, code, collapse, format_value, read_argument
from .windows import axes_of, output_shapes, sizes_of_cell, sizes_of_module, windows_of_cell, windows_of_module

TRANSPOSED = ("Conv2dTranspose", "Conv1dTranspose", "Conv3dTranspose")
CONVOLUTIONS = ("Conv2d", "Conv1d", "Conv3d", *TRANSPOSED)
MAX_POOLS = ("MaxPool2d", "MaxPool1d", "MaxPool3d")
AVG_POOLS = ("AvgPool2d", "AvgPool1d", "AvgPool3d")
POOLS = (*MAX_POOLS, *AVG_POOLS)
ADAPTIVE_POOLS = (
    "AdaptiveAvgPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool3d", "AdaptiveMaxPool2d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool3d",
)  # fmt: skip


def _padding(pair: LayerPair) -> Finding | None:
    """Find padding that differs in effect: "same" and a number may be equivalent."""
    cell_windows, module_windows = windows_of_cell(pair), windows_of_module(pair)
    if cell_windows is None:
        return None
    axes, spatial = axes_of(pair), pair.shape
    if spatial is not None and len(spatial) > axes:
        candidate_sizes = [spatial[-axes:]]
    else:  # for any size: "same" depends on the size modulo the stride
        candidate_sizes = [(1024 + extra,) * axes for extra in range(max(cell_windows.stride))]
    if any(cell_windows.padding_for(size) == module_windows.padding_for(size) for size in candidate_sizes):
        return None
    mode, padding = read_argument(pair.cell, "pad_mode").lower(), read_argument(pair.cell, "padding")
    effect, reshapes = shape_effect(output_shapes(pair))
    if effect is None and spatial is not None:
        sides = [
            tuple(n for pads in w.padding_for(candidate_sizes[0]) for n in pads) for w in (cell_windows, module_windows)
        ]
        effect = (f"zeros {sides[0]}", f"{sides[1]}")
    return Finding(
        f"padding={format_value(collapse(padding))}" if mode == "pad" else f"pad_mode={mode!r}",
        f"padding={format_value(collapse(read_argument(pair.module, 'padding')))}",
        _padding_to_write(pair, mode),
        effect,
        reshapes,
    )


def _padding_to_write(pair: LayerPair, mode: str) -> str:
    padding = windows_of_module(pair).padding
    if isinstance(padding, str):
        return 'pad_mode="same"'
    before = tuple(first for first, _ in padding)
    if len(set(before)) == 1:
        needed = format_value(before[0])
    elif read_argument(pair.cell, "in_channels") is MISSING:
        needed = format_value(before)
    else:  # convolutions take a number for each side
        needed = format_value(tuple(size for pads in padding for size in pads))
    if mode == "pad":
        return f"padding={needed}"
    return 'pad_mode="pad"' + (f", padding={needed}" if any(before) else "")


def _windows(layers: tuple[str, ...], name: str, rule: str = "") -> Difference:
    """Return an entry about an argument with an int for each axis."""
    return argument(
        layers, name, rule=rule, of_cell=lambda pair: collapse(sizes_of_cell(pair, name)),
        of_module=lambda pair: collapse(sizes_of_module(pair, name)), shapes=output_shapes,
    )  # fmt: skip


def _output_padding(pair: LayerPair) -> Finding | None:
    """Find a difference in the output padding of a transposed convolution."""
    cell_windows, module_windows = windows_of_cell(pair), windows_of_module(pair)
    if cell_windows is None or cell_windows.output_padding == module_windows.output_padding:
        return None
    cell_text, module_text = (
        f"output_padding={format_value(collapse(w.output_padding))}" for w in (cell_windows, module_windows)
    )
    write = module_text
    if axes_of(pair) == 1:  # the Cell has no such argument
        size = collapse(module_windows.output_padding)
        write = f'pad_mode="pad", and ops.pad(y, (0, {size})) behind it' if size else 'pad_mode="pad"'
    elif read_argument(pair.cell, "pad_mode") != "pad":
        write = f'pad_mode="pad", {module_text}'
    if read_argument(pair.cell, "pad_mode") != "pad":
        cell_text = f"pad_mode={read_argument(pair.cell, 'pad_mode')!r} ({cell_text})"
    return Finding(cell_text, module_text, write, *shape_effect(output_shapes(pair)))


def _padding_mode(pair: LayerPair) -> Finding | None:
    """Find a padding mode other than zeros, which only torch has."""
    mode = read_argument(pair.module, "padding_mode")
    if mode in (MISSING, "zeros"):
        return None
    sides = tuple(n for pads in reversed(windows_of_module(pair).padding_for((1024,) * axes_of(pair))) for n in pads)
    layer = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}.get(mode)
    before = f"nn.{layer}{axes_of(pair)}d({format_value(collapse(sides))})" if layer else "ops.concat of both ends"
    return Finding(
        f"pad_mode={read_argument(pair.cell, 'pad_mode')!r} (zeros)",
        f"padding_mode={mode!r}",
        f'{before} in front, and pad_mode="valid"',
    )


def _padding_counts(pair: LayerPair) -> Finding | None:
    """Find a difference in whether padding counts in the mean; with "same" it never does."""
    cell_windows, module_windows = windows_of_cell(pair), windows_of_module(pair)
    cell_value, module_value = (
        read_argument(pair.cell, "count_include_pad"),
        read_argument(pair.module, "count_include_pad"),
    )
    if cell_windows is None or cell_value is MISSING or not _pads(module_windows.padding):
        return None
    if cell_windows.padding == "same":
        if not module_value or pair.shape is None or _padding(pair):  # other padding has a line of its own
            return None
        cell_text = "pad_mode='same' (its padding doesn't count)"
        return Finding(cell_text, f"count_include_pad={module_value}", _padding_to_write(pair, "same"))
    if cell_value == module_value or not _pads(cell_windows.padding):
        return None
    return Finding(
        f"count_include_pad={cell_value}", f"count_include_pad={module_value}", f"count_include_pad={module_value}"
    )  # fmt: skip


def _pads(padding: Any) -> bool:
    return any(map(any, padding))


def _output_sizes(of: Any, pair: LayerPair) -> Any:
    """Return the requested output sizes, with the input's size for None."""
    requested, axes = read_argument(of, "output_size"), axes_of(pair)
    if requested is MISSING:
        return MISSING
    requested = requested if isinstance(requested, tuple) else (requested,) * axes
    spatial = pair.shape[-axes:] if pair.shape else requested
    return tuple(n if size is None else size for size, n in zip(requested, spatial, strict=True))


def _adaptive_shapes(pair: LayerPair) -> Any:
    if pair.shape is None:
        return None
    leading = pair.shape[: -axes_of(pair)]
    return (*leading, *_output_sizes(pair.cell, pair)), (*leading, *_output_sizes(pair.module, pair))


CONVOLUTION = (
    Difference(
        CONVOLUTIONS, "pad_mode, padding", "padding", _padding,
        'Cells pad "same" by default, and torch doesn\'t pad. Write `pad_mode="pad"`, and `padding` if it isn\'t 0. '
        '"same" puts an odd element of padding at the end, so it differs from torch even where the shapes agree. '
        "Four numbers are (top, bottom, left, right).",
    ),
    Difference(
        TRANSPOSED, "pad_mode, output_padding", "output_padding", _output_padding,
        '"same" and "valid" make the output `stride` elements long for each of the input; torch\'s is only as long as '
        'the windows reach. `output_padding` needs `pad_mode="pad"`; Conv1dTranspose has none.',
    ),
    Difference(
        CONVOLUTIONS, "pad_mode", "padding_mode", _padding_mode,
        "Convolutions pad with zeros only: write a layer that pads in front of them.",
    ),
    argument(
        CONVOLUTIONS, "has_bias", "bias", "Convolutions have no bias by default; torch's have one.",
        of_module=lambda pair: read_argument(pair.module, "bias") is not None,
    ),
    _windows(CONVOLUTIONS, "kernel_size"),
    _windows(CONVOLUTIONS, "stride"),
    _windows(CONVOLUTIONS, "dilation"),
    argument(CONVOLUTIONS, "group", "groups", "Another name."),
    argument(CONVOLUTIONS, "in_channels"),
    argument(CONVOLUTIONS, "out_channels", shapes=output_shapes),
)  # fmt: skip

POOLING = (
    _windows(POOLS, "kernel_size", "The default is 1; torch has none."),
    _windows(POOLS, "stride", "The default is 1; torch's is `kernel_size`."),
    Difference(
        POOLS, "pad_mode, padding", "padding", _padding,
        'Padding needs `pad_mode="pad"`. The padding of "same" never counts in a mean.',
    ),
    argument(
        POOLS, "ceil_mode", rule='MaxPool layers allow it with `pad_mode="pad"` only.', shapes=output_shapes,
        write=lambda value: f'pad_mode="pad", ceil_mode={code(value)}',
    ),
    Difference(
        AVG_POOLS, "count_include_pad", "count_include_pad", _padding_counts, 'Has no effect with `pad_mode="same"`.'
    ),
    argument(("AvgPool2d", "AvgPool3d"), "divisor_override"),
    _windows(MAX_POOLS, "dilation"),
    argument(MAX_POOLS, "return_indices"),
    argument(
        ADAPTIVE_POOLS, "output_size", of_cell=lambda pair: collapse(_output_sizes(pair.cell, pair)),
        of_module=lambda pair: collapse(_output_sizes(pair.module, pair)), shapes=_adaptive_shapes,
    ),
)  # fmt: skip
