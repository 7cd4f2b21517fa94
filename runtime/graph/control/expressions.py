"""Expressions of a function with calls of `statements` in them, which follow conditions on tensors."""

from __future__ import annotations

import ast
from typing import Any

from .syntax import MODULE, can_wait, helper, helper_name, in_place, is_called, later, load

_FOLDS = ("all", "any", "max", "min")


class Expressions(ast.NodeTransformer):
    """Rewrites expressions.

    Args:
        first: the first parameter of the function, which `super()` is about.
    """

    def __init__(self, first: str | None) -> None:
        self._first = first

    def test(self, node: ast.expr) -> Any:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp) and can_wait(node.values[1:]):
            first, *others = map(self.test, node.values)
            name = "both" if isinstance(node.op, ast.And) else "either"
            return in_place(node, helper(name, first, *map(later, others)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return in_place(node, helper("negation", self.test(node.operand)))
        return self.visit(node)

    def iterated(self, node: ast.expr) -> Any:
        """What a loop runs over: a range may end with a tensor."""
        if isinstance(node, ast.Call) and is_called(node, "range") and not node.keywords:
            call = helper("range_of", node.func, *map(self.visit, node.args))
            return in_place(node, call)
        return self.visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """A lambda imports `statements` where it uses it, so that it needs no variable of the function around it."""
        body = self.visit(node.body)
        node.body = _Importing().visit(body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """A class stays as it is."""
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """A choice: each branch waits for the condition."""
        if not can_wait([node.body, node.orelse]):
            return self.generic_visit(node)
        branches = (later(self.visit(node.body)), later(self.visit(node.orelse)))
        return in_place(node, helper("branch", self.test(node.test), *branches))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and` and `or`: what follows the first operand waits for it."""
        if not can_wait(node.values[1:]):
            return self.generic_visit(node)
        first, *others = map(self.visit, node.values)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return in_place(node, helper(name, first, *map(later, others)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not`."""
        if isinstance(node.op, ast.Not):
            return in_place(node, helper("negation", self.test(node.operand)))
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """A chain of comparisons: each operand waits for the comparison before it."""
        if len(node.ops) == 1 or not can_wait(node.comparators[1:]):
            return self.generic_visit(node)
        steps: list[Any] = []
        for op, operand in zip(node.ops, node.comparators, strict=True):
            steps += [ast.Constant(type(op).__name__), later(self.visit(operand))]
        return in_place(node, helper("chained", self.visit(node.left), *steps))

    def visit_Call(self, node: ast.Call) -> Any:
        """A call of a built-in function that a tensor can decide on or be printed by."""
        if is_called(node, "super") and not node.args and not node.keywords and self._first:
            node.args = [in_place(node, load("__class__")), in_place(node, load(self._first))]
            return node
        if is_called(node, "bool") and len(node.args) == 1 and not node.keywords:
            return in_place(node, helper("truth_of", node.func, self.test(node.args[0])))
        if any(is_called(node, name) for name in _FOLDS) and node.args and not node.keywords:
            return in_place(node, helper("folded", node.func, *map(self.visit, node.args)))
        if is_called(node, "print"):
            node.args = [self.text(a) if isinstance(a, ast.JoinedStr) else self.visit(a) for a in node.args]
            node.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
            return in_place(node, ast.Call(helper_name("print_with"), [node.func, *node.args], node.keywords))
        return self.generic_visit(node)

    def text(self, node: ast.JoinedStr) -> Any:
        """An f-string that is printed, or is an error's: its pieces."""
        pieces: list[Any] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                spec = self.visit(value.format_spec) if value.format_spec else ast.Constant("")
                parts: list[Any] = [self.visit(value.value), ast.Constant(value.conversion), spec]
                pieces.append(ast.Tuple(parts, ast.Load()))
            else:
                pieces.append(value)
        return in_place(node, helper("text", *pieces))


class _Importing(ast.NodeTransformer):
    """Writes the import of `statements` in place of its name."""

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id != MODULE:
            return node
        imported = ast.Call(load("__import__"), [ast.Constant(f"{__package__}.statements")], [])
        imported.keywords = [ast.keyword("fromlist", ast.Tuple([ast.Constant("branch")], ast.Load()))]
        return in_place(node, imported)
