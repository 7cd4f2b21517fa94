"""The boundaries of modules are watched in one place, and the recorder, which people copy, is no library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOOKS = {"register_forward_hook", "register_forward_pre_hook"}
WATCHERS = {
    "converter/capture/cell_hooks.py": "the watcher of the boundaries of modules",
    "converter/capture/attributes.py": "compares attributes after the call of the whole network",
    "parity/jobs/parallel/dropout.py": "looks at the elements that layers drop on each process",
    "parity/sides/cell_capture.py": "copies all arguments of a call of one module, not its tensors alone",
    "parity/sides/frameworks.py": "hooks of Cells, for all frameworks",
    "parity/jobs/training/torch_updates.py": "sees the calls of the whole network in a training script",
}
FORMAT = {
    "CODES", "FORMAT", "INDEX", "PROGRAM", "VERSION", "Recorder",
    "as_stored", "checksum", "library_versions", "statistics",
}  # fmt: skip
"""What a recording is: its writer, and the definitions of its format."""


def sources(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the source of each file in which one of these words stands."""
    for room in ("converter", "parity"):
        for path in sorted((ROOT / room).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if any(word in source for word in words):
                yield path.relative_to(ROOT).as_posix(), ast.parse(source)


def test_boundaries_of_modules_are_watched_in_one_place() -> None:
    watching_files = {
        file
        for file, tree in sources(*HOOKS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HOOKS
    }
    assert watching_files == set(WATCHERS)


def test_nothing_but_the_format_is_imported_from_the_recorder() -> None:
    imports = {
        (file, alias.name)
        for file, tree in sources("recorder")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "") == "recorder"
        for alias in node.names
    }
    assert imports
    assert {(file, name) for file, name in imports if name not in FORMAT} == set()
