"""Rewrites the statements of a function as calls of the helpers in `statements`, which handle conditions on tensors.

If an `if` can exit its block (by `return`, `break` or `continue`), the statements after it are moved into both of its
branches. Each branch then ends with a return, and the `if` returns the result of the branch that runs. The body of a
loop becomes a function that returns how the loop continues: `NEXT`, `BREAK` or `RETURN`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .expressions import Expressions
from .names import bound_names, has_exits, within_function
from .syntax import MODULE, always_exits, at, can_defer, defer, helper, import_statements, is_check, load, locate, store

FUNCTION = f"{MODULE}_function"
RESULT = f"{MODULE}_result"

NEXT, BREAK, RETURN = 0, 1, 2
"""What the body of a loop returns: continue with the next iteration, exit the loop, or return from the function."""

_SEES_VARIABLES = frozenset({"dir", "eval", "exec", "locals", "vars"})


def rewrite(function: ast.FunctionDef | ast.Lambda) -> None:
    """Rewrite a function in place if `can_be_rewritten` allows it."""
    if can_be_rewritten(function):
        _Function(function).rewrite()


def can_be_rewritten(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function is not a generator or coroutine, and doesn't look up its variables by name."""
    for node in within_function(function):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SEES_VARIABLES:
            return False
    return True


@dataclass
class _Context:
    """The context of a statement.

    Attributes:
        in_loop: whether it is in the body of a loop, which becomes a function that returns a signal.
        nested: whether it is in a generated function, where variables of the user's function are nonlocal.
        open: whether the statements after an `if` may move into its branches: not inside `with`, `try` and `match`.
    """

    in_loop: bool = False
    nested: bool = False
    open: bool = True

    def inner(self) -> _Context:
        """The context of a branch."""
        return _Context(self.in_loop, True, self.open)


@dataclass
class _Function:
    """Rewrites one function of the user.

    Attributes:
        node: the function.
        local: the names of its local variables.
        outer: "global" or "nonlocal" for each variable that it declares so.
        count: the number of names generated so far.
    """

    node: ast.FunctionDef | ast.Lambda
    local: set[str] = field(default_factory=set)
    outer: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def rewrite(self) -> None:
        """Rewrite the function in place."""
        node = self.node
        arguments = [*node.args.posonlyargs, *node.args.args]
        self.expressions = Expressions(arguments[0].arg if arguments else None)
        if isinstance(node, ast.Lambda):
            self.expressions.visit(node)
            return
        for statement in within_function(node):
            if isinstance(statement, (ast.Global, ast.Nonlocal)):
                kind = "global" if isinstance(statement, ast.Global) else "nonlocal"
                self.outer |= dict.fromkeys(statement.names, kind)
        self.local = bound_names(node.body) - self.outer.keys()
        docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
        body = self.block(node.body[len(docstring) :], _Context())
        generated = sorted(name for name in bound_names(body) if name.startswith(MODULE) and FUNCTION not in name)
        parameters = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        local = [*sorted(self.local - parameters), *generated]
        declared = [ast.AnnAssign(store(name), ast.Constant(0), None, 1) for name in local]
        outside = [ast.Global([n]) if kind == "global" else ast.Nonlocal([n]) for n, kind in self.outer.items()]
        node.body = [*docstring, *at(node.body[0], [*outside, import_statements(), *declared]), *body]

    # ---- statements ----

    def block(self, statements: Sequence[ast.stmt], context: _Context) -> list[ast.stmt]:
        """Rewrite the statements of a block."""
        result: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if isinstance(statement, ast.If) and context.open and is_check(statement):
                check = self.check(statement.test, vars(statement.body[0])["exc"], statement)
                return [*result, *check, *self.block([*statement.orelse, *rest], context)]
            if isinstance(statement, ast.If):
                exits = has_exits([statement], loops=context.in_loop)
                if exits and context.open:
                    return [*result, *self.branch_with_rest(statement, rest, context)]
                result += self.keep(statement, context) if exits else self.branch(statement, context)
            elif isinstance(statement, (ast.For, ast.While)):
                loop, after = self.loop(statement, context)
                return [*result, *loop, *self.block([*after, *rest], context)]
            else:
                result += self.statement(statement, context)
                if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                    return result  # the statements after it never run
        return result

    def statement(self, statement: ast.stmt, context: _Context) -> list[ast.stmt]:
        """Rewrite a statement other than `if` and loops."""
        if isinstance(statement, ast.Return):
            return self.return_value(statement, context)
        if isinstance(statement, (ast.Break, ast.Continue)):
            signal = BREAK if isinstance(statement, ast.Break) else NEXT
            return at(statement, [ast.Return(ast.Constant(signal))])
        if isinstance(statement, ast.FunctionDef):
            rewrite(statement)
            statement.decorator_list = [self.expressions.visit(d) for d in statement.decorator_list]
            return [statement]
        if isinstance(statement, ast.ClassDef):
            return [statement]
        if isinstance(statement, (ast.Global, ast.Nonlocal)):
            return at(statement, [ast.Pass()])  # `rewrite` has put it at the start of the function
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is None:
                return at(statement, [ast.Pass()])
            return at(statement, [ast.Assign([statement.target], self.expressions.visit(statement.value))])
        if isinstance(statement, ast.Raise):
            return [*at(statement, [ast.Expr(helper("refuse_conditional_raise"))]), self.expressions.visit(statement)]
        if isinstance(statement, ast.Assert) and context.open and can_defer([statement.msg or statement.test]):
            exception = helper("assertion_error", *([statement.msg] if statement.msg else []))
            return self.check(ast.UnaryOp(ast.Not(), statement.test), exception, statement)
        if isinstance(statement, (ast.With, ast.Try, ast.TryStar, ast.Match)):
            return self.keep(statement, context)
        return [self.expressions.visit(statement)]

    def check(self, test: ast.expr, exception: Any, where: ast.stmt) -> list[ast.stmt]:
        """Return statements that raise an exception if a condition is true; for a tensor, after each run."""
        locate(test, where)
        locate(exception, where)
        if isinstance(exception, ast.Call):
            exception.args = [self.expressions.text(a) if isinstance(a, ast.JoinedStr) else a for a in exception.args]
        exception_later = defer(self.expressions.visit(exception))
        return at(where, [ast.Expr(helper("raise_if", self.expressions.test(test), exception_later))])

    def keep(self, statement: Any, context: _Context) -> list[ast.stmt]:
        """Rewrite only the blocks and expressions inside a statement."""
        within = _Context(context.in_loop, context.nested, open=False)
        for name, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(statement, name, self.block(value, within))
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, (ast.ExceptHandler, ast.match_case)):
                        item.body = self.block(item.body, within)
                    elif isinstance(item, ast.withitem):
                        item.context_expr = self.expressions.visit(item.context_expr)
            elif isinstance(value, ast.expr):
                setattr(statement, name, self.expressions.visit(value))
        return [statement]

    def return_value(self, statement: ast.Return, context: _Context) -> list[ast.stmt]:
        value = self.expressions.visit(statement.value) if statement.value else ast.Constant(None)
        if not context.in_loop:
            return at(statement, [ast.Return(value)])
        assignment = ast.Assign([store(RESULT)], value)
        return at(statement, [assignment, ast.Return(ast.Constant(RETURN))])

    def branch(self, statement: ast.If, context: _Context) -> list[ast.stmt]:
        """Rewrite an `if` that never exits its block."""
        functions, names = [], []
        for kind, block in (("true", statement.body), ("false", statement.orelse)):
            body: list[ast.stmt] = self.block(block, context.inner()) if block else [ast.Pass()]
            functions.append(self.function(f"if_{kind}", body, statement))
            names.append(functions[-1].name)
        call = helper("branch", self.expressions.test(statement.test), *map(load, names))
        return [*functions, *at(statement.test, [ast.Expr(call)])]

    def branch_with_rest(self, statement: ast.If, rest: Sequence[ast.stmt], context: _Context) -> list[ast.stmt]:
        """Rewrite an `if` that can exit its block; the statements after it move into both branches."""
        test = self.expressions.test(statement.test)
        functions, names = [], []
        for kind, block in (("true", statement.body), ("false", statement.orelse)):
            whole = [*block] if always_exits(block) else [*block, *copy.deepcopy(list(rest))]
            body = self.block(whole, context.inner())
            if not always_exits(body):
                body = [*body, *at(statement, [ast.Return(ast.Constant(NEXT if context.in_loop else None))])]
            functions.append(self.function(f"if_{kind}", body, statement))
            names.append(functions[-1].name)
        call = helper("branch", test, *map(load, names))
        return [*functions, *at(statement.test, [ast.Return(call)])]

    def loop(self, statement: ast.For | ast.While, context: _Context) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Rewrite a loop; also return the statements to put after it, which are still to be rewritten."""
        self.count += 1
        signal = f"{MODULE}_signal_{self.count}"
        returns = has_exits(statement.body, loops=False)
        body = self.block(statement.body, _Context(in_loop=True, nested=True))
        if not always_exits(body):
            body = [*body, *at(statement, [ast.Return(ast.Constant(NEXT))])]
        if isinstance(statement, ast.For):
            item = f"{MODULE}_item"
            first = ast.Assign([statement.target], load(item))
            function = self.function("loop_body", [*at(statement.target, [first]), *body], statement, item)
            functions = [function]
            call = helper("for_loop", self.expressions.iterable(statement.iter), load(function.name))
        else:
            return_test = [ast.Return(self.expressions.test(statement.test))]
            test = self.function("loop_test", at(statement.test, return_test), statement)
            function = self.function("loop_body", body, statement)
            functions = [test, function]
            call = helper("while_loop", load(test.name), load(function.name))
        result = [*functions, *at(statement, [ast.Assign([store(signal)], call)])]
        after: list[ast.stmt] = []
        if returns:
            is_return = ast.Compare(load(signal), [ast.Eq()], [ast.Constant(RETURN)])
            after += at(statement, [ast.If(is_return, [ast.Return(load(RESULT))], [])])
        if statement.orelse:
            is_complete = ast.Compare(load(signal), [ast.Eq()], [ast.Constant(NEXT)])
            after += at(statement, [ast.If(is_complete, statement.orelse, [])])
        return result, after

    def function(self, kind: str, body: list[ast.stmt], where: ast.stmt, parameter: str | None = None) -> Any:
        """Generate a function that shares the variables of the user's function."""
        self.count += 1
        bound = bound_names(body) - {parameter}
        declared: list[ast.stmt] = []
        for name in sorted(bound):
            if FUNCTION in name:
                continue
            outside = self.outer.get(name)
            declared.append(ast.Global([name]) if outside == "global" else ast.Nonlocal([name]))
        arguments = ast.arguments([], [ast.arg(parameter)] if parameter else [], None, [], [], None, [])
        function = ast.FunctionDef(f"{FUNCTION}_{kind}_{self.count}", arguments, [*declared, *body], [], None)
        function.type_params = []  # type: ignore[attr-defined]
        nodes: list[Any] = at(where, [function])
        return nodes[0]
