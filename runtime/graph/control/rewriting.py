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

from .names import bound_names, has_exits, within_function

MODULE = "_cellbridge"
"""What `statements` is called in rewritten code; all its other names begin so, too."""
FUNCTION = f"{MODULE}_function"
RETURNED = f"{MODULE}_returned"

GO_ON, BREAK, RETURN = 0, 1, 2
"""What the body of a loop returns: the loop goes on, it is left, the function returns."""

_FOLDS = ("all", "any", "max", "min")
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
        self.expressions = _Expressions(arguments[0].arg if arguments else None)
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
        declared = [ast.AnnAssign(_store(name), ast.Constant(0), None, 1) for name in local]
        outside = [ast.Global([n]) if kind == "global" else ast.Nonlocal([n]) for n, kind in self.elsewhere.items()]
        node.body = [*docstring, *_at(node.body[0], [*outside, _import(), *declared]), *body]

    # ---- statements ----

    def block(self, statements: Sequence[ast.stmt], context: _Context) -> list[ast.stmt]:
        """The statements of a block, rewritten."""
        done: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if isinstance(statement, ast.If) and context.open and _is_check(statement):
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
            return _at(statement, [ast.Return(ast.Constant(signal))])
        if isinstance(statement, ast.FunctionDef):
            rewrite(statement)
            statement.decorator_list = [self.expressions.visit(d) for d in statement.decorator_list]
            return [statement]
        if isinstance(statement, ast.ClassDef):
            return [statement]
        if isinstance(statement, (ast.Global, ast.Nonlocal)):
            return _at(statement, [ast.Pass()])  # all stand at the beginning
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is None:
                return _at(statement, [ast.Pass()])
            return _at(statement, [ast.Assign([statement.target], self.expressions.visit(statement.value))])
        if isinstance(statement, ast.Raise):
            return [*_at(statement, [ast.Expr(_helper("raises"))]), self.expressions.visit(statement)]
        if isinstance(statement, ast.Assert) and context.open and _can_wait([statement.msg or statement.test]):
            failed = _helper("failed", *([statement.msg] if statement.msg else []))
            return self.check(ast.UnaryOp(ast.Not(), statement.test), failed, statement)
        if isinstance(statement, (ast.With, ast.Try, ast.TryStar, ast.Match)):
            return self.plain(statement, context)
        return [self.expressions.visit(statement)]

    def check(self, test: ast.expr, exception: Any, where: ast.stmt) -> list[ast.stmt]:
        """Raise an exception if a condition holds: once the program has run, where it is a tensor."""
        _locate(test, where)
        _locate(exception, where)
        if isinstance(exception, ast.Call):
            exception.args = [self.expressions.text(a) if isinstance(a, ast.JoinedStr) else a for a in exception.args]
        later = _later(self.expressions.visit(exception))
        return _at(where, [ast.Expr(_helper("raise_if", self.expressions.test(test), later))])

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
            return _at(statement, [ast.Return(value)])
        kept = ast.Assign([_store(RETURNED)], value)
        return _at(statement, [kept, ast.Return(ast.Constant(RETURN))])

    def branching(self, statement: ast.If, context: _Context) -> list[ast.stmt]:
        """An `if` after which the block goes on in any case."""
        functions, names = [], []
        for kind, block in (("true", statement.body), ("false", statement.orelse)):
            body: list[ast.stmt] = self.block(block, context.inner()) if block else [ast.Pass()]
            functions.append(self.function(f"if_{kind}", body, statement))
            names.append(functions[-1].name)
        call = _helper("branch", self.expressions.test(statement.test), *map(_load, names))
        return [*functions, *_at(statement.test, [ast.Expr(call)])]

    def leaving(self, statement: ast.If, rest: Sequence[ast.stmt], context: _Context) -> list[ast.stmt]:
        """An `if` in which something leaves the block: it takes with it what follows."""
        test = self.expressions.test(statement.test)
        functions, names = [], []
        for kind, block in (("true", statement.body), ("false", statement.orelse)):
            whole = [*block] if _ends(block) else [*block, *copy.deepcopy(list(rest))]
            body = self.block(whole, context.inner())
            if not _ends(body):
                body = [*body, *_at(statement, [ast.Return(ast.Constant(GO_ON if context.in_loop else None))])]
            functions.append(self.function(f"if_{kind}", body, statement))
            names.append(functions[-1].name)
        call = _helper("branch", test, *map(_load, names))
        return [*functions, *_at(statement.test, [ast.Return(call)])]

    def loop(self, statement: ast.For | ast.While, context: _Context) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """A loop, and what is to follow it, which isn't rewritten yet."""
        self.count += 1
        signal = f"{MODULE}_signal_{self.count}"
        returns = has_exits(statement.body, loops=False)
        body = self.block(statement.body, _Context(in_loop=True, nested=True))
        if not _ends(body):
            body = [*body, *_at(statement, [ast.Return(ast.Constant(GO_ON))])]
        if isinstance(statement, ast.For):
            item = f"{MODULE}_item"
            first = ast.Assign([statement.target], _load(item))
            function = self.function("loop_body", [*_at(statement.target, [first]), *body], statement, item)
            functions = [function]
            call = _helper("for_loop", self.expressions.iterated(statement.iter), _load(function.name))
        else:
            tested = [ast.Return(self.expressions.test(statement.test))]
            test = self.function("loop_test", _at(statement.test, tested), statement)
            function = self.function("loop_body", body, statement)
            functions = [test, function]
            call = _helper("while_loop", _load(test.name), _load(function.name))
        done = [*functions, *_at(statement, [ast.Assign([_store(signal)], call)])]
        after: list[ast.stmt] = []
        if returns:
            is_return = ast.Compare(_load(signal), [ast.Eq()], [ast.Constant(RETURN)])
            after += _at(statement, [ast.If(is_return, [ast.Return(_load(RETURNED))], [])])
        if statement.orelse:
            is_through = ast.Compare(_load(signal), [ast.Eq()], [ast.Constant(GO_ON)])
            after += _at(statement, [ast.If(is_through, statement.orelse, [])])
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
        located: list[Any] = _at(where, [made])
        return located[0]


class _Expressions(ast.NodeTransformer):
    """Rewrites expressions.

    Args:
        first: the first parameter of the function, which `super()` is about.
    """

    def __init__(self, first: str | None) -> None:
        self._first = first

    def test(self, node: ast.expr) -> Any:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp) and _can_wait(node.values[1:]):
            first, *others = map(self.test, node.values)
            name = "both" if isinstance(node.op, ast.And) else "either"
            return _in_place(node, _helper(name, first, *map(_later, others)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _in_place(node, _helper("negation", self.test(node.operand)))
        return self.visit(node)

    def iterated(self, node: ast.expr) -> Any:
        """What a loop runs over: a range may end with a tensor."""
        if isinstance(node, ast.Call) and _is_called(node, "range") and not node.keywords:
            call = _helper("range_of", node.func, *map(self.visit, node.args))
            return _in_place(node, call)
        return self.visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """A lambda imports `statements` where it uses it, so that it needs no variable of the function around it."""
        body = self.visit(node.body)
        node.body = _Importing().visit(body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if not _can_wait([node.body, node.orelse]):
            return self.generic_visit(node)
        branches = (_later(self.visit(node.body)), _later(self.visit(node.orelse)))
        return _in_place(node, _helper("branch", self.test(node.test), *branches))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if not _can_wait(node.values[1:]):
            return self.generic_visit(node)
        first, *others = map(self.visit, node.values)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return _in_place(node, _helper(name, first, *map(_later, others)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return _in_place(node, _helper("negation", self.test(node.operand)))
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 or not _can_wait(node.comparators[1:]):
            return self.generic_visit(node)
        steps: list[Any] = []
        for op, operand in zip(node.ops, node.comparators, strict=True):
            steps += [ast.Constant(type(op).__name__), _later(self.visit(operand))]
        return _in_place(node, _helper("chained", self.visit(node.left), *steps))

    def visit_Call(self, node: ast.Call) -> Any:
        if _is_called(node, "super") and not node.args and not node.keywords and self._first:
            node.args = [_in_place(node, _load("__class__")), _in_place(node, _load(self._first))]
            return node
        if _is_called(node, "bool") and len(node.args) == 1 and not node.keywords:
            return _in_place(node, _helper("truth_of", node.func, self.test(node.args[0])))
        if any(_is_called(node, name) for name in _FOLDS) and node.args and not node.keywords:
            return _in_place(node, _helper("folded", node.func, *map(self.visit, node.args)))
        if _is_called(node, "print"):
            node.args = [self.text(a) if isinstance(a, ast.JoinedStr) else self.visit(a) for a in node.args]
            node.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
            return _in_place(node, ast.Call(_helper_name("print_with"), [node.func, *node.args], node.keywords))
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
        return _in_place(node, _helper("text", *pieces))


class _Importing(ast.NodeTransformer):
    """Writes the import of `statements` in place of its name."""

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id != MODULE:
            return node
        imported = ast.Call(_load("__import__"), [ast.Constant(f"{__package__}.statements")], [])
        imported.keywords = [ast.keyword("fromlist", ast.Tuple([ast.Constant("branch")], ast.Load()))]
        return _in_place(node, imported)


# ---- pieces of trees ----


def _import() -> ast.stmt:
    package = __package__ or ""
    return ast.ImportFrom(package, [ast.alias("statements", MODULE)], 0)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _helper_name(name: str) -> ast.Attribute:
    return ast.Attribute(_load(MODULE), name, ast.Load())


def _helper(name: str, *arguments: Any) -> ast.Call:
    return ast.Call(_helper_name(name), list(arguments), [])


def _later(node: ast.expr) -> ast.Lambda:
    """An expression as a function without parameters."""
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), node)


def _can_wait(nodes: Sequence[ast.expr]) -> bool:
    """Whether expressions mean the same in a function of their own."""
    moved = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return not any(isinstance(inner, moved) for node in nodes for inner in ast.walk(node))


def _is_called(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def _is_check(statement: Any) -> bool:
    """Whether all that an `if` does, where its condition holds, is to raise an exception."""
    (first, *others) = statement.body
    if others or not isinstance(first, ast.Raise) or first.exc is None or first.cause is not None:
        return False
    return _can_wait([first.exc])


def _ends(block: Sequence[ast.stmt]) -> bool:
    """Whether what follows a block never runs."""
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise))


def _in_place(old: ast.expr, new: ast.expr) -> Any:
    _locate(new, old)
    return new


def _at(where: Any, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements of our making, at the place of the user's."""
    for statement in statements:
        _locate(statement, where)
    return [*statements]


def _locate(made: ast.AST, where: Any) -> None:
    """Let what is of our making in a tree stand at the beginning of a piece of the user's."""
    if "lineno" in made._attributes:
        if hasattr(made, "lineno"):
            return
        vars(made).update(lineno=where.lineno, end_lineno=where.lineno)
        vars(made).update(col_offset=where.col_offset, end_col_offset=where.col_offset)
    for child in ast.iter_child_nodes(made):
        _locate(child, where)
