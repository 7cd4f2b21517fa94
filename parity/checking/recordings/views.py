"""Which part of a candidate's tensor is the reference's, and in which order of axes: `[..., 0:384]`, `[*]`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

from ....runtime.errors import ShapeError, UsageError
from ...sides.records import Array

STAR = "*"
_PART = re.compile(r"(\.\.\.)|(\*)|(-?[0-9]{1,12})?(:)?(-?[0-9]{1,12})?")

Index = tuple[object, ...]
"""Of NumPy; `STAR` stands for the number that the `*` of the name matches."""


@dataclass(frozen=True)
class View:
    """A part of a tensor, with its axes in another order.

    Attributes:
        index: the part; empty for the whole tensor.
        transpose: for each axis of the reference's, the axis of that part; empty for the same order. Tensors with
            another number of axes are left as they are.
        reshapes: whether the part is read in the reference's shape if it has as many elements.
    """

    index: Index = ()
    transpose: tuple[int, ...] = ()
    reshapes: bool = field(default=False, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether it is the tensor as it is."""
        return not self.index and not self.transpose

    def filled(self, texts: tuple[str, ...], where: str) -> View:
        """Return the view with the number that the `*` of its line matches, which must be one."""
        if STAR not in self.index:
            return self
        numbers = [text for text in texts if text.isdecimal()]
        if len(numbers) != 1:
            raise UsageError(f"{where}: [*] needs one `*` in the name that matches a number, given {list(texts)}")
        return replace(self, index=tuple(int(numbers[0]) if part == STAR else part for part in self.index))

    def of(self, array: Array, name: str) -> Array:
        """Return the part of an array; raise `ShapeError` if it has no such part."""
        try:
            part: Array = array[self.index] if self.index else array  # type: ignore[index]
            return part.transpose(self.transpose) if part.ndim == len(self.transpose) else part
        except (IndexError, ValueError) as error:
            raise ShapeError(f"{name}, of shape {list(array.shape)}, has no part {self}: {error}") from error

    def in_shape(self, part: Array, shape: tuple[int, ...] | None) -> Array:
        """Return a part in the shape of the reference's tensor, if it has as many elements; axes aren't exchanged."""
        if not self.reshapes or shape is None or part.size != math.prod(shape):
            return part
        sizes = [[size for size in each if size != 1] for each in (part.shape, shape)]
        is_exchanged = sizes[0] != sizes[1] and sorted(sizes[0]) == sorted(sizes[1])
        return part if is_exchanged else part.reshape(shape)

    def __str__(self) -> str:
        parts = ["..." if p is ... else _slice(p) if isinstance(p, slice) else str(p) for p in self.index]
        text = f"[{', '.join(parts)}]" if parts else ""
        return text + (f" with axes {list(self.transpose)}" if self.transpose else "")


WHOLE = View()
"""A tensor as it is."""


def parse_index(text: str, where: str) -> Index:
    """Parse `[..., 0:384]`; raise `UsageError` for anything else."""
    if text == "":
        return ()
    parts = [part.strip() for part in text[1:-1].split(",")]
    if not (text.startswith("[") and text.endswith("]")) or not all(parts):
        raise UsageError(f"{where}: needed an index such as [..., 0:384] or [*], given {text!r}")
    index: list[object] = []
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(f"{where}: needed numbers, a:b, ... or * in an index, given {part!r}")
        if match[1]:
            index.append(...)
        elif match[2]:
            index.append(STAR)
        elif match[4]:
            index.append(slice(int(match[3]) if match[3] else None, int(match[5]) if match[5] else None))
        else:
            index.append(int(part))
    if index.count(...) > 1:
        raise UsageError(f"{where}: an index may have one ..., given {text!r}")
    return tuple(index)


def _slice(part: slice) -> str:
    start, stop = ("" if end is None else str(end) for end in (part.start, part.stop))
    return f"{start}:{stop}"
