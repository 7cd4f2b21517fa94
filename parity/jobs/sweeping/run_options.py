"""`RunOptions`: the options of `parity run` that all models of a sweep are judged with, and how a process gets them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...support.files import write_text

PROJECT_OPTIONS = "CELLBRIDGE_PROJECT_OPTIONS"
"""The environment variable that names a file with the project's options, which is read instead of pyproject.toml."""


@dataclass(frozen=True)
class RunOptions:
    """Options of `parity run`.

    Attributes:
        words: what the command line says.
        project: options of pyproject.toml that hold for `parity run`, by the names and with the values that it gives.
        project_file: the path of pyproject.toml, from which paths among its options start; None without one.
    """

    words: Sequence[str] = ()
    project: Mapping[str, Any] = field(default_factory=dict)
    project_file: str | None = None

    def same(self, options: RunOptions) -> bool:
        """Whether the same is judged in the same way; the project may have moved."""
        return self._as_text() == options._as_text()

    def _as_text(self) -> str:
        return json.dumps([list(self.words), dict(self.project)])  # in which a NaN is equal to itself

    def __str__(self) -> str:
        texts = [shlex.join(self.words)] if self.words else []
        texts += [f"{json.dumps(dict(self.project))} in pyproject.toml"] if self.project else []
        return " and ".join(texts) or "none"

    def environment(self, folder: Path) -> dict[str, str]:
        """Write a file with the project's options to a folder, and return the variable that names it.

        The process reads no pyproject.toml then: another one may be on its machine, or have changed meanwhile.
        """
        file = folder / "project_options.json"
        write_text(file, json.dumps({"file": self.project_file, "run": dict(self.project)}))
        return {PROJECT_OPTIONS: str(file)}
