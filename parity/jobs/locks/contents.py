"""`Snapshot`: what a network computed, in sketches of its tensors, and what its Cells are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TORCH = "torch"
ELEMENTS, PROJECTIONS = 6, 2
SKETCH_SIZE = ELEMENTS + PROJECTIONS


class Boundary(NamedTuple):
    """Where a tensor belongs, in the words of a recording; parameters and buffers have no Cell, and call 0."""

    run: str
    cell: str
    call: int
    role: str
    slot: str


@dataclass(frozen=True)
class Tensor:
    """One tensor.

    Attributes:
        dtype: its dtype.
        shape: its shape.
        bits: digest of its bits; empty for a gradient that never arrived.
        tracked: whether a gradient of it is computed, for inputs and outputs.
    """

    dtype: str
    shape: tuple[int, ...]
    bits: str
    tracked: bool = True


@dataclass(frozen=True)
class CellParts:
    """What a Cell is made of.

    Attributes:
        class_name: name of its class.
        code: digest of the class's source code, without comments and docstrings; empty if there is none.
        settings: the numbers, flags and words among its attributes, as Python writes them.
        error: the largest rounding error of its outputs, as far as sketches show, in units in the last place of a
            tensor's largest element; None if it isn't known.
    """

    class_name: str
    code: str
    settings: Mapping[str, str]
    error: float | None = None


@dataclass
class Snapshot:
    """What a network computed.

    Attributes:
        model: name of the network.
        dtype: working dtype.
        train: whether it ran in train mode; None for its own mode, as for `Options`.
        seed: seed of random numbers.
        grads: whether gradients were computed.
        side: what computed the run in the working dtype: torch, or ONNX Runtime of the exported network.
        cells: what the Cells are made of, by path.
        calls: the calls of all runs, as a recording has them.
        tensors: the tensors, by place.
        sketches: the numbers that stand for a tensor, by its bits.
    """

    model: str
    dtype: str
    train: bool | None
    seed: int
    grads: bool
    side: str = TORCH
    cells: dict[str, CellParts] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    tensors: dict[Boundary, Tensor] = field(default_factory=dict)
    sketches: dict[str, list[float | int]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of the model, and of what computed it if that isn't torch."""
        return self.model if self.side == TORCH else f"{self.model} in {self.side}"
