"""Holds the arrows between the rooms: what each may import, and what merely importing it may load."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PARITY = {"click", "converter", "ml_dtypes", "numpy", "onnx", "onnxruntime", "rich", "runtime", "torch"}
# Beside itself and the standard library. Where two rows apply to a file, the longer one holds.
MAY_IMPORT = {
    "runtime": {"ml_dtypes", "numpy", "safetensors"},
    "runtime/compiled": {"google", "ml_dtypes", "numpy", "onnx", "onnxruntime"},
    "runtime/train_step": {"ml_dtypes", "numpy", "onnx", "onnxruntime"},
    "runtime/lowering": {"ml_dtypes", "numpy", "onnx"},
    "runtime/lowering/opsets.py": {"onnx", "onnxruntime"},  # asks ONNX Runtime which opsets it takes
    "converter": {"google", "ml_dtypes", "numpy", "onnx", "onnx_ir", "runtime", "torch"},
    "parity": PARITY,
    "parity/pytest_": PARITY | {"pytest"},  # only pytest itself loads it: others need not have pytest
    "parity/sides/mindspore_cells.py": PARITY | {"mindspore"},  # loaded for a Cell of MindSpore's alone
}
ROOMS = ("runtime", "converter", "parity")
HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime")


def imports(path: Path, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, dotted name in parts) for each import in a file, wherever in the file it stands.

    `package` is the package that the file is in, in parts, against which relative imports are resolved.
    """
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name.split(".")) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                base = base + (module.split(".") if module else [])
                yield from ((node.lineno, [*base, alias.name]) for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name.split(".")


def room_or_library(name: list[str]) -> str:
    """`cellbridge.runtime.ir` is the room `runtime`; `torch.nn` is the library `torch`."""
    return name[1] if name[0] == "cellbridge" and len(name) > 1 else name[0]


def forbidden_imports(root: Path) -> list[str]:
    found = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            relative = path.relative_to(root)
            row = max((row for row in MAY_IMPORT if relative.as_posix().startswith(row)), key=len)
            allowed = MAY_IMPORT[row] | {room} | sys.stdlib_module_names
            for line, name in imports(path, ["cellbridge", *relative.parts[:-1]]):
                if room_or_library(name) not in allowed:
                    found.append(f"{relative.as_posix()}:{line}: {row} may not import {'.'.join(name)}")
    return found


def packages_in_folders(root: Path) -> set[str]:
    folders = {path.parent for room in ROOMS for path in (root / room).rglob("*.py")}
    return {".".join(["cellbridge", *folder.relative_to(root).parts]) for folder in folders}


def loaded_by(statement: str, modules: tuple[str, ...], folder: Path) -> set[str]:
    """Which of the modules a fresh Python has loaded after running the statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps([name for name in {modules!r} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_imports_follow_the_arrows() -> None:
    assert forbidden_imports(ROOT) == []


@pytest.mark.parametrize(
    ("file", "source", "fault"),
    [
        ("runtime/ops/sub/deep.py", "import torch.nn", "runtime may not import torch.nn"),
        ("runtime/ops/a.py", "def f():\n    from torch import nn", "runtime may not import torch.nn"),
        ("runtime/a.py", "from ..converter import capture", "runtime may not import cellbridge.converter.capture"),
        ("runtime/ops/a.py", "from ...parity.noise import bar", "runtime may not import cellbridge.parity.noise.bar"),
        ("runtime/a.py", "from .. import parity", "runtime may not import cellbridge.parity"),
        ("runtime/a.py", "from cellbridge import converter", "runtime may not import cellbridge.converter"),
        ("runtime/__init__.py", "import cellbridge.parity as p", "runtime may not import cellbridge.parity"),
        (
            "runtime/a.py",
            "import importlib\nimportlib.import_module('onnx.helper')",
            "runtime may not import onnx.helper",
        ),
        ("converter/capture/a.py", "from ...parity import check", "converter may not import cellbridge.parity.check"),
        ("converter/a.py", "import scipy", "converter may not import scipy"),
        ("parity/cli.py", "import pytest", "parity may not import pytest"),
        ("parity/pytest_plugin.py", "import scipy", "parity/pytest_ may not import scipy"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, file: str, source: str, fault: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    (found,) = forbidden_imports(tmp_path)
    assert found.startswith(f"{file}:")
    assert found.endswith(fault)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("runtime/ops/a.py", "import math\nimport numpy as np\nfrom ..ir import Program\nfrom . import registry"),
        ("converter/capture/a.py", "import torch\nfrom ...runtime.ir import Program\nfrom ..onnx_out import export"),
        ("parity/sides/a.py", "from ...converter import from_torch\nfrom ...runtime import load\nimport onnxruntime"),
        ("parity/pytest_plugin.py", "import pytest\nfrom .model_file import load"),
    ],
)
def test_a_rightful_import_is_let_through(tmp_path: Path, file: str, source: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert forbidden_imports(tmp_path) == []


@pytest.mark.parametrize(
    "module",
    ["cellbridge.parity", "cellbridge.parity.pytest_plugin", "cellbridge.parity.cli", "cellbridge.runtime"],
)
def test_import_is_light(module: str, tmp_path: Path) -> None:
    assert loaded_by(f"import {module}", HEAVY, tmp_path) == set()


def test_a_heavy_import_is_seen(tmp_path: Path) -> None:
    assert loaded_by("import onnx.helper", HEAVY, tmp_path) == {"onnx"}


def test_pyproject_lists_every_package() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert listed == ["cellbridge", *sorted(packages_in_folders(ROOT))]


def test_the_namespace_holds_the_command_alone() -> None:
    assert [file.name for file in (ROOT / "cellbridge").glob("*.py")] == ["__main__.py"]


def test_every_package_has_an_init() -> None:
    folders = [ROOT.joinpath(*package.split(".")[1:]) for package in packages_in_folders(ROOT)]
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_a_planted_package_is_found(tmp_path: Path) -> None:
    for file in ("runtime/__init__.py", "runtime/ir/passes/fold.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert packages_in_folders(tmp_path) == {"cellbridge.runtime", "cellbridge.runtime.ir.passes"}
