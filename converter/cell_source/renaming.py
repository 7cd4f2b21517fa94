"""Renaming of parts of a program whose names a Cell can't use: Cell's own attributes and methods, and empty names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...runtime.ir.program import Program
from ...runtime.namespace import unique_name
from ...runtime.nn import Cell, CellList

_OWN = frozenset({*dir(Cell()), *dir(CellList())})
_VARIANT = re.compile(r"variant_\d+")


def rename_for_cells(program: Program) -> Program:
    """The program with names that a Cell can use: `construct_` for `construct`.

    A parameter with the name of a module, and a module without a name, are renamed, too.
    """
    root, *inner = program.calls
    calls = [None if not call.path and call.class_name == root.class_name else call.path for call in inner]
    modules = {path for path in calls if path is not None}
    names = {name: f"{name}_" if name in modules else name for name in _tensor_names(program)}
    paths = [*modules, *names.values()]
    if names.keys() == set(names.values()) and not any(
        _is_reserved(part) for path in paths for part in path.split(".")
    ):
        return program
    rename = _renaming(paths)
    return program.replace(
        calls=(root, *(replace(c, path="" if p is None else rename(p)) for c, p in zip(inner, calls, strict=True))),
        parameters={
            rename(names[name]): replace(parameter, aliases=tuple(rename(names[a]) for a in parameter.aliases))
            for name, parameter in program.parameters.items()
        },
        buffers={rename(names[name]): buffer for name, buffer in program.buffers.items()},
    )


def _tensor_names(program: Program) -> list[str]:
    aliases = [alias for parameter in program.parameters.values() for alias in parameter.aliases]
    return [*program.parameters, *program.buffers, *aliases]


def _is_reserved(part: str) -> bool:
    return not part.strip() or part in _OWN or _VARIANT.fullmatch(part) is not None


def _renaming(paths: Iterable[str]) -> Callable[[str], str]:
    """A function that renames the reserved parts of a path; different paths stay different."""
    inside: dict[str, set[str]] = {}
    for path in paths:
        above = ""
        for part in path.split("."):
            inside.setdefault(above, set()).add(part)
            above += f".{part}"
    names: dict[str, dict[str, str]] = {}

    def rename(path: str) -> str:
        parts, above = [], ""
        for part in path.split("."):
            replacements = names.setdefault(above, {})
            if part not in replacements:
                free = unique_name(f"{part}_" if part.strip() else "unnamed", [*inside[above], *replacements.values()])
                replacements[part] = free if _is_reserved(part) else part
            parts.append(replacements[part])
            above += f".{part}"
        return ".".join(parts)

    return rename
