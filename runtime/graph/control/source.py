"""Rewrites the source of functions, and installs the rewritten code while Python is traced.

The source that is compiled here belongs to a function that is already running. It is read from the function's file, and
refused unless it compiles to exactly the running code. The compiled module itself never runs; the code of
the function is extracted from it.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import functools
import linecache
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from ...errors import UnknownValue
from ..sources import is_internal_code
from .live_functions import all_functions, functions_of_modules
from .rewriting import FUNCTION, can_be_rewritten, rewrite

Key = tuple[str, int, tuple[int, int]]
"""Identifies a function in its file: qualified name, first line, and for a lambda line and column of its body."""

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class RetraceRequired(UnknownValue):
    """Raised by a condition on a tensor in a function that can be rewritten, so that the trace starts again.

    Attributes:
        code: the code of the function, or of a comprehension in it.
    """

    code: CodeType


@dataclass
class _File:
    """A file with rewritten functions.

    Attributes:
        tree: its syntax tree.
        codes: the original code of each function, by its key.
        followed: the keys of the functions that are rewritten.
        rewritten: the code of these, and of the functions around them.
    """

    name: str
    tree: ast.Module
    flags: int
    codes: dict[Key, CodeType]
    followed: set[Key] = field(default_factory=set)
    rewritten: dict[Key, CodeType] = field(default_factory=dict)

    def function_of(self, code: CodeType) -> Key | None:
        """Return the key of the function with this code or comprehension; None if the file has other code there."""
        name = code.co_qualname
        while name.rpartition(".")[2] in _COMPREHENSIONS:
            name = name.rpartition(".")[0].removesuffix(".<locals>")
        if name == code.co_qualname:
            key = _key(code)
            return key if key in self.codes and is_same_code(self.codes[key], code) else None
        around = [k for k, c in self.codes.items() if k[0] == name and any(is_same_code(i, code) for i in _within(c))]
        return around[0] if around else None

    def can_replace(self, code: CodeType) -> bool:
        """Whether the file has rewritten code for this code."""
        if code.co_filename != self.name or (key := _key(code)) not in self.rewritten:
            return False
        same = is_same_code(code, self.codes[key])
        return same and code.co_freevars == self.rewritten[key].co_freevars

    def can_follow(self, key: Key) -> bool:
        """Whether a function can be rewritten."""
        statement = self._statement(key)
        node = _node(statement, key) if statement is not None else None
        return node is not None and can_be_rewritten(node)

    def follow(self, key: Key) -> None:
        """Rewrite a function, together with those rewritten before in the same statement of the module."""
        self.followed.add(key)
        original = self._statement(key)
        assert original is not None, f"{key[0]} was found before"
        statement = copy.deepcopy(original)
        nodes = [_node(statement, k) for k in self.followed]
        for node in _outermost([node for node in nodes if node is not None]):
            rewrite(node)
        # The code of a function doesn't depend on the other statements of the module.
        module = ast.Module([statement], type_ignores=[])
        codes = dict(_functions(compile(module, self.name, "exec", flags=self.flags, dont_inherit=True)))
        around = {k for k in self.codes if any(f == k or f[0].startswith(f"{k[0]}.<locals>.") for f in self.followed)}
        self.rewritten |= {k: _rename_generated(codes[k]) for k in around if k in codes}

    def _statement(self, key: Key) -> ast.stmt | None:
        """The top-level statement of the module, often a class, that contains a function."""
        candidates = (s for s in self.tree.body if _first_line(s) <= key[1] <= (s.end_lineno or 0))
        return next((s for s in candidates if _node(s, key) is not None), None)


_LOCK = threading.RLock()
_FILES: dict[str, list[_File]] = {}
_FUNCTIONS: weakref.WeakSet[FunctionType] = weakref.WeakSet()
_IN_PLACE: dict[int, _InPlace] = {}


@dataclass
class _InPlace:
    """A function whose code is replaced while traces run."""

    function: FunctionType
    original: CodeType
    traces: int = 0


def can_follow(code: CodeType) -> bool:
    """Whether the function of code that reached a condition on a tensor can be rewritten and hasn't been yet."""
    if is_internal_code(code):
        return False
    with _LOCK:
        file = _file_of(code)
        key = file.function_of(code) if file else None
        return file is not None and key is not None and file.can_follow(key)


def follow(code: CodeType) -> bool:
    """Rewrite the function of some code for the next `following` context; return whether a live function was found."""
    with _LOCK:
        file = _file_of(code)
        key = file.function_of(code) if file else None
        assert file is not None, f"{code.co_qualname} was found before"
        assert key is not None, f"{code.co_qualname} was found before"
        if key not in file.followed:
            file.follow(key)
        # A function that its module doesn't name, within another or of a module loaded anew, arrives here again.
        for search in (functools.partial(functions_of_modules, file.name), all_functions):
            new = [f for f in search() if file.can_replace(f.__code__) and f not in _FUNCTIONS]
            if new:
                _FUNCTIONS.update(new)
                return True
        return False


@contextlib.contextmanager
def following() -> Iterator[None]:
    """Within the context, run the rewritten code of functions."""
    entries: list[_InPlace] = []
    with _LOCK:
        for function in list(_FUNCTIONS):
            entry = _IN_PLACE.get(id(function)) or _InPlace(function, function.__code__)
            file = next((f for f in _FILES.get(entry.original.co_filename, ()) if f.can_replace(entry.original)), None)
            if file is None:
                continue
            _IN_PLACE[id(function)] = entry
            function.__code__ = file.rewritten[_key(entry.original)]
            entry.traces += 1
            entries.append(entry)
    try:
        yield
    finally:
        with _LOCK:
            for entry in entries:
                entry.traces -= 1
                if not entry.traces:
                    entry.function.__code__ = entry.original
                    del _IN_PLACE[id(entry.function)]


def _file_of(code: CodeType) -> _File | None:
    """The file of some code; None if there is no source."""
    name = code.co_filename
    linecache.checkcache(name)
    text = "".join(linecache.getlines(name))
    if not text:
        return None
    for file in _FILES.get(name, ()):
        if file.function_of(code) is not None:
            return file
    flags = code.co_flags & _FUTURE
    try:
        tree = ast.parse(text, name)
        codes = dict(_functions(compile(text, name, "exec", flags=flags, dont_inherit=True)))
    except (SyntaxError, ValueError):
        return None
    file = _File(name, tree, flags, codes)
    if file.function_of(code) is None:
        return None
    _FILES.setdefault(name, []).append(file)  # a reloaded module gets another entry
    return file


def is_same_code(a: CodeType, b: CodeType) -> bool:
    """Whether two functions have the same instructions, names, constants and nested functions."""
    if a is b:
        return True
    same = (
        a.co_code == b.co_code
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and a.co_freevars == b.co_freevars
        and a.co_firstlineno == b.co_firstlineno
        and len(a.co_consts) == len(b.co_consts)
    )
    return same and all(map(_is_same_constant, a.co_consts, b.co_consts))


def _is_same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return is_same_code(a, b)
    return type(a) is type(b) and repr(a) == repr(b)


def _within(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _within(constant)


def _functions(module: CodeType) -> Iterator[tuple[Key, CodeType]]:
    return ((_key(code), code) for code in _within(module))


def _key(code: CodeType) -> Key:
    body = (0, 0)
    if code.co_name == "<lambda>":
        located = [(line or 0, column) for line, _, column, end in code.co_positions() if column is not None and end]
        body = min(located, default=body)
    return code.co_qualname, code.co_firstlineno, body


def _rename_generated(code: CodeType, name: str = "", qualname: str = "") -> CodeType:
    """Give generated functions the name of the user's function around them, for tracebacks."""
    is_generated = code.co_name.startswith(FUNCTION)
    name, qualname = (name, qualname) if is_generated else (code.co_name, code.co_qualname)
    constants = tuple(_rename_generated(c, name, qualname) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_name=name, co_qualname=qualname)


def _node(statement: ast.stmt, key: Key) -> ast.FunctionDef | ast.Lambda | None:
    """Find the function with a key in a statement."""
    name, line = key[0].rpartition(".")[2], key[1]
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if _first_line(node) == line:
                return node
        elif isinstance(node, ast.Lambda) and name == "<lambda>" and (node.body.lineno, node.body.col_offset) == key[2]:
            return node
    return None


def _first_line(statement: ast.stmt) -> int:
    """The first line of a statement, or of its first decorator, as in `co_firstlineno`."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _outermost(nodes: Sequence[ast.FunctionDef | ast.Lambda]) -> list[ast.FunctionDef | ast.Lambda]:
    """The nodes that aren't inside another one: rewriting a function includes its nested functions."""
    inner = {id(n) for node in nodes for n in ast.walk(node) if n is not node}
    return [node for node in nodes if id(node) not in inner]
