"""Which functions a `construct` or `forward` calls, and with which arguments, as far as its source says."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Expression:
    """An argument that is no literal: its source."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call in the source.

    Attributes:
        name: of the function, method, or class of the operator object.
        receiver: source of what it is called on.
        method: whether it is a tensor's method.
        positional: arguments behind the tensor; literals, or an `Expression`.
        keywords: by name, likewise; with what an operator object was made with.
        unpacked: whether two results are taken from it.
        place: file and line.
    """

    name: str
    receiver: str
    method: bool
    positional: tuple[Any, ...]
    keywords: dict[str, Any]
    unpacked: bool
    place: str

    def argument(self, parameters: Sequence[str], name: str, default: Any) -> Any:
        """The value of a parameter, given the names of those behind the tensor."""
        if name in self.keywords:
            return self.keywords[name]
        at = parameters.index(name) if name in parameters else len(self.positional)
        return self.positional[at] if at < len(self.positional) else default


def calls(function: Callable[..., Any], owner: Any) -> list[Call]:
    """The calls in the source of a method; none where there is no source.

    Args:
        function: the method, as it is in its class.
        owner: the object whose method it is: attributes of it may be operator objects.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    file = Path(inspect.getsourcefile(function) or "").name
    unpacked = {id(node) for node in _unpacked(tree)}
    names = _names(function)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = _called(node.func, names, owner)
        if called is None:
            continue
        name, receiver, method, made_with = called
        positional = tuple(_value(argument) for argument in node.args)
        keywords = made_with | {k.arg: _value(k.value) for k in node.keywords if k.arg}
        line = first + node.lineno - 1
        given = positional if method else positional[1:]
        found.append((line, Call(name, receiver, method, given, keywords, id(node) in unpacked, f"{file}:{line}")))
    return [call for _, call in sorted(found, key=lambda pair: pair[0])]


def _names(function: Any) -> dict[str, Any]:
    """What the names in a function stand for, as far as they aren't its own."""
    captured = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    captured_names = {name: cell.cell_contents for name, cell in captured}
    return {**function.__globals__, **captured_names}


def _called(target: ast.expr, names: dict[str, Any], owner: Any) -> tuple[str, str, bool, dict[str, Any]] | None:
    """Name, receiver, whether it is a method, and arguments given before; None for what is no operator."""
    if isinstance(target, ast.Name):
        return (target.id, "", False, {}) if callable(names.get(target.id)) else None
    if not isinstance(target, ast.Attribute):
        return None
    receiver = ast.unparse(target.value)
    if receiver == "self":
        held = getattr(owner, target.attr, None)
        if "ops" not in type(held).__module__.split(".")[:3]:
            return None  # a layer, which is a pair of its own, or another method
        made_with = getattr(held, "_given", None) or getattr(held, "init_attrs", None)  # ours, MindSpore's
        return type(held).__name__, receiver, False, dict(made_with or {})
    of_library = isinstance(names.get(receiver.partition(".")[0]), ModuleType)
    return target.attr, receiver, not of_library, {}


def _unpacked(tree: ast.AST) -> list[ast.expr]:
    """Values that are taken apart in two: by assignment, or by `[0]`, `[1]` or `.values` behind them."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[_, _])], value=value):
                found.append(value)
            case ast.Subscript(value=value, slice=ast.Constant(value=0 | 1)):
                found.append(value)
            case ast.Attribute(value=value, attr="values" | "indices"):
                found.append(value)
    return found


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return Expression(ast.unparse(node))


def code_of(layer: Any, method: str) -> list[Call]:
    """The calls in a method of a block of the user's; none for layers of a library, whose code isn't the user's."""
    cls = type(layer)
    if cls.__module__.partition(".")[0] in ("cellbridge", "mindspore", "torch"):
        return []
    function = getattr(cls, method, None)
    return calls(function, layer) if inspect.isfunction(function) else []
