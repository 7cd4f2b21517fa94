"""Layers without Parameters that give their input another shape or place: flattening, padding, one-hot, triangles."""

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
    """The axes from `start_dim` to `end_dim` as one.

    Args:
        start_dim: the first of them.
        end_dim: the last of them.
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
    """One axis as several.

    Args:
        axis: the axis.
        unflattened_size: their sizes, a tuple or list; -1 for one that follows from the others.
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
    """`on_value` at the place along a new axis that each index names, `off_value` elsewhere.

    Args:
        axis: where the new axis stands.
        depth: its size. An index outside of it names no place.
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
        """Integers of any shape; one more axis out."""
        marks = indexing.one_hot(indices, self.depth, self.on_value, self.off_value, self.axis)
        return elementwise.cast(marks, dtype=self.dtype)

    def extend_repr(self) -> str:
        """Axis and depth."""
        return f"axis={self.axis}, depth={self.depth}"


class Pad(Cell):
    """Elements added at both ends of every axis.

    Args:
        paddings: the pair (before, after) of every axis from the first.
        mode: "CONSTANT" adds zeros; "REFLECT" mirrors at the edge without repeating it, "SYMMETRIC" repeating it.

    Raises:
        TypeError: `paddings` isn't a tuple.
        ValueError: it doesn't hold pairs, or `mode` is another.
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
        """As many dimensions as there are pairs, long enough for the mode (else `ValueError`)."""
        if self.mode == "CONSTANT":
            return padding.pad_each_axis(x, self.paddings)
        return padding.mirror_pad(x, self.paddings, self.mode)

    def extend_repr(self) -> str:
        """Paddings and mode."""
        return f"paddings={self.paddings}, mode={self.mode}"


class Roll(Cell):
    """Elements moved along axes; what leaves at one end comes in at the other.

    Args:
        shift: by how many places, an int, tuple or list.
        axis: along which axes, as many.

    Raises:
        ValueError: there are not as many shifts as axes.
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
        """(..., n, m) and the number of the diagonal, counted upwards from the main one; the same shape out."""
        return matrices.tril(x, k)


class Triu(Cell):
    """The elements on and above a diagonal; 0 elsewhere."""

    def construct(self, x: Any, k: int = 0) -> Any:
        """(..., n, m) and the number of the diagonal, counted upwards from the main one; the same shape out."""
        return matrices.triu(x, k)


class Upsample(Cell):
    """Another size by interpolation: `ops.interpolate`, whose arguments it takes.

    Args:
        size: the new spatial sizes, or one for all.
        scale_factor: instead of `size`: by how much they grow.
        mode: "nearest", "linear", "bilinear", "trilinear", "bicubic" or "area".
        align_corners: whether the centres of the corner elements keep their places.
        recompute_scale_factor: whether positions are computed from the new sizes, not from `scale_factor`.
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
        """(N, C, ...) with one to three spatial dimensions; the same with other sizes out."""
        return resizing.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extend_repr(self) -> str:
        """Size or factor, and mode."""
        wanted = f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}"
        return f"{wanted}, mode={self.mode}"
