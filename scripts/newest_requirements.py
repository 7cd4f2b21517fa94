"""Prints what the project and its tests need, with onnxruntime for onnxruntime-gpu: for `bash scripts/check --newest`.

The two packages are one program; the latter is often a version behind, and is larger.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

EXTRAS = ("test", "docs", "dev")


def requirements(project: dict[str, object]) -> list[str]:
    """The dependencies of the table `project` of pyproject.toml and of its `EXTRAS`; onnxruntime on every platform."""
    dependencies, extras = project["dependencies"], project["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(extras, dict)
    every = [*dependencies, *(requirement for name in EXTRAS for requirement in extras[name])]
    without_gpu = [requirement for requirement in every if not requirement.startswith("onnxruntime-gpu")]
    return [r.partition(";")[0] if r.startswith("onnxruntime") else r for r in without_gpu]


if __name__ == "__main__":
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    sys.stdout.write("\n".join(requirements(tomllib.loads(pyproject.read_text())["project"])) + "\n")
