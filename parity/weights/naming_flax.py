"""Names and layouts of parameters in Flax, as far as names and shapes determine them.

A layer's `kernel` is torch's `weight` with its axes turned round: (inputs, outputs) of a Dense layer, and (space,
inputs, outputs) of a convolution. A norm has a `scale`, an Embed layer an `embedding`; running statistics are `mean`
and `var`.
"""

from __future__ import annotations

from collections.abc import Iterator

from .layouts import UNCHANGED, CheckpointLayout
from .naming import (
    COUNTER,
    STATISTICS,
    Answer,
    Drop,
    Habits,
    Question,
    Renaming,
    Shape,
    Shapes,
    group_by_module,
    is_norm,
    sounds_like_a_table,
)

RUNNING = {"running_mean": "mean", "running_var": "var"}
UNCOUNTED = "Flax counts no batches"


def to_flax(shapes: Shapes) -> Iterator[Answer]:
    """Yield the counterparts in Flax of torch's parameters and buffers."""
    for prefix, group in group_by_module(shapes).items():
        normalizes = group.keys() >= STATISTICS.keys() or is_norm(group)
        for leaf, shape in group.items():
            name = f"{prefix}{leaf}"
            if leaf == COUNTER:
                yield Drop(name, UNCOUNTED)
            elif leaf in RUNNING:
                yield Renaming(name, f"{prefix}{RUNNING[leaf]}")
            elif leaf != "weight" or not shape:
                yield Renaming(name, name)
            elif normalizes:
                yield Renaming(name, f"{prefix}scale")
            elif len(shape) == 1:
                yield _vector(prefix, shape)
            elif len(shape) == 2 and "bias" not in group:
                yield _matrix(prefix, shape)
            else:
                yield Renaming(name, f"{prefix}kernel", kernel(len(shape)))


def to_torch(shapes: Shapes) -> Iterator[Answer]:
    """Yield the counterparts in torch of Flax's variables."""
    back = {other: leaf for leaf, other in RUNNING.items()}
    for prefix, group in group_by_module(shapes).items():
        for leaf, shape in group.items():
            name, weight = f"{prefix}{leaf}", f"{prefix}weight"
            if leaf == "kernel" and len(shape) > 1:
                yield Renaming(name, weight, kernel(len(shape)))
            elif leaf in ("scale", "embedding"):
                yield Renaming(name, weight)
            elif leaf in back and group.keys() >= set(back):
                yield Renaming(name, f"{prefix}{back[leaf]}")
            else:
                yield Renaming(name, name)


def kernel(axes: int) -> CheckpointLayout:
    """Return the layout of a kernel: (outputs, inputs, space) as (space, inputs, outputs)."""
    return CheckpointLayout(transpose=True) if axes == 2 else CheckpointLayout(transpose=(*range(2, axes), 1, 0))


def _vector(prefix: str, shape: Shape) -> Question:
    name = f"{prefix}weight"
    guess = "negative_slope" if shape == (1,) or "act" in prefix or "relu" in prefix.lower() else "scale"
    choices = f'normalization without bias: "{prefix}scale"', f'PReLU: "{prefix}negative_slope"', f'your own: "{name}"'
    return Question(name, f"{prefix}{guess}", UNCHANGED, shape, choices)


def _matrix(prefix: str, shape: Shape) -> Question:
    name = f"{prefix}weight"
    table = sounds_like_a_table(prefix)
    dense = f'Dense: {{ to = "{prefix}kernel", transpose = true }}'
    choices = (f'Embed: "{prefix}embedding"', dense, f'your own: "{name}"')
    return Question(
        name, f"{prefix}{'embedding' if table else 'kernel'}", UNCHANGED if table else kernel(2), shape, choices
    )


OF_FLAX = Habits("Flax", to_flax, to_torch)
