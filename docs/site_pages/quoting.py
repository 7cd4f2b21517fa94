"""Finds functions and classes in the source by their names."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path


class NotFound(Exception):
    """No definition of that name, or several."""


@dataclass(frozen=True)
class Quoted:
    """Some lines of a file.

    Attributes:
        file: where they are.
        line: number of the first one.
        text: the lines, without their common indentation.
    """

    file: Path
    line: int
    text: str


def quoted(root: Path, folder: str, name: str, *, rules: bool = False, body: bool = False) -> Quoted:
    """A definition, wherever it is in a folder.

    Args:
        root: of the repository.
        folder: a folder or a file in it.
        name: of a function or class at the top level of a file, or `Class.method`.
        rules: quote the statements that follow it and begin with its name too; it has some.
        body: leave its docstring out.

    Returns:
        The one definition of that name.

    Raises:
        NotFound: there is no such definition, or there are several.
    """
    outer = name.partition(".")[0]
    declared = re.compile(rf"^(async def|def|class) {re.escape(outer)}\b", re.MULTILINE)
    place = root / folder
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    found = []
    for file in files:
        text = file.read_text()
        if declared.search(text):
            found += [Quoted(file, *lines) for lines in _definitions(text, name.split("."), rules, body)]
    if len(found) != 1:
        places = ", ".join(one.file.relative_to(root).as_posix() for one in found)
        raise NotFound(f"needed one definition of {name} in {folder}/, found {places or 'none'}")
    return found[0]


def _definitions(text: str, path: list[str], rules: bool, body: bool) -> list[tuple[int, str]]:
    """(line, text) of each definition."""
    statements = ast.parse(text).body
    for outer in path[:-1]:
        statements = [inner for one in statements if _is(one, outer) for inner in getattr(one, "body", [])]
    lines = text.splitlines()
    found = []
    for position, one in enumerate(statements):
        if _is(one, path[-1]):
            last = one
            if rules:
                for following in statements[position + 1 :]:
                    if not re.match(rf"@?{path[-1]}\.", lines[_first(following) - 1]):
                        break
                    last = following
            if rules and last is one:
                continue
            kept = lines[_first(one) - 1 : last.end_lineno]
            if body:
                kept = _without_docstring(one, kept)
            indent = len(kept[0]) - len(kept[0].lstrip())
            found.append((_first(one), "\n".join(line[indent:] for line in kept)))
    return found


def _is(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and statement.name == name


def _first(statement: ast.stmt) -> int:
    """Number of its first line, that of a decorator included."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _without_docstring(statement: ast.stmt, lines: list[str]) -> list[str]:
    assert isinstance(statement, (ast.FunctionDef, ast.ClassDef))
    if ast.get_docstring(statement) is None:
        return lines
    docstring, first = statement.body[0], _first(statement)
    assert docstring.end_lineno is not None
    return lines[: docstring.lineno - first] + lines[docstring.end_lineno - first + 1 :]
