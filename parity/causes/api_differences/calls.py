"""The functions that a `construct` or `forward` calls, with their arguments, as far as its source tells."""

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
class SourceExpression:
    """The source of an argument that isn't a literal."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call in the source.

    Attributes:
        name: name of the function, the method, or the class of the operator object.
        receiver: source of the object that it is called on.
        method: whether it is a tensor's method.
        positional: arguments after the tensor; literals, or an `SourceExpression`.
        keywords: keyword arguments likewise, including the arguments that an operator object was created with.
        unpacked: whether its result is unpacked into two.
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
        """Return the value of a parameter, given the names of the parameters after the tensor."""
        if name in self.keywords:
            return self.keywords[name]
        at = parameters.index(name) if name in parameters else len(self.positional)
        return self.positional[at] if at < len(self.positional) else default


def calls(function: Callable[..., Any], owner: Any) -> list[Call]:
    """Return the calls in the source of a method; none if there is no source.

    Args:
        function: the method, as in its class.
        owner: the object of the method, whose attributes may be operator objects.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    file = Path(inspect.getsourcefile(function) or "").name
    unpacked = {id(node) for node in _values_unpacked_in_two(tree)}
    names = _names(function)
    result = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        resolved = _resolve(node.func, names, owner)
        if resolved is None:
            continue
        name, receiver, method, object_arguments = resolved
        positional = tuple(_value(argument) for argument in node.args)
        keywords = object_arguments | {k.arg: _value(k.value) for k in node.keywords if k.arg}
        line = first + node.lineno - 1
        behind_tensor = positional if method else positional[1:]
        result.append(
            (line, Call(name, receiver, method, behind_tensor, keywords, id(node) in unpacked, f"{file}:{line}"))
        )
    return [call for _, call in sorted(result, key=lambda pair: pair[0])]


def _names(function: Any) -> dict[str, Any]:
    """The values of the names in a function that aren't local."""
    captured = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    captured_names = {name: cell.cell_contents for name, cell in captured}
    return {**function.__globals__, **captured_names}


def _resolve(target: ast.expr, names: dict[str, Any], owner: Any) -> tuple[str, str, bool, dict[str, Any]] | None:
    """Return name, receiver, whether it is a method, and previous arguments; None if it isn't an operator."""
    if isinstance(target, ast.Name):
        return (target.id, "", False, {}) if callable(names.get(target.id)) else None
    if not isinstance(target, ast.Attribute):
        return None
    receiver = ast.unparse(target.value)
    if receiver == "self":
        operator = getattr(owner, target.attr, None)
        if "ops" not in type(operator).__module__.split(".")[:3]:
            return None  # a layer, which is a separate pair, or another method
        object_arguments = getattr(operator, "_given", None) or getattr(
            operator, "init_attrs", None
        )  # ours, MindSpore's
        return type(operator).__name__, receiver, False, dict(object_arguments or {})
    of_library = isinstance(names.get(receiver.partition(".")[0]), ModuleType)
    return target.attr, receiver, not of_library, {}


def _values_unpacked_in_two(tree: ast.AST) -> list[ast.expr]:
    """Return values that are unpacked into two: by assignment, or by `[0]`, `[1]`, `.values` or `.indices`."""
    values: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[_, _])], value=value):
                values.append(value)
            case ast.Subscript(value=value, slice=ast.Constant(value=0 | 1)):
                values.append(value)
            case ast.Attribute(value=value, attr="values" | "indices"):
                values.append(value)
    return values


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return SourceExpression(ast.unparse(node))


def code_of(layer: Any, method: str) -> list[Call]:
    """Return the calls in a method of a block of the user's; none for layers of a library."""
    cls = type(layer)
    if cls.__module__.partition(".")[0] in ("cellbridge", "mindspore", "torch"):
        return []
    function = getattr(cls, method, None)
    return calls(function, layer) if inspect.isfunction(function) else []
