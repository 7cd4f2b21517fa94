"""An entry of the table, and how it finds out whether it applies to a pair of layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...correspondence.layers import kind_of_module, kind_of_name
from .reading import MISSING, code, format_value, read_argument, same, shape_text

Shape = tuple[int, ...]
ANY: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerPair:
    """A layer, or an optimizer, of each framework.

    Attributes:
        module: the torch module, or optimizer.
        cell: its counterpart.
        inputs: the arrays of the first call of `module`; empty if it wasn't called.
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
    """A difference in a pair.

    Attributes:
        in_cell: argument and value of the Cell.
        in_module: argument and value of the module.
        write: code that makes the Cell right.
        effect: the effect on both sides, e.g. two shapes.
        reshapes: whether it changes the shapes of the outputs.
    """

    in_cell: str
    in_module: str
    write: str
    effect: tuple[str, str] | None = None
    reshapes: bool = False

    def line(self, layer: str) -> str:
        """Format it: `Conv2d: pad_mode='same' in the candidate, padding=0 in the reference; write pad_mode="pad"`."""
        effect = f" -> {self.effect[0]} against {self.effect[1]}" if self.effect else ""
        return (
            f"{layer}: {self.in_cell} in the candidate, {self.in_module} in the reference{effect}; write {self.write}"
        )


Find = Callable[[LayerPair], Finding | None]


@dataclass(frozen=True)
class Difference:
    """An entry of the table: one way in which the two APIs differ.

    Attributes:
        layers: classes of Cells that it applies to; `ANY` for all.
        cell_arguments: the Cell's arguments, separated by ", ".
        module_arguments: the module's arguments.
        find: returns the difference in a pair of such layers; None if the entry doesn't apply.
        rule: how the arguments correspond, for the documentation; empty if they mean the same.
        originals: torch classes that it applies to; those of the same kind as `layers` if empty.
    """

    layers: tuple[str, ...]
    cell_arguments: str
    module_arguments: str
    find: Find = field(repr=False)
    rule: str = ""
    originals: tuple[str, ...] = ()

    def concerns(self, pair: LayerPair) -> bool:
        """Whether the entry is about this pair of layers."""
        if not self.layers:
            return True
        names = [name for name in class_names(pair.cell) if name in self.layers]
        if self.originals:
            return bool(names) and torch_class_name(pair.module) in self.originals
        return any(kind_of_name(name) == kind_of_module(pair.module) for name in names)


def torch_class_name(module: Any) -> str:
    """Return the most derived torch class of a module or optimizer, since AdamW is also an Adam."""
    names = (b.__name__ for b in type(module).__mro__ if b.__module__.partition(".")[0] == "torch")
    return next(names, "")


def class_names(cell: Any) -> list[str]:
    """Return the library classes that a Cell is an instance of."""
    return [b.__name__ for b in type(cell).__mro__ if b.__module__.partition(".")[0] in ("cellbridge", "mindspore")]


def argument(
    layers: tuple[str, ...],
    cell_argument: str,
    module_argument: str = "",
    rule: str = "",
    *,
    of_cell: Callable[[LayerPair], Any] | None = None,
    of_module: Callable[[LayerPair], Any] | None = None,
    needed: Callable[[LayerPair, Any], Any] | None = None,
    meaning: tuple[str, str] = ("", ""),
    write: Callable[[Any], str] | None = None,
    shapes: Callable[[LayerPair], tuple[Shape, Shape] | None] | None = None,
    originals: tuple[str, ...] = (),
) -> Difference:
    """Return an entry about an argument that both layers have.

    Args:
        layers: see `Difference`.
        cell_argument: its name in the Cell.
        module_argument: its name in the module; the same if empty.
        rule: see `Difference`.
        of_cell: reads its value from the Cell; by default, the attribute of its name. `MISSING` if unknown.
        of_module: reads its value from the module, likewise.
        needed: maps the module's value to the Cell's equivalent value; by default the same value. `MISSING` if any
            value is right.
        meaning: the meanings of the values on the two sides, if they differ.
        write: code for the needed value; `cell_argument=value` by default.
        shapes: returns the shapes of the two outputs.
        originals: see `Difference`.
    """
    module_argument = module_argument or cell_argument

    def find(pair: LayerPair) -> Finding | None:
        cell_value = of_cell(pair) if of_cell else read_argument(pair.cell, cell_argument)
        module_value = of_module(pair) if of_module else read_argument(pair.module, module_argument)
        if cell_value is MISSING or module_value is MISSING:
            return None
        right = needed(pair, module_value) if needed else module_value
        if right is MISSING or same(cell_value, right):
            return None
        output_shapes = shapes(pair) if shapes else None
        cell_text, module_text = (
            f"{name}={format_value(value)}{f' ({text})' if text else ''}"
            for name, value, text in zip(
                (cell_argument, module_argument), (cell_value, module_value), meaning, strict=True
            )
        )
        code_to_write = write(right) if write else f"{cell_argument}={code(right)}"
        return Finding(cell_text, module_text, code_to_write, *shape_effect(output_shapes))

    return Difference(layers, cell_argument, module_argument, find, rule, originals)


def shape_effect(shapes: tuple[Shape, Shape] | None) -> tuple[tuple[str, str] | None, bool]:
    """Return `effect` and `reshapes` of a finding for both shapes of the output, if these are known."""
    if shapes is None or shapes[0] == shapes[1]:
        return None, False
    return (shape_text(shapes[0]), shape_text(shapes[1])), True
