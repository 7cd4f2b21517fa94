"""Rewrites the expressions of a function as calls of the helpers in `statements`."""

from __future__ import annotations

import ast
from typing import Any

from .syntax import MODULE, can_defer, defer, helper, helper_name, is_called, load, replace_at

_FOLDS = ("all", "any", "max", "min")


class Expressions(ast.NodeTransformer):
    """Rewrites expressions.

    Args:
        first: the first parameter of the function, for `super()`; None if it has none.
    """

    def __init__(self, first: str | None) -> None:
        self._first = first

    def test(self, node: ast.expr) -> Any:
        """Rewrite an expression that is used as a condition."""
        if isinstance(node, ast.BoolOp) and can_defer(node.values[1:]):
            first, *others = map(self.test, node.values)
            name = "both" if isinstance(node.op, ast.And) else "either"
            return replace_at(node, helper(name, first, *map(defer, others)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return replace_at(node, helper("negation", self.test(node.operand)))
        return self.visit(node)

    def iterable(self, node: ast.expr) -> Any:
        """Rewrite the iterable of a loop; the arguments of `range` may be tensors."""
        if isinstance(node, ast.Call) and is_called(node, "range") and not node.keywords:
            call = helper("range_of", node.func, *map(self.visit, node.args))
            return replace_at(node, call)
        return self.visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """Rewrite a lambda, which imports `statements` itself to be independent of the enclosing function."""
        body = self.visit(node.body)
        node.body = _InlineImports().visit(body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Leave a class unchanged."""
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Rewrite a conditional expression; its branches are evaluated lazily."""
        if not can_defer([node.body, node.orelse]):
            return self.generic_visit(node)
        branches = (defer(self.visit(node.body)), defer(self.visit(node.orelse)))
        return replace_at(node, helper("branch", self.test(node.test), *branches))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Rewrite `and` and `or`; the operands after the first are evaluated lazily."""
        if not can_defer(node.values[1:]):
            return self.generic_visit(node)
        first, *others = map(self.visit, node.values)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return replace_at(node, helper(name, first, *map(defer, others)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Rewrite `not`."""
        if isinstance(node.op, ast.Not):
            return replace_at(node, helper("negation", self.test(node.operand)))
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Rewrite a chain of comparisons; the operands after the second are evaluated lazily."""
        if len(node.ops) == 1 or not can_defer(node.comparators[1:]):
            return self.generic_visit(node)
        steps: list[Any] = []
        for op, operand in zip(node.ops, node.comparators, strict=True):
            steps += [ast.Constant(type(op).__name__), defer(self.visit(operand))]
        return replace_at(node, helper("compare_chain", self.visit(node.left), *steps))

    def visit_Call(self, node: ast.Call) -> Any:
        """Rewrite a call of `super`, `print`, `bool`, or a built-in function that compares its arguments."""
        if is_called(node, "super") and not node.args and not node.keywords and self._first:
            node.args = [replace_at(node, load("__class__")), replace_at(node, load(self._first))]
            return node
        if is_called(node, "bool") and len(node.args) == 1 and not node.keywords:
            return replace_at(node, helper("truth_of", node.func, self.test(node.args[0])))
        if any(is_called(node, name) for name in _FOLDS) and node.args and not node.keywords:
            return replace_at(node, helper("fold", node.func, *map(self.visit, node.args)))
        if is_called(node, "print"):
            node.args = [self.text(a) if isinstance(a, ast.JoinedStr) else self.visit(a) for a in node.args]
            node.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
            return replace_at(node, ast.Call(helper_name("print_with"), [node.func, *node.args], node.keywords))
        return self.generic_visit(node)

    def text(self, node: ast.JoinedStr) -> Any:
        """Rewrite an f-string in a `print` or an exception as its pieces, which are formatted when the program runs."""
        pieces: list[Any] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                spec = self.visit(value.format_spec) if value.format_spec else ast.Constant("")
                parts: list[Any] = [self.visit(value.value), ast.Constant(value.conversion), spec]
                pieces.append(ast.Tuple(parts, ast.Load()))
            else:
                pieces.append(value)
        return replace_at(node, helper("text", *pieces))


class _InlineImports(ast.NodeTransformer):
    """Replaces the name of `statements` by an expression that imports it."""

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id != MODULE:
            return node
        imported = ast.Call(load("__import__"), [ast.Constant(f"{__package__}.statements")], [])
        imported.keywords = [ast.keyword("fromlist", ast.Tuple([ast.Constant("branch")], ast.Load()))]
        return replace_at(node, imported)
