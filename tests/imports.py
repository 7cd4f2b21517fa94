"""The imports of the repository's files, read from their source: for the rules of rooms and the selection of tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

ROOMS = ("runtime", "converter", "parity")
OTHERS = ("tests", "fixtures", "benchmarks")


def imports(path: Path, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, dotted name in parts) for each import anywhere in a file.

    `package` is the package that the file is in, in parts, against which relative imports are resolved.
    """
    for line, level, name in _statements(path.read_text(), str(path)):
        yield line, [*(package[: len(package) - level + 1] if level else ()), *name.split(".")]


@cache  # several rules read the same files
def _statements(source: str, file: str) -> list[tuple[int, int, str]]:
    """Return the line, the number of leading dots and the dotted name of each import in a source."""
    statements = []
    for node in ast.walk(ast.parse(source, file)):
        match node:
            case ast.Import(names=names):
                statements += [(node.lineno, 0, alias.name) for alias in names]
            case ast.ImportFrom(names=names, module=module, level=level):
                statements += [(node.lineno, level, ".".join(filter(None, [module, alias.name]))) for alias in names]
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                statements.append((node.lineno, 0, name))
    return statements


def _origin(node: ast.ImportFrom, package: list[str]) -> list[str]:
    """Return the module that a `from` statement imports from, in parts."""
    base = package[: len(package) - node.level + 1] if node.level else []
    return base + (node.module.split(".") if node.module else [])


class Source:
    """A file, and its references to other files.

    Attributes:
        path: path of the file.
        module: its dotted name, in parts; a package's is that of its folder.
        bound: dotted name of each name that an import binds.
        defined: names of its functions, classes and variables.
        used: dotted names of its uses of imported names, with the attributes accessed.
        words: names that it mentions in any form: attributes, and parts of strings such as `aten.add.Tensor`.
        registered: names that its decorators register functions under, and names of these functions.
    """

    def __init__(self, path: Path, module: tuple[str, ...]) -> None:
        self.path, self.module = path, module
        self.is_package = path.name == "__init__.py"
        self.bound: dict[str, tuple[str, ...]] = {}
        self.defined: set[str] = set()
        self.registered: set[str] = set()
        self.words: set[str] = set()
        tree = ast.parse(path.read_text(), str(path))
        chains = self._collect_names(tree, list(module if self.is_package else module[:-1]))
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

    def _collect_names(self, tree: ast.AST, package: list[str]) -> set[tuple[str, ...]]:
        """Fill `bound` and `words`, and return the dotted names in the file."""
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
    """Return the names in a string that is a dotted name; none for other strings."""
    parts = text.split(".")
    return {part for part in parts if part.isidentifier()} - {"aten", "default"} if " " not in text else set()


def _chain(node: ast.AST) -> tuple[str, ...]:
    """Return `a.b.c` in parts; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attribute) if chain := _chain(value):
            return (*chain, attribute)
    return ()


class ImportGraph:
    """The uses of names between files, by their import statements.

    A name that a package's `__init__` imports leads to the file that defines it: `from ..ops import get` doesn't depend
    on every family of ops, though Python loads them all.

    Attributes:
        sources: files by dotted name, in parts.
        uses: for each file, the files that it uses.
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
        """For each file, the files that use it."""
        result: dict[Path, set[Path]] = {path: set() for path in self.uses}
        for path, targets in self.uses.items():
            for target in targets:
                result[target].add(path)
        return result

    def _uses(self, source: Source) -> set[Path]:
        names = source.used if source.is_package else source.used | set(source.bound.values())
        return {path for name in names for path in self.resolve(name)} - {source.path}

    def resolve(self, name: tuple[str, ...], resolved: frozenset[tuple[str, ...]] = frozenset()) -> set[Path]:
        """Return the files that define a dotted name."""
        at = next((end for end in range(len(name), 0, -1) if name[:end] in self.sources), 0)
        if not at or name in resolved:
            return set()
        source, rest = self.sources[name[:at]], name[at:]
        if not source.is_package or (rest and rest[0] in source.defined):
            return {source.path}
        if not rest:
            return set()  # a package itself: its uses have the attributes
        if rest[0] in source.bound:
            return self.resolve((*source.bound[rest[0]], *rest[1:]), resolved | {name})
        # a name that `__getattr__` finds in a lazily loaded package
        packages = {parts[:end] for parts in source.bound.values() for end in (len(parts), len(parts) - 1)}
        return set().union(*(self._defining.get((package, rest[0]), ()) for package in packages))
