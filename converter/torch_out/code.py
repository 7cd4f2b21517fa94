"""The text of a graph, for reading. It is never run; each name in it is an identifier or a quoted string."""

from __future__ import annotations

import keyword
import math
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
    """The graph as the text of a `forward` method."""
    return GraphText(graph).method()


class GraphText:
    """The text of a graph as a method."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = {step.result: step for step in graph.steps}
        self.first_constant = 1 + len(graph.parameters)
        self.constants = range(self.first_constant, self.first_constant + len(graph.constants))

    def method(self) -> str:
        """The whole method."""
        parameters = ["self"]
        for name, _, default in self.graph.parameters:
            parameters.append(f"{name}={default[0]!r}" if default else name)
        lines = [f"def forward({', '.join(parameters)}):"]
        for step in self.graph.steps:
            if step.function not in _INLINE:
                lines.append(f"    {self.graph.names[step.result]} = {self._call(step)}")
        return "\n".join([*lines, f"    return {self._value(self.graph.result)}", ""])

    def _value(self, index: int) -> str:
        if index in self.constants:
            return _constant(self._constant_value(index))
        step = self.steps.get(index)
        return self._call(step) if step is not None and step.function in _INLINE else self.graph.names[index]

    def _constant_value(self, index: int) -> Any:
        return self.graph.constants[index - self.first_constant]

    def _call(self, step: Step) -> str:
        function: Any = step.function
        if function in (walk.call, walk.call_elsewhere):
            module, rest = self._module_path(step), step.operands[2:]
            return f"{module}({self._arguments(rest, step)})"
        if function in (walk.get_state, walk.body):
            return self._module_path(step)
        items = [self._value(index) for index in step.operands]
        if function in _OPERATORS and len(items) == 2:
            return f" {_OPERATORS[function]} ".join(self._parenthesize(index) for index in step.operands)
        if function in _PREFIXES and len(items) == 1:
            return _PREFIXES[function] + self._parenthesize(step.operands[0])
        if function is operator.getitem:
            return f"{self._parenthesize(step.operands[0])}[{self._subscript(step.operands[1])}]"
        if function is getattr:
            return f"{self._parenthesize(step.operands[0])}{_attribute(str(self._constant_value(step.operands[1])))}"
        if function is walk.make_tuple:
            return f"({', '.join(items)}{',' * (len(items) == 1)})"
        if function is walk.make_list:
            return f"[{', '.join(items)}]"
        if function is walk.make_dict:
            pairs = zip(self._constant_value(step.operands[0]), items[1:], strict=True)
            return "{" + ", ".join(f"{key!r}: {item}" for key, item in pairs) + "}"
        method = str(getattr(function, "__name__", ""))
        if function is getattr(torch.Tensor, method, None):
            arguments = self._arguments(step.operands[1:], step)
            return f"{self._parenthesize(step.operands[0])}.{method}({arguments})"
        return f"{self._function_name(function)}({self._arguments(step.operands, step)})"

    def _function_name(self, function: Any) -> str:
        return function_name(function)

    def _module_path(self, step: Step) -> str:
        path = self._constant_value(step.operands[1])
        return "self" + "".join(map(_attribute, path if isinstance(path, tuple) else (path,)))

    def _arguments(self, places: tuple[int, ...], step: Step) -> str:
        named = (f"{name}={self._value(index)}" for name, index in step.keywords)
        return ", ".join([*map(self._value, places), *named])

    def _parenthesize(self, index: int) -> str:
        text = self._value(index)
        return f"({text})" if text.startswith("-") else text

    def _subscript(self, index: int) -> str:
        """The text between the brackets of a subscript: slices with colons."""
        step = self.steps.get(index)
        if step is not None and step.function is slice:
            start, stop, stride = (self._value(part).replace("None", "") for part in step.operands)
            return f"{start}:{stop}" + (f":{stride}" if stride else "")
        if step is not None and step.function is walk.make_tuple and step.operands:
            return ", ".join(map(self._subscript, step.operands)) + "," * (len(step.operands) == 1)
        constant = self._constant_value(index) if index in self.constants else None
        if isinstance(constant, (slice, tuple)) and constant:
            return _index(constant)
        return self._value(index)


_INLINE: tuple[Callable[..., Any], ...] = (
    walk.get_state, walk.body, walk.make_tuple, walk.make_list, walk.make_dict, slice,
)  # fmt: skip


def _index(constant: Any) -> str:
    if isinstance(constant, slice):
        start, stop, stride = (
            "" if part is None else repr(part) for part in (constant.start, constant.stop, constant.step)
        )
        return f"{start}:{stop}" + (f":{stride}" if stride else "")
    if isinstance(constant, tuple):
        return ", ".join(map(_index, constant)) + "," * (len(constant) == 1)
    return "..." if constant is ... else _constant(constant)


def _constant(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"  # `inf` is no name of Python
    return "..." if value is ... else repr(value)


def _attribute(name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return f".{name}" if plain else f"[{int(name)}]" if name.isdecimal() else f"[{name!r}]"


def function_name(function: Any) -> str:
    """The qualified name of a function of torch, or of one that graphs call besides those."""
    if function.__module__.startswith(__package__.rpartition(".")[0]):
        return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    return _get_qualified_name(function)
