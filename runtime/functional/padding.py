"""Padding, with widths from the last axis backwards (`pad`), or for every axis (`Pad`, `MirrorPad`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import one_of
from ..common.tensor import Tensor, from_array
from ..ops import indexing, slicing
from .arguments import integer, integers, known_size
from .operands import as_tensor
from .public_op import Primitive, public_op

_MODES = ("constant", "reflect", "replicate", "edge", "circular")


@public_op()
def pad(input_x: Any, padding: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Pad `input_x` at both ends of its last axes.

    Args:
        input_x: any tensor.
        padding: `(before, after)` for the last axis, then for the second last, and so on: an even number of ints.
            Negative ints crop.
        mode: "constant", "reflect" (without repeating the edge), "replicate" or "edge", "circular".
        value: the value for "constant"; None means 0.

    Raises:
        ValueError: `padding` has an odd length or more pairs than there are axes, `mode` is unknown, `value` is given
            for a mode other than "constant", or "reflect" or "circular" needs more elements than there are.
    """
    x = as_tensor(input_x, "input_x", of="pad")
    amounts = integers(padding, "padding", of="pad")
    one_of(mode, "mode", _MODES, of="pad")
    if len(amounts) % 2 or len(amounts) > 2 * x.ndim:
        raise ValueError(
            f"For 'pad', 'padding' must hold a pair for each of at most {x.ndim} axes, but got {len(amounts)} numbers"
        )
    if mode != "constant" and value is not None:
        raise ValueError(f"For 'pad', 'value' is only for the mode 'constant', but got {value} with mode {mode!r}")
    pairs = [(amounts[i], amounts[i + 1]) for i in range(0, len(amounts), 2)][::-1]
    return _pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, mode, 0 if value is None else value)


def _pad(x: Any, pairs: Any, mode: str, value: float = 0) -> Any:
    before, after = tuple(b for b, _ in pairs), tuple(a for _, a in pairs)
    return slicing.pad(x, before=before, after=after, mode="replicate" if mode == "edge" else mode, value=value)


@public_op(primitive=Primitive("PadV3", init_args=("mode", "paddings_contiguous")))
def pad_from_last(
    input_x: Any, paddings: Any, constant_value: Any = None, mode: str = "constant", paddings_contiguous: bool = True
) -> Any:
    """Same as `pad`; with `paddings_contiguous=False`, `paddings` holds all widths before, then all widths after."""
    amounts = integers(paddings, "paddings", of="PadV3")
    if not paddings_contiguous:
        half = len(amounts) // 2
        amounts = tuple(n for pair in zip(amounts[:half], amounts[half:], strict=True) for n in pair)
    value = constant_value.item() if isinstance(constant_value, Tensor) else constant_value
    return pad(input_x, amounts, mode, value)


@public_op(primitive=Primitive("Pad", init_args=("paddings",)))
def pad_each_axis(input_x: Any, paddings: Any) -> Any:
    """Pad `input_x` with zeros; `paddings` holds a pair `(before, after)` for every axis, from the first."""
    x = as_tensor(input_x, "input_x", of="Pad")
    return _pad(x, _pairs(paddings, x, of="Pad"), "constant")


@public_op(primitive=Primitive("MirrorPad", init_args=("mode",)))
def mirror_pad(input_x: Any, paddings: Any, mode: str = "REFLECT") -> Any:
    """Pad `input_x` by mirroring it at both ends; "SYMMETRIC" repeats the edge, "REFLECT" doesn't.

    Args:
        input_x: any tensor.
        paddings: a pair `(before, after)` for every axis, from the first: nested, or an integer tensor (axes, 2).
        mode: "REFLECT" or "SYMMETRIC".

    Raises:
        ValueError: there is no pair for every axis, `mode` is unknown, or an axis is too short.
    """
    x = as_tensor(input_x, "input_x", of="MirrorPad")
    one_of(mode, "mode", ("REFLECT", "SYMMETRIC"), of="MirrorPad")
    pairs = _pairs(paddings, x, of="MirrorPad")
    if mode == "REFLECT":
        return _pad(x, pairs, "reflect")
    for axis, (before, after) in enumerate(pairs):
        size = known_size(x.shape[axis], "For 'MirrorPad', the size of an axis")
        if max(before, after) > size:
            raise ValueError(f"For 'MirrorPad', SYMMETRIC adds at most {size} elements to axis {axis}, not {pairs}")
        if before or after:
            x = indexing.take(x, from_array(np.pad(np.arange(size), (before, after), "symmetric")), axis=axis)
    return x


def _pairs(paddings: Any, x: Any, *, of: str) -> list[tuple[int, int]]:
    """Return a pair of non-negative numbers for each axis of `x`."""
    rows = paddings.tolist() if isinstance(paddings, (Tensor, np.ndarray)) else paddings
    if not isinstance(rows, (tuple, list)) or len(rows) != x.ndim:
        raise ValueError(f"For '{of}', 'paddings' must hold a pair for each of {x.ndim} axes, but got {paddings!r}")
    pairs = []
    for row in rows:
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise ValueError(f"For '{of}', 'paddings' must hold pairs, but got {row!r}")
        before, after = (integer(n, "paddings", of=of) for n in row)
        if before < 0 or after < 0:
            raise ValueError(f"For '{of}', 'paddings' must not be negative, but got {row!r}")
        pairs.append((before, after))
    return pairs
