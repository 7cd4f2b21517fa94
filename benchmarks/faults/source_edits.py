"""Modules made from a file of this package in which some text is replaced."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

_numbers = itertools.count(1)


def edited_text(folder: str, name: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the text of a file with texts replaced, each of which occurs once.

    Args:
        folder: folder beside this file.
        name: name of the file, without `.py`.
        changes: pairs of a text and what is written instead.

    Raises:
        ValueError: a text doesn't occur once.
    """
    text = (Path(__file__).parent / folder / f"{name}.py").read_text(encoding="utf-8")
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} occurs {text.count(old)} times in {folder}/{name}.py")
        text = text.replace(old, new)
    return text


def edited(folder: str, name: str, changes: Iterable[tuple[str, str]]) -> ModuleType:
    """Return the module of a file with texts replaced, as `edited_text` does; raise `ValueError` alike."""
    text = edited_text(folder, name, changes)
    module = ModuleType(f"{__package__}.{folder}.{name}_{next(_numbers)}")
    module.__package__ = f"{__package__}.{folder}"
    file = f"<{folder}/{name}.py, {module.__name__.rpartition('_')[2]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module  # dataclasses look there for the annotations of their fields
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module
