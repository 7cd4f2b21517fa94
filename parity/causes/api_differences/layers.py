"""The table: dense layers, embeddings, dropout, and layers that rearrange elements."""

from __future__ import annotations

from typing import Any

from .entry import Difference, Finding, LayerPair, argument, shape_effect
from .reading import MISSING, collapse, format_value, is_mindspore, plain_value, read_argument, same

PADS = tuple(f"{mode}Pad{axes}d" for mode in ("Constant", "Reflection", "Replication") for axes in (2, 1, 3))
CHANNEL_DROPOUTS = ("Dropout2d", "Dropout1d", "Dropout3d")
SAMPLERS = ("Upsample",)


# ---- dense layers and embeddings ----


def _activation(pair: LayerPair) -> Finding | None:
    activation = read_argument(pair.cell, "activation")
    if activation is MISSING or activation is None:
        return None
    name = getattr(activation, "cls_name", None) or getattr(activation, "__name__", type(activation).__name__)
    return Finding(f"activation={name}", "activation=None (Linear has none)", "activation=None")


def _padding_idx(pair: LayerPair) -> Finding | None:
    row = read_argument(pair.module, "padding_idx")
    if row is None:
        return None
    return Finding(
        f"padding_idx={read_argument(pair.cell, 'padding_idx')} (row {row} is trained)",
        f"padding_idx={row} (its gradient is 0)",
        f"embedding(ids) * (ids != {row}).expand_dims(-1)",
    )


def _only_in_torch(layers: tuple[str, ...], name: str, default: Any, write: str, rule: str) -> Difference:
    """Return an entry about an argument that Cells don't have."""

    def find(pair: LayerPair) -> Finding | None:
        value = read_argument(pair.module, name)
        if value is MISSING or same(value, default):
            return None
        return Finding(f"{name}={format_value(default)} (there is no other)", f"{name}={format_value(value)}", write)

    return Difference(layers, "", name, find, rule)


def _sizes_are_whole(pair: LayerPair) -> bool:
    """Whether the output sizes are whole numbers, or given: then recomputing the scale changes nothing."""
    scale = read_argument(pair.module, "scale_factor")
    if scale in (None, MISSING):
        return True
    axes = pair.shape[2:] if pair.shape else ()
    scales = scale if isinstance(scale, tuple) else (scale,) * len(axes)
    return bool(axes) and all(float(size * by).is_integer() for size, by in zip(axes, scales, strict=True))


# ---- dropout ----


def _dropout(pair: LayerPair) -> Finding | None:
    p, keep = read_argument(pair.cell, "p"), read_argument(pair.cell, "keep_prob")
    module_p = pair.module.p
    if p in (None, MISSING):
        if keep is MISSING or same(1 - keep, module_p):
            return None
        return Finding(f"keep_prob={format_value(keep)}", f"p={format_value(module_p)}", f"p={format_value(module_p)}")
    return (
        None
        if same(p, module_p)
        else Finding(f"p={format_value(p)}", f"p={format_value(module_p)}", f"p={format_value(module_p)}")
    )


def _drop_of_channels(pair: LayerPair) -> Any:
    p, keep = read_argument(pair.cell, "p"), read_argument(pair.cell, "keep_prob")
    return 1 - keep if p is MISSING and keep is not MISSING else p


# ---- shapes ----


def _one_for_all(layers: tuple[str, ...], name: str) -> Difference:
    """Return an entry about an argument with one number for all axes, or one for each."""
    return argument(
        layers,
        name,
        of_cell=lambda pair: collapse(read_argument(pair.cell, name)),
        of_module=lambda pair: collapse(read_argument(pair.module, name)),
    )


def _flat_sides(pair: LayerPair) -> Any:
    return MISSING if is_mindspore(pair.cell) and "Constant" not in pair.name else _per_side(pair.cell, pair)


def _per_side(layer: Any, pair: LayerPair) -> Any:
    """Return a number for each side, from the last axis on."""
    padding, module = read_argument(layer, "padding"), read_argument(pair.module, "padding")
    if isinstance(padding, int) and isinstance(module, tuple):
        padding = (padding,) * len(module)
    return collapse(padding)


def _order_of_axes(pair: LayerPair) -> Finding | None:
    """Find a wrong order of axes: `nn.Pad` starts from the first axis."""
    pads = read_argument(pair.cell, "paddings")
    padding = plain_value(pair.module.padding)
    if pads is MISSING or not isinstance(padding, tuple):
        return None
    if not isinstance(pads, tuple):  # an array
        pads = tuple(map(tuple, pads.tolist()))
    last = [(padding[i], padding[i + 1]) for i in range(0, len(padding), 2)][::-1]
    needed = (*((0, 0),) * (len(pads) - len(last)), *last)
    pads = tuple(map(tuple, pads))
    if pads == needed:
        return None
    shape = pair.shape
    shapes = None
    if shape is not None and len(shape) == len(pads) == len(needed):
        results = [tuple(n + sum(sides) for n, sides in zip(shape, pad, strict=True)) for pad in (pads, needed)]
        shapes = (results[0], results[1])
    return Finding(f"paddings={pads}", f"padding={padding}", f"paddings={needed}", *shape_effect(shapes))


def _mode_of_pad(pair: LayerPair) -> Finding | None:
    needed = {"reflectionpad": "REFLECT"}.get(type(pair.module).__name__.lower()[:-2], "CONSTANT")
    mode = read_argument(pair.cell, "mode")
    if mode in (MISSING, needed):
        return None
    return Finding(f"mode={mode!r}", f"{type(pair.module).__name__}", f'mode="{needed}"')


TORCH_PADS = (*PADS, "ZeroPad2d")

LAYERS = (
    Difference(
        ("Dense",), "activation", "", _activation, "A Dense can include an activation; Linear can't."
    ),
    argument(
        ("Dense", "Linear"), "has_bias", "bias", "Another name.",
        of_module=lambda pair: read_argument(pair.module, "bias") is not None,
    ),
    argument(
        ("Dense",), "in_channels", "in_features", "Another name; nn.Linear has torch's.",
    ),
    argument(("Dense",), "out_channels", "out_features", "Another name; nn.Linear has torch's."),
    argument(("Embedding", "EmbeddingLookup"), "vocab_size", "num_embeddings", "Another name."),
    argument(("Embedding", "EmbeddingLookup"), "embedding_size", "embedding_dim", "Another name."),
    Difference(
        ("Embedding",), "padding_idx", "padding_idx", _padding_idx,
        "The row is 0 at first, but its gradient isn't masked: it is trained like the others.",
    ),
    _only_in_torch(
        ("Embedding",), "max_norm", None, "nn.EmbeddingLookup(..., max_norm=...)",
        "nn.EmbeddingLookup has it; torch changes the table itself.",
    ),
    Difference(
        ("Dropout",), "keep_prob, p", "p", _dropout,
        "The first positional argument is the probability of **keeping** an element; `p=` is torch's, and wins if "
        "both are given.",
    ),
    argument(CHANNEL_DROPOUTS, "p", of_cell=_drop_of_channels),
    argument(("Flatten",), "start_dim"),
    argument(("Flatten",), "end_dim"),
    argument(("Unflatten",), "axis", "dim", "Another name."),
    argument(("Unflatten",), "unflattened_size"),
    argument(("PixelShuffle",), "upscale_factor"),
    argument(("PixelUnshuffle",), "downscale_factor"),
    argument(
        TORCH_PADS, "padding", of_cell=_flat_sides, of_module=lambda pair: _per_side(pair.module, pair),
        rule="The same order as torch's, from the last axis on: (left, right, top, bottom).",
    ),
    argument(PADS[:3], "value"),
    Difference(
        ("Pad",), "paddings", "padding", _order_of_axes,
        "Pairs for every axis from the **first** on; torch's padding is flat, from the last axis on.",
        originals=TORCH_PADS,
    ),
    Difference(
        ("Pad",), "mode", "the class", _mode_of_pad, "'CONSTANT', 'REFLECT' or 'SYMMETRIC'.", originals=TORCH_PADS
    ),
    _one_for_all(SAMPLERS, "size"),
    _one_for_all(SAMPLERS, "scale_factor"),
    argument(SAMPLERS, "mode"),
    argument(
        SAMPLERS, "align_corners", rule="None counts as False: half-pixel centres, as in torch. The operator object "
        "`ops.ResizeBilinearV2` needs `half_pixel_centers=True` for that.",
        of_cell=lambda pair: bool(read_argument(pair.cell, "align_corners")),
        of_module=lambda pair: bool(read_argument(pair.module, "align_corners")),
    ),
    argument(
        SAMPLERS, "recompute_scale_factor",
        of_cell=lambda pair: bool(read_argument(pair.cell, "recompute_scale_factor")),
        of_module=lambda pair: bool(read_argument(pair.module, "recompute_scale_factor")),
        needed=lambda pair, value: MISSING if _sizes_are_whole(pair) else value,
    ),
)  # fmt: skip
