"""Functions whose source is followed: found, rewritten, and put in place while Python is traced.

The text that is compiled here is that of a function which runs already: it is read from the file that the function
names, and refused unless, as it stands there, it compiles to the very code that runs. The module that this makes is
never run; the code of the function is taken out of it.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import gc
import linecache
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from ...errors import UnknownValue
from ..sources import is_ours
from .rewriting import FUNCTION, can_be_rewritten, rewrite

Key = tuple[str, int, tuple[int, int]]
"""Where a function is defined in its file: qualified name, first line; of a lambda, line and column of its body."""

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class Unfollowed(UnknownValue):
    """A condition on a tensor was met in a function whose source can be followed: it is traced anew then.

    Attributes:
        code: the function's, or that of a comprehension in it.
    """

    code: CodeType


@dataclass
class _File:
    """A file with functions that are followed.

    Attributes:
        tree: its syntax.
        codes: the code of each function in it as it was, by its key.
        followed: which functions are.
        rewritten: the code of these, and of the functions around them.
    """

    name: str
    tree: ast.Module
    flags: int
    codes: dict[Key, CodeType]
    followed: set[Key] = field(default_factory=set)
    rewritten: dict[Key, CodeType] = field(default_factory=dict)

    def function_of(self, code: CodeType) -> Key | None:
        """The key of the function that code is of, or that a comprehension is in; None if it isn't what stands here."""
        name = code.co_qualname
        while name.rpartition(".")[2] in _COMPREHENSIONS:
            name = name.rpartition(".")[0].removesuffix(".<locals>")
        if name == code.co_qualname:
            key = _key(code)
            return key if key in self.codes and is_same_code(self.codes[key], code) else None
        around = [k for k, c in self.codes.items() if k[0] == name and any(is_same_code(i, code) for i in _within(c))]
        return around[0] if around else None

    def follow(self, key: Key) -> None:
        """Rewrite a function, with those that are followed already."""
        tree = copy.deepcopy(self.tree)
        nodes = [_node(tree, k) for k in (*self.followed, key)]
        for node in _outermost([node for node in nodes if node is not None]):
            rewrite(node)
        whole = compile(tree, self.name, "exec", flags=self.flags, dont_inherit=True)
        self.followed.add(key)
        made = dict(_functions(whole))
        around = {k for k in self.codes if any(f == k or f[0].startswith(f"{k[0]}.<locals>.") for f in self.followed)}
        self.rewritten = {k: _renamed(made[k]) for k in around if k in made}


_LOCK = threading.RLock()
_FILES: dict[str, _File] = {}
_FUNCTIONS: weakref.WeakSet[FunctionType] = weakref.WeakSet()
_IN_PLACE: dict[int, _InPlace] = {}


@dataclass
class _InPlace:
    """A function that has rewritten code while traces run."""

    function: FunctionType
    original: CodeType
    traces: int = 0


def can_follow(code: CodeType) -> bool:
    """Whether the source of code, which met a condition on a tensor, can be followed, and isn't: it is the original."""
    if is_ours(code):
        return False
    with _LOCK:
        file = _file_of(code)
        key = file.function_of(code) if file else None
        if file is None or key is None:
            return False
        node = _node(file.tree, key)
        return node is not None and can_be_rewritten(node)


def follow(code: CodeType) -> bool:
    """Have the function followed that code is of, as soon as it is `following`; whether it was found."""
    with _LOCK:
        file = _file_of(code)
        key = file.function_of(code) if file else None
        assert file is not None, f"{code.co_qualname} was found before"
        assert key is not None, f"{code.co_qualname} was found before"
        if key not in file.followed:
            file.follow(key)
        functions = (item for item in gc.get_objects() if type(item) is FunctionType)
        found = [f for f in functions if _original(file, f) is not None and f not in _FUNCTIONS]
        _FUNCTIONS.update(found)
        return bool(found)


@contextlib.contextmanager
def following() -> Iterator[None]:
    """Within the context, the functions that are followed run as rewritten."""
    taken: list[_InPlace] = []
    with _LOCK:
        for function in list(_FUNCTIONS):
            entry = _IN_PLACE.get(id(function))
            file = _FILES[function.__code__.co_filename]
            if entry is None:
                original = _original(file, function)
                if original is None:
                    continue
                entry = _IN_PLACE[id(function)] = _InPlace(function, function.__code__)
            function.__code__ = file.rewritten[_key(entry.original)]
            entry.traces += 1
            taken.append(entry)
    try:
        yield
    finally:
        with _LOCK:
            for entry in taken:
                entry.traces -= 1
                if not entry.traces:
                    entry.function.__code__ = entry.original
                    del _IN_PLACE[id(entry.function)]


def _original(file: _File, function: FunctionType) -> CodeType | None:
    """What stands in the file for a function that has rewritten code; None if there is none, or it isn't that."""
    code = function.__code__
    if code.co_filename != file.name:
        return None
    key = _key(code)
    if key not in file.rewritten or not is_same_code(code, file.codes[key]):
        return None
    return code if code.co_freevars == file.rewritten[key].co_freevars else None


def _file_of(code: CodeType) -> _File | None:
    """The file of code; None where there is no source."""
    name = code.co_filename
    text = "".join(linecache.getlines(name))
    if not text:
        return None
    known = _FILES.get(name)
    if known is not None and any(is_same_code(c, code) for c in known.codes.values()):
        return known
    flags = code.co_flags & _FUTURE
    try:
        tree = ast.parse(text, name)
        codes = dict(_functions(compile(text, name, "exec", flags=flags, dont_inherit=True)))
    except (SyntaxError, ValueError):
        return known
    made = _File(name, tree, flags, codes)
    if known is None or not known.followed:
        _FILES[name] = made
        return made
    return known


def is_same_code(a: CodeType, b: CodeType) -> bool:
    """Whether the instructions, names and constants of two functions are the same, and those of functions in them."""
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


def _renamed(code: CodeType, name: str = "", qualname: str = "") -> CodeType:
    """Code whose functions of our making are called what the function is, as a traceback shows them."""
    ours = code.co_name.startswith(FUNCTION)
    name, qualname = (name, qualname) if ours else (code.co_name, code.co_qualname)
    constants = tuple(_renamed(c, name, qualname) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_name=name, co_qualname=qualname)


def _node(tree: ast.Module, key: Key) -> ast.FunctionDef | ast.Lambda | None:
    """The function of a file with a key."""
    name, line = key[0].rpartition(".")[2], key[1]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if min([node.lineno, *(d.lineno for d in node.decorator_list)]) == line:
                return node
        elif isinstance(node, ast.Lambda) and name == "<lambda>" and (node.body.lineno, node.body.col_offset) == key[2]:
            return node
    return None


def _outermost(nodes: Sequence[ast.FunctionDef | ast.Lambda]) -> list[ast.FunctionDef | ast.Lambda]:
    """Those of the nodes that are in no other: a function is rewritten with all in it."""
    inner = {id(n) for node in nodes for n in ast.walk(node) if n is not node}
    return [node for node in nodes if id(node) not in inner]
