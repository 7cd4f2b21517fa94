"""`Attack`: what a stranger hands over, the command that a user runs on it, and what must come of that."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main

NETWORK = """
import torch
def model(): return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
inputs = (torch.linspace(-1, 1, 12).reshape(4, 3),)
"""
WORK = "work"
"""The folder in which the user works, beside which there are files of theirs."""


@dataclass(frozen=True)
class Attack:
    """A row of the table.

    Attributes:
        name: what is handed over, in a few words.
        command: the words of the `parity` command, which runs in the folder `work`.
        exit: the exit code that it must have; `None` for any that is documented and no bug of ours.
        says: texts that its output must hold; white space doesn't count.
        lacks: texts that it must not hold.
        files: what is handed over: contents by path, from the folder around `work`.
        make: makes more of it; called with the folder around `work`.
        writes: globs of the files that the command may write, from the folder around `work`.
        slow: it is one of the slow tests, since the command starts processes and a row beside it does much the same.
    """

    name: str
    command: Sequence[str]
    exit: int | None
    says: Sequence[str] = ()
    lacks: Sequence[str] = ()
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    make: Callable[[Path], None] | None = None
    writes: Sequence[str] = ()
    slow: bool = False


def carry_out(attack: Attack, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand over, run the command, and assert what must come of it; no file may change but those that it writes."""
    (folder / WORK).mkdir()
    start = {"victim": "of the user", f"{WORK}/net.py": NETWORK, f"{WORK}/mine.json": "of the user"}
    for name, content in {**start, **attack.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    if attack.make is not None:
        attack.make(folder)
    monkeypatch.chdir(folder / WORK)
    before = contents(folder)
    result = CliRunner().invoke(main, list(attack.command))
    after = contents(folder)
    output = "".join(result.output.split())
    assert result.exit_code == attack.exit if attack.exit is not None else result.exit_code in (0, 1, 2, 3, 4), (
        result.output
    )
    for text in attack.says:
        assert "".join(text.split()) in output, f"it doesn't say {text!r}:\n{result.output}"
    for text in ("Traceback", "a bug in parity", *attack.lacks):
        assert "".join(text.split()) not in output, f"it says {text!r}:\n{result.output}"
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    changed = [name for name in changed if not any(fnmatchcase(name, glob) for glob in attack.writes)]
    assert not changed, f"it wrote or removed {changed}"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files, by path; of links, where they lead; bytecode of Python is left out."""
    contents_by_path = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            contents_by_path[name] = b"-> " + os.fsencode(os.readlink(path))
        elif path.is_file() and "__pycache__" not in name:
            contents_by_path[name] = path.read_bytes()
    return contents_by_path
