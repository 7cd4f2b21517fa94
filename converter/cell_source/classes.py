"""The classes of a generated source: one for each kind of module, with arguments where its instances differ."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...runtime.namespace import unique_name
from .layers.network import CellModule
from .text.expressions import Literals, fill_holes, holes, identifier, skeleton
from .text.helpers import HELPERS
from .text.layout import INDENT, lay_out

TAKEN = (*HELPERS, *dir(builtins))
"""Names that no class gets: a class `open` or `len` would hide the function from the rest of the source."""


@dataclass
class Body:
    """The code of one module, with holes for literals.

    Attributes:
        base: its base class.
        init: lines of `__init__` after `super().__init__(...)`.
        base_arguments: the arguments of `super().__init__`.
        methods: signature and lines of each method.
    """

    base: str
    init: list[str] = field(default_factory=list)
    base_arguments: str = ""
    methods: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole code."""
        return "\n".join(
            [
                self.base,
                self.base_arguments,
                *self.init,
                *(line for name, lines in self.methods for line in (name, *lines)),
            ]
        )


class Classes:
    """The classes so far, in the order of their definitions.

    Args:
        literals: the literals of the holes.
        last: the class name of the last module, which is kept unchanged.
    """

    def __init__(self, literals: Literals, last: str) -> None:
        self.literals = literals
        self.texts: list[str] = []
        self.last = unique_name(identifier(last, "Network"), TAKEN, joint="")
        self.names: list[str] = []

    def add(self, bodies: Sequence[tuple[CellModule, Body]]) -> dict[CellModule, str]:
        """Define classes for modules, none of which contains another; return the expression that creates each."""
        groups: dict[tuple[str, str], list[tuple[CellModule, Body]]] = {}
        for module, body in bodies:
            groups.setdefault((module.class_name, skeleton(body.text)), []).append((module, body))
        expressions: dict[CellModule, str] = {}
        for (class_name, _), members in groups.items():
            name = self.last if members[0][0].parent is None else self._name(class_name)
            arguments = self._arguments([holes(body.text) for _, body in members])
            self.texts.append(self._class(name, members[0][1], arguments))
            for module, body in members:
                literals = holes(body.text)
                values = {argument: f"\x01{literals[index]}\x02" for index, argument in reversed(arguments.items())}
                ordered = list(dict.fromkeys(arguments.values()))
                keyword = len(ordered) > 2
                texts = [f"{argument}={values[argument]}" if keyword else values[argument] for argument in ordered]
                expressions[module] = f"{name}({', '.join(texts)})"
        return expressions

    def _name(self, class_name: str) -> str:
        name = unique_name(identifier(class_name, "Network"), [self.last, *self.names, *TAKEN], joint="")
        self.names.append(name)
        return name

    def _arguments(self, members: Sequence[Sequence[int]]) -> dict[int, str]:
        """Names of arguments by positions of differing literals; literals that always agree share one argument."""
        names: dict[int, str] = {}
        by_values: dict[tuple[str, ...], str] = {}
        for index in range(len(members[0])):
            values = tuple(self.literals.text(member[index]) for member in members)
            if len(set(values)) == 1:
                continue
            if values not in by_values:
                by_values[values] = unique_name(self.literals.name(members[0][index]), by_values.values())
            names[index] = by_values[values]
        return names

    def _class(self, name: str, body: Body, arguments: dict[int, str]) -> str:
        index = -1
        attributes: list[str] = []

        def text(line: str, *, of_self: bool) -> str:
            def fill(hole: int) -> str:
                nonlocal index
                index += 1
                if index not in arguments:
                    return self.literals.text(hole)
                argument = arguments[index]
                if of_self and argument not in attributes:
                    attributes.append(argument)
                return f"self.{argument}" if of_self else argument

            return fill_holes(line, fill)

        base = text(body.base, of_self=False)
        base_arguments = text(body.base_arguments, of_self=False)
        init = [text(line, of_self=False) for line in body.init]
        methods = [
            (text(head, of_self=True), [text(line, of_self=True) for line in lines]) for head, lines in body.methods
        ]
        ordered = list(dict.fromkeys(arguments.values()))
        init = [f"self.{argument} = {argument}" for argument in attributes] + init
        lines = [f"class {name}({base}):"]
        if init or base_arguments or ordered:
            lines += lay_out(f"def __init__(self{''.join(f', {a}' for a in ordered)}):", 1)
            for line in (f"super().__init__({base_arguments})", *init):
                lines += _indent(line, 2)
        for head, body_lines in methods:
            lines += ["", *lay_out(head, 1)] if len(lines) > 1 else lay_out(head, 1)
            for line in body_lines:
                lines += _indent(line, 2)
        if len(lines) == 1:
            lines.append(f"{INDENT}pass")
        return "\n".join(lines)


def _indent(text: str, depth: int) -> list[str]:
    """The lines of one statement, which may contain others, indented."""
    result: list[str] = []
    for line in text.split("\n"):
        inner = line.lstrip(" ")
        result += lay_out(inner, depth + (len(line) - len(inner)) // len(INDENT))
    return result
