"""The floors of a room: its folders and modules, ordered by what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def floors(root: Path, room: str) -> list[list[str]]:
    """The parts of a room from the lowest floor up; a part imports lower floors only.

    Parts are the folders and modules directly in the room. Only imports that run when a module is loaded count: those
    within functions and those for type checkers don't. Parts that import each other are one entry, `a + b`.
    """
    arrows: dict[str, set[str]] = {}
    for file in sorted((root / room).rglob("*.py")):
        relative = file.relative_to(root / room)
        part = relative.parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        arrows.setdefault(part, set())
        package = [room, *relative.parts[:-1]]
        for name in _imported(ast.parse(file.read_text()).body, package):
            if len(name) > 1 and name[0] == room and name[1] != part:
                arrows[part].add(name[1])
    arrows = {part: {name for name in names if name in arrows} for part, names in arrows.items()}
    circles = _circles(arrows)
    levels: dict[frozenset[str], int] = {}

    def level(circle: frozenset[str]) -> int:
        if circle not in levels:
            below = {circles[name] for part in circle for name in arrows[part]} - {circle}
            levels[circle] = 1 + max((level(other) for other in below), default=-1)
        return levels[circle]

    found: list[list[str]] = [[] for _ in range(1 + max(level(circle) for circle in circles.values()))]
    for circle in sorted(set(circles.values()), key=min):
        names = (f"{part}/" if (root / room / part).is_dir() else part for part in sorted(circle))
        found[level(circle)].append(" + ".join(names))
    return found


def _imported(statements: list[ast.stmt], package: list[str]) -> Iterator[list[str]]:
    """The dotted names that a module imports when it is loaded, from the room on."""
    for statement in statements:
        match statement:
            case ast.ImportFrom(module=module, names=names, level=dots) if dots:
                base = package[: len(package) - dots + 1] + (module.split(".") if module else [])
                if len(base) == 1:
                    yield from ([*base, alias.name] for alias in names)
                else:
                    yield base
            case ast.Try(body=body):
                yield from _imported(body, package)


def _circles(arrows: dict[str, set[str]]) -> dict[str, frozenset[str]]:
    """For each part, the parts that reach it and that it reaches, itself among them."""

    def reached(start: str) -> set[str]:
        seen, waiting = {start}, [start]
        while waiting:
            for name in arrows[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reach = {part: reached(part) for part in arrows}
    return {part: frozenset(name for name in names if part in reach[name]) for part, names in reach.items()}
