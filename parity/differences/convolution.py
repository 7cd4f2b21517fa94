"""The table: convolutions, and pools."""

from __future__ import annotations

from typing import Any

from .entry import Difference, Finding, Pair, argument, reshaped
from .reading import MISSING, code, collapsed, read, shown
from .windows import axes_of, output_shapes, sizes_here, sizes_there, windows_here, windows_there

TRANSPOSED = ("Conv2dTranspose", "Conv1dTranspose", "Conv3dTranspose")
CONVOLUTIONS = ("Conv2d", "Conv1d", "Conv3d", *TRANSPOSED)
MAX_POOLS = ("MaxPool2d", "MaxPool1d", "MaxPool3d")
AVG_POOLS = ("AvgPool2d", "AvgPool1d", "AvgPool3d")
POOLS = (*MAX_POOLS, *AVG_POOLS)
ADAPTIVE_POOLS = (
    "AdaptiveAvgPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool3d", "AdaptiveMaxPool2d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool3d",
)  # fmt: skip


def _padding(pair: Pair) -> Finding | None:
    """Different padding, in effect: "same" and a number may come to the same."""
    here, there = windows_here(pair), windows_there(pair)
    if here is None:
        return None
    axes, spatial = axes_of(pair), pair.shape
    if spatial is not None and len(spatial) > axes:
        tried = [spatial[-axes:]]
    else:  # whatever the size: "same" depends on what is left over by the stride
        tried = [(1024 + extra,) * axes for extra in range(max(here.stride))]
    if any(here.padding_for(size) == there.padding_for(size) for size in tried):
        return None
    mode, given = read(pair.cell, "pad_mode").lower(), read(pair.cell, "padding")
    effect, reshapes = reshaped(output_shapes(pair))
    if effect is None and spatial is not None:
        sides = [tuple(n for pads in w.padding_for(tried[0]) for n in pads) for w in (here, there)]
        effect = (f"zeros {sides[0]}", f"{sides[1]}")
    return Finding(
        f"padding={shown(collapsed(given))}" if mode == "pad" else f"pad_mode={mode!r}",
        f"padding={shown(collapsed(read(pair.module, 'padding')))}",
        _padding_to_write(pair, mode),
        effect,
        reshapes,
    )


def _padding_to_write(pair: Pair, mode: str) -> str:
    padding = windows_there(pair).padding
    if isinstance(padding, str):
        return 'pad_mode="same"'
    before = tuple(first for first, _ in padding)
    if len(set(before)) == 1:
        wanted = shown(before[0])
    elif read(pair.cell, "in_channels") is MISSING:
        wanted = shown(before)
    else:  # convolutions take a number for each side
        wanted = shown(tuple(size for pads in padding for size in pads))
    if mode == "pad":
        return f"padding={wanted}"
    return 'pad_mode="pad"' + (f", padding={wanted}" if any(before) else "")


def _windows(layers: tuple[str, ...], name: str, rule: str = "") -> Difference:
    """An entry about an argument with an int for each axis."""
    return argument(
        layers, name, rule=rule, of_cell=lambda pair: collapsed(sizes_here(pair, name)),
        of_module=lambda pair: collapsed(sizes_there(pair, name)), shapes=output_shapes,
    )  # fmt: skip


def _grown(pair: Pair) -> Finding | None:
    """How much longer the output of a transposed convolution is made."""
    here, there = windows_here(pair), windows_there(pair)
    if here is None or here.grown == there.grown:
        return None
    ours, theirs = (f"output_padding={shown(collapsed(w.grown))}" for w in (here, there))
    write = theirs
    if axes_of(pair) == 1:  # the Cell has no such argument
        grown = collapsed(there.grown)
        write = f'pad_mode="pad", and ops.pad(y, (0, {grown})) behind it' if grown else 'pad_mode="pad"'
    elif read(pair.cell, "pad_mode") != "pad":
        write = f'pad_mode="pad", {theirs}'
    if read(pair.cell, "pad_mode") != "pad":
        ours = f"pad_mode={read(pair.cell, 'pad_mode')!r} ({ours})"
    return Finding(ours, theirs, write, *reshaped(output_shapes(pair)))


def _padding_filled(pair: Pair) -> Finding | None:
    """torch pads with more than zeros."""
    mode = read(pair.module, "padding_mode")
    if mode in (MISSING, "zeros"):
        return None
    sides = tuple(n for pads in reversed(windows_there(pair).padding_for((1024,) * axes_of(pair))) for n in pads)
    layer = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}.get(mode)
    before = f"nn.{layer}{axes_of(pair)}d({shown(collapsed(sides))})" if layer else "ops.concat of both ends"
    return Finding(
        f"pad_mode={read(pair.cell, 'pad_mode')!r} (zeros)",
        f"padding_mode={mode!r}",
        f'{before} in front, and pad_mode="valid"',
    )


def _padding_counts(pair: Pair) -> Finding | None:
    """Whether padding counts in the mean: never with "same"."""
    here, there = windows_here(pair), windows_there(pair)
    ours, theirs = read(pair.cell, "count_include_pad"), read(pair.module, "count_include_pad")
    if here is None or ours is MISSING or not _pads(there.padding):
        return None
    if here.padding == "same":
        if not theirs or pair.shape is None or _padding(pair):  # other padding has a line of its own
            return None
        ours_text = "pad_mode='same' (its padding doesn't count)"
        return Finding(ours_text, f"count_include_pad={theirs}", _padding_to_write(pair, "same"))
    if ours == theirs or not _pads(here.padding):
        return None
    return Finding(
        f"count_include_pad={ours}", f"count_include_pad={theirs}", f"count_include_pad={theirs}"
    )  # fmt: skip


def _pads(padding: Any) -> bool:
    return any(map(any, padding))


def _output_sizes(of: Any, pair: Pair) -> Any:
    """The sizes asked for; None is that of the input."""
    found, axes = read(of, "output_size"), axes_of(pair)
    if found is MISSING:
        return MISSING
    found = found if isinstance(found, tuple) else (found,) * axes
    spatial = pair.shape[-axes:] if pair.shape else found
    return tuple(n if size is None else size for size, n in zip(found, spatial, strict=True))


def _adaptive_shapes(pair: Pair) -> Any:
    if pair.shape is None:
        return None
    leading = pair.shape[: -axes_of(pair)]
    return (*leading, *_output_sizes(pair.cell, pair)), (*leading, *_output_sizes(pair.module, pair))


CONVOLUTION = (
    Difference(
        CONVOLUTIONS, "pad_mode, padding", "padding", _padding,
        'Cells pad "same" by default, and torch doesn\'t pad. Write `pad_mode="pad"`, and `padding` if it isn\'t 0. '
        '"same" puts an odd element of padding behind, so that it also differs from torch where the shapes agree. '
        "Four numbers are (top, bottom, left, right).",
    ),
    Difference(
        TRANSPOSED, "pad_mode, output_padding", "output_padding", _grown,
        '"same" and "valid" make the output `stride` elements long for each of the input; torch only as long as the '
        'windows reach. `output_padding` needs `pad_mode="pad"`; Conv1dTranspose has none.',
    ),
    Difference(
        CONVOLUTIONS, "pad_mode", "padding_mode", _padding_filled,
        "Convolutions pad with zeros only: write a layer that pads in front of them.",
    ),
    argument(
        CONVOLUTIONS, "has_bias", "bias", "Convolutions have no bias by default; torch's have one.",
        of_module=lambda pair: read(pair.module, "bias") is not None,
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
        AVG_POOLS, "count_include_pad", "count_include_pad", _padding_counts, 'Without effect with `pad_mode="same"`.'
    ),
    argument(("AvgPool2d", "AvgPool3d"), "divisor_override"),
    _windows(MAX_POOLS, "dilation"),
    argument(MAX_POOLS, "return_indices"),
    argument(
        ADAPTIVE_POOLS, "output_size", of_cell=lambda pair: collapsed(_output_sizes(pair.cell, pair)),
        of_module=lambda pair: collapsed(_output_sizes(pair.module, pair)), shapes=_adaptive_shapes,
    ),
)  # fmt: skip
