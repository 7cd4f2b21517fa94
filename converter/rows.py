"""`Call`, a row of a table whose entries pass arguments on: `(shaping.triangle, "self, k=diagonal, upper=False")`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from typing import Any

Row = tuple[Callable[..., Any], str]
"""A function, and the arguments that it is called with: names stand for what the entry is given."""


class Call:
    """The call that a row describes.

    Args:
        row: the function and the text of its arguments, names and literals.
        names: the names that the text may use.

    Raises:
        ValueError: the text uses another name.
    """

    def __init__(self, row: Row, names: Collection[str]) -> None:
        self.function, text = row
        call = ast.parse(f"_({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        self._positional = [self._argument(node, names) for node in call.args]
        self._named = {str(item.arg): self._argument(item.value, names) for item in call.keywords}

    @staticmethod
    def _argument(node: ast.expr, names: Collection[str]) -> tuple[str, Any]:
        """Return the name of an argument, or "" and its value."""
        if not isinstance(node, ast.Name):
            return "", ast.literal_eval(node)
        if node.id not in names:
            raise ValueError(f"{node.id} isn't one of {', '.join(names)}")
        return node.id, None

    def arguments(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the named arguments, for what the entry is given by name."""

        def value(argument: tuple[str, Any]) -> Any:
            name, literal = argument
            return values[name] if name else literal

        return [*map(value, self._positional)], {name: value(argument) for name, argument in self._named.items()}
