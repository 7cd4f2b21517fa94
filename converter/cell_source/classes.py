"""The classes of a written source: one for each kind of module, with arguments where its instances differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..structure.naming import free_name
from .layers.network import Module
from .text.expressions import Literals, filled, holes, identifier, skeleton
from .text.helpers import HELPERS
from .text.layout import INDENT, laid_out


@dataclass
class Body:
    """What is written for one module, literals as holes.

    Attributes:
        base: its base class.
        init: lines of `__init__` after `super().__init__(...)`.
        given: what `super().__init__` is given.
        methods: each the signature and the lines.
    """

    base: str
    init: list[str] = field(default_factory=list)
    given: str = ""
    methods: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(
            [self.base, self.given, *self.init, *(line for name, lines in self.methods for line in (name, *lines))]
        )


class Classes:
    """The classes found so far, in the order in which they must be defined.

    Args:
        literals: the literals that stand as holes.
        last: the class name of the module that comes last: it gets this very name.
    """

    def __init__(self, literals: Literals, last: str) -> None:
        self.literals = literals
        self.texts: list[str] = []
        self.last = free_name(identifier(last, "Network"), HELPERS, joint="")
        self.names: list[str] = []

    def add(self, bodies: Sequence[tuple[Module, Body]]) -> dict[Module, str]:
        """Define classes for modules that don't hold each other; the expression that makes each."""
        groups: dict[tuple[str, str], list[tuple[Module, Body]]] = {}
        for module, body in bodies:
            groups.setdefault((module.class_name, skeleton(body.text)), []).append((module, body))
        made: dict[Module, str] = {}
        for (class_name, _), members in groups.items():
            name = self.last if members[0][0].parent is None else self._name(class_name)
            arguments = self._arguments([holes(body.text) for _, body in members])
            self.texts.append(self._class(name, members[0][1], arguments))
            for module, body in members:
                own = holes(body.text)
                given = {argument: f"\x01{own[place]}\x02" for place, argument in reversed(arguments.items())}
                ordered = list(dict.fromkeys(arguments.values()))
                keyword = len(ordered) > 2
                texts = [f"{argument}={given[argument]}" if keyword else given[argument] for argument in ordered]
                made[module] = f"{name}({', '.join(texts)})"
        return made

    def _name(self, class_name: str) -> str:
        name = free_name(identifier(class_name, "Network"), [self.last, *self.names, *HELPERS], joint="")
        self.names.append(name)
        return name

    def _arguments(self, members: Sequence[Sequence[int]]) -> dict[int, str]:
        """Names of the arguments by the places of literals that differ; what always differs alike is one argument."""
        found: dict[int, str] = {}
        by_values: dict[tuple[str, ...], str] = {}
        for place in range(len(members[0])):
            values = tuple(self.literals.text(member[place]) for member in members)
            if len(set(values)) == 1:
                continue
            if values not in by_values:
                by_values[values] = free_name(self.literals.name(members[0][place]), by_values.values())
            found[place] = by_values[values]
        return found

    def _class(self, name: str, body: Body, arguments: dict[int, str]) -> str:
        place = -1
        kept: list[str] = []

        def text(line: str, *, of_self: bool) -> str:
            def fill(hole: int) -> str:
                nonlocal place
                place += 1
                if place not in arguments:
                    return self.literals.text(hole)
                argument = arguments[place]
                if of_self and argument not in kept:
                    kept.append(argument)
                return f"self.{argument}" if of_self else argument

            return filled(line, fill)

        base = text(body.base, of_self=False)
        given = text(body.given, of_self=False)
        init = [text(line, of_self=False) for line in body.init]
        methods = [
            (text(head, of_self=True), [text(line, of_self=True) for line in lines]) for head, lines in body.methods
        ]
        ordered = list(dict.fromkeys(arguments.values()))
        init = [f"self.{argument} = {argument}" for argument in kept] + init
        lines = [f"class {name}({base}):"]
        if init or given or ordered:
            lines += laid_out(f"def __init__(self{''.join(f', {a}' for a in ordered)}):", 1)
            for line in (f"super().__init__({given})", *init):
                lines += _indented(line, 2)
        for head, body_lines in methods:
            lines += ["", *laid_out(head, 1)] if len(lines) > 1 else laid_out(head, 1)
            for line in body_lines:
                lines += _indented(line, 2)
        if len(lines) == 1:
            lines.append(f"{INDENT}pass")
        return "\n".join(lines)


def _indented(text: str, depth: int) -> list[str]:
    """Lines of one statement, which may hold others, indented."""
    result: list[str] = []
    for line in text.split("\n"):
        inner = line.lstrip(" ")
        result += laid_out(inner, depth + (len(line) - len(inner)) // len(INDENT))
    return result
