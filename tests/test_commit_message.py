"""The hook that reads the message of a commit, alone and as git calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from commit_message import problems  # noqa: E402


@pytest.mark.parametrize(
    ("message", "changed", "words"),
    [
        ("Take the size from the weights\n", 30, []),
        ("Take the size from the weights\n\nThe option was forgotten.\n", 300, []),
        ("Merge branch 'x'\n", 300, []),
        ("Take the size\n", 31, ["31 lines change"]),
        ("Take the size\n\n# Please enter the commit message\n#\tmodified: x\n", 31, ["31 lines change"]),
        ("T" * 73, 1, ["73 characters"]),
        ("Take the size\nand another\n", 1, ["second line"]),
        ("# nothing\n", 1, ["first line is empty"]),
    ],
)
def test_what_is_wrong_with_a_message(message: str, changed: int, words: list[str]) -> None:
    texts = problems(message, changed)
    assert len(texts) == len(words)
    assert all(word in text for word, text in zip(words, texts, strict=True))


def test_git_refuses_a_large_commit_without_a_reason(tmp_path: Path) -> None:
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        return subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    git("init", "-q")
    hook = tmp_path / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "scripts" / "commit_message.py"}" "$1"\n')
    hook.chmod(0o755)
    (tmp_path / "file").write_text("line\n" * 31)
    git("add", "file")
    refused = git("commit", "-m", "Add a file")
    assert refused.returncode == 1
    assert "31 lines change" in refused.stderr
    assert git("commit", "-m", "Add a file", "-m", "It was missing.").returncode == 0
