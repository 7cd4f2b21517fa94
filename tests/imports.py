"""What the files of the repository import, read from their source: for the rooms' arrows and for choosing tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

ROOMS = ("runtime", "converter", "parity")
OTHERS = ("tests", "fixtures", "benchmarks")


def imports(path: Path, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, dotted name in parts) for each import in a file, wherever in the file it stands.

    `package` is the package that the file is in, in parts, against which relative imports are resolved.
    """
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name.split(".")) for alias in names)
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, [*_origin(node, package), alias.name]) for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name.split(".")


def _origin(node: ast.ImportFrom, package: list[str]) -> list[str]:
    """What a `from` statement imports from, in parts."""
    base = package[: len(package) - node.level + 1] if node.level else []
    return base + (node.module.split(".") if node.module else [])


class Source:
    """One file, and what its statements say of others.

    Attributes:
        path: of the file.
        module: its dotted name, in parts; a package's is that of its folder.
        bound: for each name that an import binds, what it stands for.
        defined: the names of its functions, classes and variables.
        used: what its imported names stand for where they are used, with the attributes that are taken of them.
        words: names that it mentions in any form: attributes and parts of strings such as `aten.add.Tensor`.
        registered: names under which its decorators register functions in a table, and those of the functions.
    """

    def __init__(self, path: Path, module: tuple[str, ...]) -> None:
        self.path, self.module = path, module
        self.is_package = path.name == "__init__.py"
        self.bound: dict[str, tuple[str, ...]] = {}
        self.defined: set[str] = set()
        self.registered: set[str] = set()
        self.words: set[str] = set()
        tree = ast.parse(path.read_text(), str(path))
        chains = self._read(tree, list(module if self.is_package else module[:-1]))
        for node in tree.body:
            self._define(node)
        self.used = {(*self.bound[chain[0]], *chain[1:]) for chain in chains if chain[0] in self.bound}

    def _define(self, node: ast.stmt) -> None:
        match node:
            case ast.ClassDef(name=name):
                self.defined.add(name)
            case ast.FunctionDef(name=name, decorator_list=decorators):
                self.defined.add(name)
                for decorator in decorators:
                    chain = _chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
                    if chain and self.bound.get(chain[0], chain)[0] not in sys.stdlib_module_names:
                        strings = [x.value for x in ast.walk(decorator) if isinstance(x, ast.Constant)]
                        words = [_words(text) for text in strings if isinstance(text, str)]
                        self.registered |= {name}.union(*words) - {"_"}
            case ast.Assign(targets=targets):
                self.defined |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                self.defined.add(name)

    def _read(self, tree: ast.AST, package: list[str]) -> set[tuple[str, ...]]:
        """Fill `bound` and `words`; the dotted names that stand in the file."""
        chains = set()
        pending: list[ast.AST] = [tree]
        while pending:
            node = pending.pop()
            if chain := _chain(node):
                chains.add(chain)
                self.words |= set(chain[1:])
                continue
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        parts = tuple(alias.name.split("."))
                        self.bound[alias.asname or parts[0]] = parts if alias.asname else parts[:1]
                case ast.ImportFrom(names=names):
                    for alias in names:
                        self.bound[alias.asname or alias.name] = (*_origin(node, package), alias.name)
                case ast.Constant(value=str(text)) if len(text) < 60:
                    self.words |= _words(text)
                case ast.Attribute(attr=attribute):
                    self.words.add(attribute)
            pending += ast.iter_child_nodes(node)
        return chains


def _words(text: str) -> set[str]:
    """The names in a string that is a dotted name; nothing for other strings."""
    parts = text.split(".")
    return {part for part in parts if part.isidentifier()} - {"aten", "default"} if " " not in text else set()


def _chain(node: ast.AST) -> tuple[str, ...]:
    """`a.b.c` in parts; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attribute) if chain := _chain(value):
            return (*chain, attribute)
    return ()


class ImportGraph:
    """Which file uses names of which other, by their import statements.

    A name that a package's `__init__` imports leads to the file that defines it: who writes `from ..ops import get`
    doesn't depend on every family of ops, though Python loads them all.

    Attributes:
        sources: by dotted name, in parts.
        uses: for each file, those that it uses.
    """

    def __init__(self, root: Path) -> None:
        self.sources: dict[tuple[str, ...], Source] = {}
        for folder in (*ROOMS, *OTHERS):
            for path in sorted((root / folder).rglob("*.py")):
                if (root / "fixtures" / "bad") in path.parents:  # files that can't be read
                    continue
                relative = path.relative_to(root).with_suffix("").parts
                module = ("cellbridge",) * (folder in ROOMS) + relative
                module = module[:-1] if module[-1] == "__init__" else module
                self.sources[module] = Source(path, module)
        self._defining: dict[tuple[tuple[str, ...], str], set[Path]] = {}
        for source in self.sources.values():
            for name in source.defined:
                self._defining.setdefault((source.module[:-1], name), set()).add(source.path)
        self.uses = {source.path: self._uses(source) for source in self.sources.values()}

    @cached_property
    def used_by(self) -> dict[Path, set[Path]]:
        """For each file, those that use it."""
        found: dict[Path, set[Path]] = {path: set() for path in self.uses}
        for path, targets in self.uses.items():
            for target in targets:
                found[target].add(path)
        return found

    def _uses(self, source: Source) -> set[Path]:
        names = source.used if source.is_package else source.used | set(source.bound.values())
        return {path for name in names for path in self.resolve(name)} - {source.path}

    def resolve(self, name: tuple[str, ...], seen: frozenset[tuple[str, ...]] = frozenset()) -> set[Path]:
        """The files that define a dotted name."""
        at = next((end for end in range(len(name), 0, -1) if name[:end] in self.sources), 0)
        if not at or name in seen:
            return set()
        source, rest = self.sources[name[:at]], name[at:]
        if not source.is_package or (rest and rest[0] in source.defined):
            return {source.path}
        if not rest:
            return set()  # a package as such: what is taken of it stands where it is used
        if rest[0] in source.bound:
            return self.resolve((*source.bound[rest[0]], *rest[1:]), seen | {name})
        # a name that `__getattr__` finds in a package that it loads
        loaded = {parts[:end] for parts in source.bound.values() for end in (len(parts), len(parts) - 1)}
        return set().union(*(self._defining.get((package, rest[0]), ()) for package in loaded))
