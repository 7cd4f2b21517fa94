"""Decides from the text of a Python file whether it is a model file, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

NEEDED = ("model", "inputs")
_EVERYTHING = "*"
_NO_MODEL = (ast.Constant, ast.JoinedStr, ast.Dict, ast.List, ast.Set, ast.Tuple)
_NO_INPUTS = (ast.Constant, ast.JoinedStr)
_LOOKS_LIKE = re.compile(rf"^(?:def[ \t]+)?({'|'.join(NEEDED)})[ \t]*(?:\(|:|=(?!=))", re.MULTILINE)


def missing_definitions(source: bytes) -> list[str]:
    """Return which of `model` and `inputs` a file doesn't define at its top level; none for a model file.

    Definitions are functions, classes, assignments and imports, also in branches, except those for scripts only. A name
    with a string or number as its value is neither a model nor inputs. `from x import *` may define either: then one of
    them is enough. A file with a syntax error is judged by its lines.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        defined = {match[1] for match in _LOOKS_LIKE.finditer(source.decode("utf-8", "replace"))}
    else:
        defined = _defined_names(tree.body)
    absent = [name for name in NEEDED if name not in defined]
    return [] if _EVERYTHING in defined and len(absent) < len(NEEDED) else absent


def _defined_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements bind in their scope."""
    names: set[str] = set()
    open_nodes = list(body)
    while open_nodes:
        match open_nodes.pop():
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_neither(name, value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is None or _is_neither(name, value):
                pass
            case ast.If(test=test, orelse=otherwise) if _is_for_scripts_or_types(test):
                open_nodes += otherwise
            case ast.Tuple() | ast.List() | ast.Starred() as targets:
                open_nodes += ast.iter_child_nodes(targets)
            case ast.AsyncFunctionDef() | ast.expr():
                pass
            case statement:
                open_nodes += ast.iter_child_nodes(statement)
    return names


def _is_neither(name: str, value: ast.expr) -> bool:
    """Whether `name = value` is certainly neither a model nor inputs."""
    return isinstance(value, _NO_MODEL if name == "model" else _NO_INPUTS)


def _is_for_scripts_or_types(test: ast.expr) -> bool:
    """Whether the code under this condition isn't run when the file is imported."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "TYPE_CHECKING"
    return False
