"""Modules made from a file of a package in which some text is replaced."""

from __future__ import annotations

import importlib
import itertools
import linecache
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Edit:
    """What is written differently in a file.

    Attributes:
        network: name of the file.
        label: what is wrong, or only different, unique within the network.
        cells: paths of the Cells that are wrong, divided by blanks, the root is `.`; empty if nothing is wrong.
        changes: pairs of a text, which occurs once, and what is written instead.
        words: words of a correct text on the cause; alternatives are divided by `|`.
        train: compare in train mode.
    """

    network: str
    label: str
    cells: str
    changes: tuple[tuple[str, str], ...]
    words: tuple[str, ...] = ()
    train: bool = False


def edit(network: str, label: str, cells: str, *changes: tuple[str, str], words: str = "", train: bool = False) -> Edit:
    """Return an edit; `words` are divided by blanks."""
    return Edit(network, label, cells, changes, tuple(words.split()), train)


def edited_text(package: str, name: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the text of a file with texts replaced, each of which occurs once.

    Args:
        package: package with the file: "benchmarks.faults.ports".
        name: name of the file, without `.py`.
        changes: pairs of a text and what is written instead.

    Raises:
        ValueError: a text doesn't occur once.
    """
    (folder,) = importlib.import_module(package).__path__
    text = (Path(folder) / f"{name}.py").read_text(encoding="utf-8")
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} occurs {text.count(old)} times in {name}.py of {package}")
        text = text.replace(old, new)
    return text


def edited(package: str, name: str, changes: Iterable[tuple[str, str]]) -> ModuleType:
    """Return the module of a file with texts replaced, as `edited_text` does; raise `ValueError` alike."""
    text = edited_text(package, name, changes)
    number = next(_numbers)
    module = ModuleType(f"{package}.{name}_{number}")
    module.__package__ = package
    file = f"<{package.rpartition('.')[2]}/{name}.py, {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module  # dataclasses look there for the annotations of their fields
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module
