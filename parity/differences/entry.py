"""What one entry of the table is, and how it finds that it applies to a pair of layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..pairing.layers import kind_of_module, kind_of_name
from .reading import MISSING, code, read, same, shape_text, shown

Shape = tuple[int, ...]
ANY: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """A layer of each framework, or an optimizer of each.

    Attributes:
        module: the torch module, or optimizer.
        cell: its counterpart.
        inputs: the arrays that `module` was called with first; empty if it wasn't called.
    """

    module: Any
    cell: Any
    inputs: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The class of the counterpart."""
        return str(self.cell.cls_name)

    @property
    def shape(self) -> Shape | None:
        """The shape of the first input, if it is known."""
        return tuple(self.inputs[0].shape) if self.inputs else None


@dataclass(frozen=True)
class Finding:
    """What differs in a pair.

    Attributes:
        here: argument and value of the Cell.
        there: argument and value of the module.
        write: code that makes the Cell right.
        effect: what comes of it on both sides, e.g. two shapes.
        reshapes: whether the shapes of the outputs differ by it.
    """

    here: str
    there: str
    write: str
    effect: tuple[str, str] | None = None
    reshapes: bool = False

    def line(self, layer: str) -> str:
        """For a reader: `Conv2d: pad_mode='same' here, padding=0 there -> ... against ...; write pad_mode="pad"`."""
        effect = f" -> {self.effect[0]} against {self.effect[1]}" if self.effect else ""
        return f"{layer}: {self.here} here, {self.there} there{effect}; write {self.write}"


Find = Callable[[Pair], Finding | None]


@dataclass(frozen=True)
class Difference:
    """An entry of the table: one way in which the two APIs differ.

    Attributes:
        layers: classes of Cells that it is about; `ANY` for all.
        here: the Cell's arguments, separated by ", ".
        there: the module's arguments.
        find: what differs in a pair of such layers; None where this entry doesn't apply.
        rule: how the arguments correspond, for the documentation; empty where they mean the same.
        originals: classes of torch that it is about; those of the same kind as `layers` if empty.
    """

    layers: tuple[str, ...]
    here: str
    there: str
    find: Find = field(repr=False)
    rule: str = ""
    originals: tuple[str, ...] = ()

    def concerns(self, pair: Pair) -> bool:
        """Whether the two are layers that it is about."""
        if not self.layers:
            return True
        names = [name for name in class_names(pair.cell) if name in self.layers]
        if self.originals:
            return bool(names) and original(pair.module) in self.originals
        return any(kind_of_name(name) == kind_of_module(pair.module) for name in names)


def original(module: Any) -> str:
    """The class of torch that a module or optimizer is an instance of: the innermost, as AdamW is an Adam."""
    found = (b.__name__ for b in type(module).__mro__ if b.__module__.partition(".")[0] == "torch")
    return next(found, "")


def class_names(cell: Any) -> list[str]:
    """The classes of the libraries, without those of users, that a Cell is an instance of."""
    return [b.__name__ for b in type(cell).__mro__ if b.__module__.partition(".")[0] in ("cellbridge", "mindspore")]


def argument(
    layers: tuple[str, ...],
    here: str,
    there: str = "",
    rule: str = "",
    *,
    of_cell: Callable[[Pair], Any] | None = None,
    of_module: Callable[[Pair], Any] | None = None,
    needed: Callable[[Pair, Any], Any] | None = None,
    meaning: tuple[str, str] = ("", ""),
    write: Callable[[Any], str] | None = None,
    shapes: Callable[[Pair], tuple[Shape, Shape] | None] | None = None,
    originals: tuple[str, ...] = (),
) -> Difference:
    """An entry about an argument that both layers have.

    Args:
        layers: see `Difference`.
        here: its name in the Cell.
        there: its name in the module; the same if empty.
        rule: see `Difference`.
        of_cell: reads its value; by default, the attribute of its name. `MISSING` where it can't be known.
        of_module: likewise.
        needed: the value here that means what the module's means; that value itself by default. `MISSING` where
            any is right.
        meaning: what the values mean on the two sides, where it isn't the same.
        write: code for the needed value; `here=value` by default.
        shapes: the shapes of the two outputs.
        originals: see `Difference`.
    """
    there = there or here

    def find(pair: Pair) -> Finding | None:
        ours = of_cell(pair) if of_cell else read(pair.cell, here)
        theirs = of_module(pair) if of_module else read(pair.module, there)
        if ours is MISSING or theirs is MISSING:
            return None
        right = needed(pair, theirs) if needed else theirs
        if right is MISSING or same(ours, right):
            return None
        found = shapes(pair) if shapes else None
        ours_text, theirs_text = (
            f"{name}={shown(value)}{f' ({text})' if text else ''}"
            for name, value, text in zip((here, there), (ours, theirs), meaning, strict=True)
        )
        written = write(right) if write else f"{here}={code(right)}"
        return Finding(ours_text, theirs_text, written, *reshaped(found))

    return Difference(layers, here, there, find, rule, originals)


def reshaped(shapes: tuple[Shape, Shape] | None) -> tuple[tuple[str, str] | None, bool]:
    """`effect` and `reshapes` of a finding, given both shapes of the output, as far as they are known."""
    if shapes is None or shapes[0] == shapes[1]:
        return None, False
    return (shape_text(shapes[0]), shape_text(shapes[1])), True
