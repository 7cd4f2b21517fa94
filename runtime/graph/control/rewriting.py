"""The source of a function with its statements as calls of `statements`, which follow conditions on tensors.

An `if` that can leave its block (`return`, `break`, `continue`) takes what follows it into its branches, so that each
branch ends by returning, and the `if` returns what one of them does. The body of a loop is a function that returns
whether the loop goes on, see `Signal`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .expressions import Expressions
from .names import bound_names, has_exits, within_function
from .syntax import MODULE, at, can_wait, ends, helper, import_statements, is_check, later, load, locate, store

FUNCTION = f"{MODULE}_function"
RETURNED = f"{MODULE}_returned"

GO_ON, BREAK, RETURN = 0, 1, 2
"""What the body of a loop returns: the loop goes on, it is left, the function returns."""

_SEES_VARIABLES = frozenset({"dir", "eval", "exec", "locals", "vars"})


def rewrite(function: ast.FunctionDef | ast.Lambda) -> None:
    """Rewrite a function in its tree, if it `can_be_rewritten`."""
    if can_be_rewritten(function):
        _Function(function).rewrite()


def can_be_rewritten(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether it is no generator and doesn't ask for its variables by name."""
    for node in within_function(function):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SEES_VARIABLES:
            return False
    return True


@dataclass
class _Context:
    """Where statements stand.

    Attributes:
        in_loop: whether in the body of a loop, which is a function that returns a signal.
        nested: whether in a function of our making, where variables of the user's function are nonlocal.
        open: whether branches may take what follows them with them: not within `with`, `try` and `match`.
    """

    in_loop: bool = False
    nested: bool = False
    open: bool = True

    def inner(self) -> _Context:
        """In a branch."""
        return _Context(self.in_loop, True, self.open)


@dataclass
class _Function:
    """One function of the user's."""

    node: ast.FunctionDef | ast.Lambda
    own: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def rewrite(self) -> None:
        """Rewrite it."""
        node = self.node
        arguments = [*node.args.posonlyargs, *node.args.args]
        self.expressions = Expressions(arguments[0].arg if arguments else None)
        if isinstance(node, ast.Lambda):
            self.expressions.visit(node)
            return
        for statement in within_function(node):
            if isinstance(statement, (ast.Global, ast.Nonlocal)):
                kind = "global" if isinstance(statement, ast.Global) else "nonlocal"
                self.elsewhere |= dict.fromkeys(statement.names, kind)
        self.own = bound_names(node.body) - self.elsewhere.keys()
        docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
        body = self.block(node.body[len(docstring) :], _Context())
        made = sorted(name for name in bound_names(body) if name.startswith(MODULE) and FUNCTION not in name)
        parameters = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        local = [*sorted(self.own - parameters), *made]
        declared = [ast.AnnAssign(store(name), ast.Constant(0), None, 1) for name in local]
        outside = [ast.Global([n]) if kind == "global" else ast.Nonlocal([n]) for n, kind in self.elsewhere.items()]
        node.body = [*docstring, *at(node.body[0], [*outside, import_statements(), *declared]), *body]

    # ---- statements ----

    def block(self, statements: Sequence[ast.stmt], context: _Context) -> list[ast.stmt]:
        """The statements of a block, rewritten."""
        done: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if isinstance(statement, ast.If) and context.open and is_check(statement):
                check = self.check(statement.test, vars(statement.body[0])["exc"], statement)
                return [*done, *check, *self.block([*statement.orelse, *rest], context)]
            if isinstance(statement, ast.If):
                leaves = has_exits([statement], loops=context.in_loop)
                if leaves and context.open:
                    return [*done, *self.leaving(statement, rest, context)]
                done += self.plain(statement, context) if leaves else self.branching(statement, context)
            elif isinstance(statement, (ast.For, ast.While)):
                loop, after = self.loop(statement, context)
                return [*done, *loop, *self.block([*after, *rest], context)]
            else:
                done += self.statement(statement, context)
                if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                    return done  # nothing that follows ever runs
        return done

    def statement(self, statement: ast.stmt, context: _Context) -> list[ast.stmt]:
        """A statement that is neither `if` nor a loop."""
        if isinstance(statement, ast.Return):
            return self.returning(statement, context)
        if isinstance(statement, (ast.Break, ast.Continue)):
            signal = BREAK if isinstance(statement, ast.Break) else GO_ON
            return at(statement, [ast.Return(ast.Constant(signal))])
        if isinstance(statement, ast.FunctionDef):
            rewrite(statement)
            statement.decorator_list = [self.expressions.visit(d) for d in statement.decorator_list]
            return [statement]
        if isinstance(statement, ast.ClassDef):
            return [statement]
        if isinstance(statement, (ast.Global, ast.Nonlocal)):
            return at(statement, [ast.Pass()])  # all stand at the beginning
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is None:
                return at(statement, [ast.Pass()])
            return at(statement, [ast.Assign([statement.target], self.expressions.visit(statement.value))])
        if isinstance(statement, ast.Raise):
            return [*at(statement, [ast.Expr(helper("raises"))]), self.expressions.visit(statement)]
        if isinstance(statement, ast.Assert) and context.open and can_wait([statement.msg or statement.test]):
            failed = helper("failed", *([statement.msg] if statement.msg else []))
            return self.check(ast.UnaryOp(ast.Not(), statement.test), failed, statement)
        if isinstance(statement, (ast.With, ast.Try, ast.TryStar, ast.Match)):
            return self.plain(statement, context)
        return [self.expressions.visit(statement)]

    def check(self, test: ast.expr, exception: Any, where: ast.stmt) -> list[ast.stmt]:
        """Raise an exception if a condition holds: once the program has run, where it is a tensor."""
        locate(test, where)
        locate(exception, where)
        if isinstance(exception, ast.Call):
            exception.args = [self.expressions.text(a) if isinstance(a, ast.JoinedStr) else a for a in exception.args]
        delayed = later(self.expressions.visit(exception))
        return at(where, [ast.Expr(helper("raise_if", self.expressions.test(test), delayed))])

    def plain(self, statement: Any, context: _Context) -> list[ast.stmt]:
        """A statement that stays what it is, with what is in its blocks rewritten."""
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

    def returning(self, statement: ast.Return, context: _Context) -> list[ast.stmt]:
        value = self.expressions.visit(statement.value) if statement.value else ast.Constant(None)
        if not context.in_loop:
            return at(statement, [ast.Return(value)])
        kept = ast.Assign([store(RETURNED)], value)
        return at(statement, [kept, ast.Return(ast.Constant(RETURN))])

    def branching(self, statement: ast.If, context: _Context) -> list[ast.stmt]:
        """An `if` after which the block goes on in any case."""
        functions, names = [], []
        for kind, block in (("true", statement.body), ("false", statement.orelse)):
            body: list[ast.stmt] = self.block(block, context.inner()) if block else [ast.Pass()]
            functions.append(self.function(f"if_{kind}", body, statement))
            names.append(functions[-1].name)
        call = helper("branch", self.expressions.test(statement.test), *map(load, names))
        return [*functions, *at(statement.test, [ast.Expr(call)])]

    def leaving(self, statement: ast.If, rest: Sequence[ast.stmt], context: _Context) -> list[ast.stmt]:
        """An `if` in which something leaves the block: it takes with it what follows."""
        test = self.expressions.test(statement.test)
        functions, names = [], []
        for kind, block in (("true", statement.body), ("false", statement.orelse)):
            whole = [*block] if ends(block) else [*block, *copy.deepcopy(list(rest))]
            body = self.block(whole, context.inner())
            if not ends(body):
                body = [*body, *at(statement, [ast.Return(ast.Constant(GO_ON if context.in_loop else None))])]
            functions.append(self.function(f"if_{kind}", body, statement))
            names.append(functions[-1].name)
        call = helper("branch", test, *map(load, names))
        return [*functions, *at(statement.test, [ast.Return(call)])]

    def loop(self, statement: ast.For | ast.While, context: _Context) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """A loop, and what is to follow it, which isn't rewritten yet."""
        self.count += 1
        signal = f"{MODULE}_signal_{self.count}"
        returns = has_exits(statement.body, loops=False)
        body = self.block(statement.body, _Context(in_loop=True, nested=True))
        if not ends(body):
            body = [*body, *at(statement, [ast.Return(ast.Constant(GO_ON))])]
        if isinstance(statement, ast.For):
            item = f"{MODULE}_item"
            first = ast.Assign([statement.target], load(item))
            function = self.function("loop_body", [*at(statement.target, [first]), *body], statement, item)
            functions = [function]
            call = helper("for_loop", self.expressions.iterated(statement.iter), load(function.name))
        else:
            tested = [ast.Return(self.expressions.test(statement.test))]
            test = self.function("loop_test", at(statement.test, tested), statement)
            function = self.function("loop_body", body, statement)
            functions = [test, function]
            call = helper("while_loop", load(test.name), load(function.name))
        done = [*functions, *at(statement, [ast.Assign([store(signal)], call)])]
        after: list[ast.stmt] = []
        if returns:
            is_return = ast.Compare(load(signal), [ast.Eq()], [ast.Constant(RETURN)])
            after += at(statement, [ast.If(is_return, [ast.Return(load(RETURNED))], [])])
        if statement.orelse:
            is_through = ast.Compare(load(signal), [ast.Eq()], [ast.Constant(GO_ON)])
            after += at(statement, [ast.If(is_through, statement.orelse, [])])
        return done, after

    def function(self, kind: str, body: list[ast.stmt], where: ast.stmt, parameter: str | None = None) -> Any:
        """A function of our making, whose variables are those of the user's."""
        self.count += 1
        bound = bound_names(body) - {parameter}
        declared: list[ast.stmt] = []
        for name in sorted(bound):
            if FUNCTION in name:
                continue
            outside = self.elsewhere.get(name)
            declared.append(ast.Global([name]) if outside == "global" else ast.Nonlocal([name]))
        arguments = ast.arguments([], [ast.arg(parameter)] if parameter else [], None, [], [], None, [])
        made = ast.FunctionDef(f"{FUNCTION}_{kind}_{self.count}", arguments, [*declared, *body], [], None)
        made.type_params = []  # type: ignore[attr-defined]
        located: list[Any] = at(where, [made])
        return located[0]
