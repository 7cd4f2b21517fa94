"""Every field of a saved program is checked when it is loaded, and the error names it."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellbridge.runtime import ProgramError, load
from tests.converter.programs import two_cells

WRONG: list[Any] = [None, 7, "\ud800", [[]], {"a": 1}]


def saved(folder: Path) -> tuple[Any, bytes]:
    two_cells().save(folder / "net.cell")
    with zipfile.ZipFile(folder / "net.cell") as archive:
        return json.loads(archive.read("program.json")), archive.read("tensors.safetensors")


def write(path: Path, graph: Any, tensors: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("program.json", json.dumps(graph))
        archive.writestr("tensors.safetensors", tensors)
    return path


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Each place in nested lists and objects."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        (("calls", 1, 0), 7, r"calls\[1\].path: needed a string, given 7"),
        (("calls", 1, 1), None, r"calls\[1\].class name: needed a string, given None"),
        (("calls", 1, 2), "0", r"calls\[1\].index: needed an integer, given '0'"),
        (("calls", 1, 3), "0", r"calls\[1\].parent: needed an integer or null, given '0'"),
        (("calls", 1, 0), "\ud800", r"calls\[1\].path: needed a valid Unicode string"),
        (("calls", 1), ["a"], r"calls\[1\]: needed a list of path, class name, index, parent"),
        (("train",), 1, "train: needed true or false, given 1"),
        (("inputs", 0, 0), [1], r"inputs\[0\].name: needed a string, given \[1\]"),
        (("outputs", 0), 3, r"outputs\[0\]: needed a string, given 3"),
        (("nodes", 0, "op"), {}, r"nodes\[0\].op: needed a string, given \{\}"),
        (("nodes", 0, "cell"), 1.0, r"nodes\[0\].cell: needed an integer, given 1.0"),
        (("nodes", 0, "source"), 9, r"nodes\[0\].source: needed one of \d+ sources, given 9"),
        (("nodes", 0, "source"), -1, r"nodes\[0\].source: needed one of \d+ sources, given -1"),
        (
            ("result",),
            {"constant": [1]},
            r"result.constant: needed a number, a string, true, false or null, given \[1\]",
        ),
        (("nodes", 0, "attributes", "x"), {"a": 1, "b": 2}, r"nodes\[0\].attributes\['x'\]: needed a value"),
    ],
)
def test_the_error_names_the_field(tmp_path: Path, place: tuple[Any, ...], wrong: Any, message: str) -> None:
    graph, tensors = saved(tmp_path)
    at = graph
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = wrong
    with pytest.raises(ProgramError, match=f"net.cell is damaged: {message}"):
        load(write(tmp_path / "net.cell", graph, tensors))


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    graph, tensors = saved(tmp_path)
    del graph["nodes"][0]["inputs"]
    with pytest.raises(ProgramError, match=r"nodes\[0\].inputs is missing"):
        load(write(tmp_path / "net.cell", graph, tensors))


def test_what_loads_with_another_value_anywhere_can_be_shown_and_saved(tmp_path: Path) -> None:
    graph, tensors = saved(tmp_path)
    refused = 0
    for place in list(places(graph))[::2]:
        for wrong in WRONG:
            changed = copy.deepcopy(graph)
            at = changed
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = wrong
            path = write(tmp_path / "changed.cell", changed, tensors)
            try:
                program = load(path)
            except ProgramError:
                refused += 1
                continue
            assert str(program)
            program.save(tmp_path / "again.cell")
            load(tmp_path / "again.cell")
    assert refused > 50


def test_whole_programs_load(tmp_path: Path) -> None:
    graph, tensors = saved(tmp_path)
    assert str(load(write(tmp_path / "net.cell", graph, tensors))) == str(two_cells())
