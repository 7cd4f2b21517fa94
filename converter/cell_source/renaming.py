"""Names of a program that a written Cell can't have: those of Cell's own attributes and methods, and empty ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...runtime.ir.program import Program
from ...runtime.nn import Cell, CellList
from ..structure.naming import free_name

_OWN = frozenset({*dir(Cell()), *dir(CellList())})
_VARIANT = re.compile(r"variant_\d+")


def with_names_of_cells(program: Program) -> Program:
    """The same program, where what a Cell can't have gets another name: `construct_` for `construct`.

    So does a parameter that has the name of a module, and a module without a name.
    """
    root, *inner = program.calls
    calls = [None if not call.path and call.class_name == root.class_name else call.path for call in inner]
    modules = {path for path in calls if path is not None}
    names = {name: f"{name}_" if name in modules else name for name in _stored(program)}
    paths = [*modules, *names.values()]
    if names.keys() == set(names.values()) and not any(_is_taken(part) for path in paths for part in path.split(".")):
        return program
    renamed = _renaming(paths)
    return program.replace(
        calls=(root, *(replace(c, path="" if p is None else renamed(p)) for c, p in zip(inner, calls, strict=True))),
        parameters={
            renamed(names[name]): replace(parameter, aliases=tuple(renamed(names[a]) for a in parameter.aliases))
            for name, parameter in program.parameters.items()
        },
        buffers={renamed(names[name]): buffer for name, buffer in program.buffers.items()},
    )


def _stored(program: Program) -> list[str]:
    aliases = [alias for parameter in program.parameters.values() for alias in parameter.aliases]
    return [*program.parameters, *program.buffers, *aliases]


def _is_taken(part: str) -> bool:
    return not part.strip() or part in _OWN or _VARIANT.fullmatch(part) is not None


def _renaming(paths: Iterable[str]) -> Callable[[str], str]:
    """Each path with other names for the parts that are taken, two of which never become one."""
    inside: dict[str, set[str]] = {}
    for path in paths:
        above = ""
        for part in path.split("."):
            inside.setdefault(above, set()).add(part)
            above += f".{part}"
    names: dict[str, dict[str, str]] = {}

    def renamed(path: str) -> str:
        found, above = [], ""
        for part in path.split("."):
            given = names.setdefault(above, {})
            if part not in given:
                free = free_name(f"{part}_" if part.strip() else "unnamed", [*inside[above], *given.values()])
                given[part] = free if _is_taken(part) else part
            found.append(given[part])
            above += f".{part}"
        return ".".join(found)

    return renamed
