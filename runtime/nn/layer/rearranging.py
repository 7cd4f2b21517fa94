"""Layers without Parameters that rearrange their input: flattening, padding, one-hot encoding, triangles."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.dtype import float32, to_dtype
from ...functional import indexing, matrices, padding, resizing, shapes
from ...functional.operands import as_tensor
from ...ops import elementwise, shaping
from ...ops.common import normalize_axis
from ..cell import Cell


class Flatten(Cell):
    """Flattens the axes from `start_dim` to `end_dim` into one.

    Args:
        start_dim: the first axis.
        end_dim: the last axis, inclusive.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = checks.of_type(start_dim, "start_dim", int, of="Flatten")
        self.end_dim = checks.of_type(end_dim, "end_dim", int, of="Flatten")

    def construct(self, x: Any) -> Any:
        """Any shape that has these axes (else `ValueError`); the same elements out."""
        x = as_tensor(x, "x", of="Flatten")
        for name, axis in (("start_dim", self.start_dim), ("end_dim", self.end_dim)):
            if not -max(x.ndim, 1) <= axis < max(x.ndim, 1):
                raise ValueError(
                    f"For 'Flatten', '{name}' {axis} is out of range for an input of {x.ndim} dimensions, shape "
                    f"{tuple(x.shape)}"
                )
        return shapes.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)

    def extend_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Cell):
    """Splits one axis into several.

    Args:
        axis: the axis.
        unflattened_size: the sizes of the new axes, a tuple or list; -1 for one that follows from the others.
    """

    def __init__(self, axis: int, unflattened_size: Any) -> None:
        super().__init__()
        self.axis = checks.of_type(axis, "axis", int, of="Unflatten")
        self.unflattened_size = tuple(
            checks.of_type(unflattened_size, "unflattened_size", (tuple, list), of="Unflatten")
        )

    def construct(self, input_x: Any) -> Any:
        """Any shape whose axis has the product of the sizes (else `ValueError`); the same elements out."""
        axis = normalize_axis(self.axis, input_x.ndim)
        shape = tuple(input_x.shape)
        return shapes.reshape(input_x, (*shape[:axis], *self.unflattened_size, *shape[axis + 1 :]))

    def extend_repr(self) -> str:
        """Axis and sizes."""
        return f"axis={self.axis}, unflattened_size={self.unflattened_size}"


class OneHot(Cell):
    """One-hot encoding along a new axis: `on_value` at the position of each index, `off_value` elsewhere.

    Args:
        axis: the position of the new axis.
        depth: its size. An index out of range gives only `off_value`.
        on_value: a number.
        off_value: a number.
        dtype: dtype of the output.
    """

    def __init__(
        self, axis: int = -1, depth: int = 1, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = float32
    ) -> None:
        super().__init__()
        self.axis = checks.of_type(axis, "axis", int, of="OneHot")
        self.depth = checks.positive_int(depth, "depth", of="OneHot")
        self.on_value = on_value
        self.off_value = off_value
        self.dtype = to_dtype(dtype)

    def construct(self, indices: Any) -> Any:
        """Integers of any shape; returns one more axis."""
        marks = indexing.one_hot(indices, self.depth, self.on_value, self.off_value, self.axis)
        return elementwise.cast(marks, dtype=self.dtype)

    def extend_repr(self) -> str:
        """Axis and depth."""
        return f"axis={self.axis}, depth={self.depth}"


class Pad(Cell):
    """Pads both ends of every axis.

    Args:
        paddings: the pair (before, after) of every axis from the first.
        mode: "CONSTANT" adds zeros; "REFLECT" mirrors at the edge without repeating it, "SYMMETRIC" repeating it.

    Raises:
        TypeError: `paddings` isn't a tuple.
        ValueError: `paddings` doesn't consist of pairs, or `mode` is unknown.
    """

    def __init__(self, paddings: tuple[Any, ...], mode: str = "CONSTANT") -> None:
        super().__init__()
        checks.one_of(mode, "mode", ("CONSTANT", "REFLECT", "SYMMETRIC"), of="Pad")
        checks.of_type(paddings, "paddings", tuple, of="Pad")
        if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in paddings):
            raise ValueError(f"For 'Pad', 'paddings' must hold a pair for each axis, but got {paddings}")
        self.paddings = paddings
        self.mode = mode

    def construct(self, x: Any) -> Any:
        """A tensor with one axis per pair, each long enough for the mode (else `ValueError`)."""
        if self.mode == "CONSTANT":
            return padding.pad_each_axis(x, self.paddings)
        return padding.mirror_pad(x, self.paddings, self.mode)

    def extend_repr(self) -> str:
        """Paddings and mode."""
        return f"paddings={self.paddings}, mode={self.mode}"


class Roll(Cell):
    """Rolls elements along axes; elements that leave at one end enter at the other.

    Args:
        shift: the number of positions, an int, tuple or list.
        axis: the axes, one for each shift.

    Raises:
        ValueError: the numbers of shifts and axes differ.
    """

    def __init__(self, shift: Any, axis: Any) -> None:
        super().__init__()
        checks.of_type(shift, "shift", (int, tuple, list), of="Roll")
        checks.of_type(axis, "axis", (int, tuple, list), of="Roll")
        self.shift = (shift,) if isinstance(shift, int) else tuple(shift)
        self.axis = (axis,) if isinstance(axis, int) else tuple(axis)
        if len(self.shift) != len(self.axis):
            raise ValueError(
                f"For 'Roll', 'shift' and 'axis' must be equally long, but got {len(self.shift)} and {len(self.axis)}"
            )

    def construct(self, input_x: Any) -> Any:
        """Any shape that has these axes (else `ValueError`); the same out."""
        return shaping.roll(input_x, shifts=self.shift, axes=tuple(normalize_axis(a, input_x.ndim) for a in self.axis))

    def extend_repr(self) -> str:
        """Shifts and axes."""
        return f"shift={self.shift}, axis={self.axis}"


class Tril(Cell):
    """The elements on and below a diagonal; 0 elsewhere."""

    def construct(self, x: Any, k: int = 0) -> Any:
        """(..., n, m) and the number of the diagonal, counted upwards from the main one; returns the same shape."""
        return matrices.tril(x, k)


class Triu(Cell):
    """The elements on and above a diagonal; 0 elsewhere."""

    def construct(self, x: Any, k: int = 0) -> Any:
        """(..., n, m) and the number of the diagonal, counted upwards from the main one; returns the same shape."""
        return matrices.triu(x, k)


class Upsample(Cell):
    """Resizes by interpolation: `ops.interpolate`, with the same arguments.

    Args:
        size: the new spatial sizes, or one for all.
        scale_factor: the factor of the new sizes, instead of `size`.
        mode: "nearest", "linear", "bilinear", "trilinear", "bicubic" or "area".
        align_corners: whether the centres of the corner elements keep their places.
        recompute_scale_factor: whether to compute positions from the new sizes rather than from `scale_factor`.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def construct(self, x: Any) -> Any:
        """(N, C, ...) with one to three spatial dimensions; returns the same with other sizes."""
        return resizing.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extend_repr(self) -> str:
        """Size or factor, and mode."""
        target = f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}"
        return f"{target}, mode={self.mode}"
