"""The text of a graph, for people to read. Nothing runs it; each name in it is an identifier or a quoted string."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import _get_qualified_name

from . import walk
from .walk import Graph, Step

_OPERATORS = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
}
_PREFIXES = {operator.neg: "-", operator.invert: "~", operator.pos: "+"}


def code(graph: Graph) -> str:
    """The graph as the method that it stands for."""
    return _Text(graph).method()


class _Text:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = {step.place: step for step in graph.steps}
        self.first_constant = 1 + len(graph.parameters)
        self.constants = range(self.first_constant, self.first_constant + len(graph.constants))

    def method(self) -> str:
        """All of it."""
        given = ["self"]
        for name, _, default in self.graph.parameters:
            given.append(f"{name}={default[0]!r}" if default else name)
        lines = [f"def forward({', '.join(given)}):"]
        for step in self.graph.steps:
            if step.function not in _INLINE:
                lines.append(f"    {self.graph.names[step.place]} = {self._call(step)}")
        return "\n".join([*lines, f"    return {self._value(self.graph.result)}", ""])

    def _value(self, place: int) -> str:
        if place in self.constants:
            return _constant(self._known(place))
        step = self.steps.get(place)
        return self._call(step) if step is not None and step.function in _INLINE else self.graph.names[place]

    def _known(self, place: int) -> Any:
        return self.graph.constants[place - self.first_constant]

    def _call(self, step: Step) -> str:
        function: Any = step.function
        if function in (walk.call, walk.call_elsewhere):
            called, rest = self._held(step), step.operands[2:]
            return f"{called}({self._arguments(rest, step)})"
        if function in (walk.stored, walk.body):
            return self._held(step)
        items = [self._value(place) for place in step.operands]
        if function in _OPERATORS and len(items) == 2:
            return f" {_OPERATORS[function]} ".join(self._bracketed(place) for place in step.operands)
        if function in _PREFIXES and len(items) == 1:
            return _PREFIXES[function] + self._bracketed(step.operands[0])
        if function is operator.getitem:
            return f"{self._bracketed(step.operands[0])}[{self._subscript(step.operands[1])}]"
        if function is getattr:
            return f"{self._bracketed(step.operands[0])}{_attribute(str(self._known(step.operands[1])))}"
        if function is walk.make_tuple:
            return f"({', '.join(items)}{',' * (len(items) == 1)})"
        if function is walk.make_list:
            return f"[{', '.join(items)}]"
        if function is walk.make_dict:
            pairs = zip(self._known(step.operands[0]), items[1:], strict=True)
            return "{" + ", ".join(f"{key!r}: {item}" for key, item in pairs) + "}"
        method = str(getattr(function, "__name__", ""))
        if function is getattr(torch.Tensor, method, None):
            given = self._arguments(step.operands[1:], step)
            return f"{self._bracketed(step.operands[0])}.{method}({given})"
        return f"{_name(function)}({self._arguments(step.operands, step)})"

    def _held(self, step: Step) -> str:
        path = self._known(step.operands[1])
        return "self" + "".join(map(_attribute, path if isinstance(path, tuple) else (path,)))

    def _arguments(self, places: tuple[int, ...], step: Step) -> str:
        named = (f"{name}={self._value(place)}" for name, place in step.keywords)
        return ", ".join([*map(self._value, places), *named])

    def _bracketed(self, place: int) -> str:
        text = self._value(place)
        return f"({text})" if text.startswith("-") else text

    def _subscript(self, place: int) -> str:
        """What stands between brackets: slices with colons."""
        step = self.steps.get(place)
        if step is not None and step.function is slice:
            start, stop, stride = (self._value(part).replace("None", "") for part in step.operands)
            return f"{start}:{stop}" + (f":{stride}" if stride else "")
        if step is not None and step.function is walk.make_tuple and step.operands:
            return ", ".join(map(self._subscript, step.operands)) + "," * (len(step.operands) == 1)
        known = self._known(place) if place in self.constants else None
        if isinstance(known, (slice, tuple)) and known:
            return _index(known)
        return self._value(place)


_INLINE: tuple[Callable[..., Any], ...] = (
    walk.stored, walk.body, walk.make_tuple, walk.make_list, walk.make_dict, slice,
)  # fmt: skip


def _index(known: Any) -> str:
    if isinstance(known, slice):
        start, stop, stride = ("" if part is None else repr(part) for part in (known.start, known.stop, known.step))
        return f"{start}:{stop}" + (f":{stride}" if stride else "")
    if isinstance(known, tuple):
        return ", ".join(map(_index, known)) + "," * (len(known) == 1)
    return "..." if known is ... else _constant(known)


def _constant(value: Any) -> str:
    return "..." if value is ... else repr(value)


def _attribute(name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return f".{name}" if plain else f"[{int(name)}]" if name.isdecimal() else f"[{name!r}]"


def _name(function: Any) -> str:
    if function.__module__.startswith(__package__.rpartition(".")[0]):
        return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    return _get_qualified_name(function)
