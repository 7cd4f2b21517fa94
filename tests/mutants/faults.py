"""One-line faults, chosen at random from the source by a seed: what the tests must catch."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

AREAS = ("kernel", "vjp", "infer", "onnx", "table", "judge")
TABLES = ("converter/capture/tables", "converter/onnx_in/tables", "converter/torch_out/tables")
JUDGE = ("parity/judging", "parity/correspondence", "parity/verdicts")

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "/", ast.Mod: "//", ast.Pow: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.And: "or", ast.Or: "and",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


# calls that mean the same with their operands swapped
IN_ANY_ORDER = {"max", "min", "require_same_dtype", "zip", "comparison.equal", "elementwise.add", "elementwise.mul"}
LEADING = {"context", "graph", "self"}  # what stands before the operands


@dataclass(frozen=True)
class Fault:
    """A line and what stands there instead.

    Attributes:
        area: one of `AREAS`.
        file: relative to the root of the repository.
        line: its number.
        before: the line as it is, without the indentation.
        after: the line with the fault.
    """

    area: str
    file: str
    line: int
    before: str
    after: str

    def is_python(self, root: Path) -> bool:
        """Whether the file can be read with the fault in it."""
        try:
            ast.parse(self._planted(root))
        except SyntaxError:
            return False
        return True

    def plant(self, root: Path) -> None:
        """Write the fault into the file.

        Raises:
            ValueError: the line isn't what it was.
        """
        (root / self.file).write_text(self._planted(root))

    def _planted(self, root: Path) -> str:
        lines = (root / self.file).read_text().splitlines(keepends=True)
        old = lines[self.line - 1]
        if old.strip() != self.before:
            raise ValueError(f"{self.file}:{self.line}: needed {self.before!r}, found {old.strip()!r}")
        lines[self.line - 1] = old.replace(self.before, self.after, 1)
        return "".join(lines)


def choose(root: Path, seed: int, each: int) -> list[Fault]:
    """`each` faults of every area: a file at random, a function of it, a change of it; no line twice."""
    random = Random(seed)
    chosen: list[Fault] = []
    for area in AREAS:
        in_file = {
            path: faults(path.read_text(), path.relative_to(root).as_posix(), area) for path in _files(root, area)
        }
        files = {path: list(faults_of_file) for path, faults_of_file in in_file.items() if faults_of_file}
        places: set[tuple[str, int]] = set()
        while len(places) < each and files:
            folder = random.choice(sorted({path.parent for path in files}))
            path = random.choice(sorted(path for path in files if path.parent == folder))
            fault = files[path].pop(random.randrange(len(files[path])))
            if not files[path]:
                del files[path]
            if (fault.file, fault.line) not in places and fault.is_python(root):
                places.add((fault.file, fault.line))
                chosen.append(fault)
    return chosen


def _files(root: Path, area: str) -> list[Path]:
    folders = {"table": TABLES, "judge": JUDGE}.get(area, ("runtime/ops",))
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


@functools.cache
def faults(source: str, file: str, area: str) -> tuple[Fault, ...]:
    """Every fault of an area that a file can have."""
    lines = source.splitlines()
    result = []
    for part in _parts(ast.parse(source), area):
        for node in _walk(part):
            for start, end, text in _changes(node, lines):
                before = lines[start[0] - 1]
                line = before.encode()  # columns count bytes
                after = (line[: start[1]] + text.encode() + line[end[1] :]).decode()
                if start[0] == end[0] and after != before:
                    result.append(Fault(area, file, start[0], before.strip(), after.strip()))
    return tuple(dict.fromkeys(result))


def _parts(tree: ast.Module, area: str) -> Iterator[ast.AST]:
    """The functions of an area: rules of ops by their decorators, arguments or names; elsewhere every function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = " ".join(ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list)
            if area in ("table", "judge") or f".{area}" in decorators or node.name.endswith(f"_{area}"):
                yield from node.body
        elif isinstance(node, ast.Call) and area not in ("table", "judge"):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == area)
            if area == "kernel" and isinstance(node.func, ast.Name) and node.func.id in ("unary", "binary"):
                yield from node.args[1:2]


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below one, except strings, since a changed message is no fault, and what `zip` checks."""
    if not isinstance(node, ast.JoinedStr) and not (isinstance(node, ast.keyword) and node.arg == "strict"):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


Change = tuple[tuple[int, int], tuple[int, int], str]


def _span(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _changes(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    """What can be wrong in one node: where it begins and ends, and what stands there instead."""

    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield *_span(node), f"{_inner(left)} {OPERATORS[type(op)]} {_inner(right)}"
            if isinstance(op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)):
                yield *_span(node), f"{_inner(right)} {_symbol(op)} {_inner(left)}"
        case ast.BoolOp(op=op, values=values):
            yield *_span(node), f" {OPERATORS[type(op)]} ".join(map(_inner, values))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATORS:
            yield *_span(node), f"{_inner(left)} {OPERATORS[type(op)]} {_inner(right)}"
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield *_span(node), _inner(operand)
        case ast.Constant(value=bool(value)):
            yield *_span(node), str(not value)
        case ast.Constant(value=int(value)):
            yield *_span(node), f"{value + 1}"
        case ast.Constant(value=float(value)):
            yield *_span(node), f"{value * 2 or 1.0}"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield *_span(node), f"{_inner(orelse)} if {_inner(test)} else {_inner(body)}"
        case ast.Call():
            for arguments in _other_arguments(node):
                yield *_span(node), f"{ast.unparse(node.func)}({', '.join(arguments)})"


def _other_arguments(call: ast.Call) -> Iterator[list[str]]:
    """Two operands swapped; each optional argument but a dtype or `strict` left out."""
    given = [*map(ast.unparse, call.args)]
    named = [f"{k.arg}={ast.unparse(k.value)}" if k.arg else f"**{ast.unparse(k.value)}" for k in call.keywords]
    names = [i for i, part in enumerate(call.args) if isinstance(part, ast.Name) and part.id not in LEADING]
    if len(names) >= 2 and ast.unparse(call.func) not in IN_ANY_ORDER:
        a, b = names[:2]
        swapped = [*given[:a], given[b], *given[a + 1 : b], given[a], *given[b + 1 :]]
        if swapped != given:
            yield swapped + named
    for i, keyword in enumerate(call.keywords):
        if keyword.arg not in (None, "dtype", "strict"):
            yield given + named[:i] + named[i + 1 :]


def _inner(part: ast.expr) -> str:
    """An expression as part of another, in brackets where it needs them."""
    simple = isinstance(part, (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript, ast.List))
    return ast.unparse(part) if simple else f"({ast.unparse(part)})"


def _symbol(op: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b"))).split()[1]
