"""Holds the arrows between the rooms: what each may import, and what merely importing it may load."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.floors import FLOORS
from tests.imports import ROOMS, imports

ROOT = Path(__file__).parents[1]

PARITY = {
    "click",
    "recorder",
    "converter",
    "jinja2",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "rich",
    "runtime",
    "torch",
}
# Beside itself and the standard library. Where two rows apply to a file, the longer one holds.
MAY_IMPORT = {
    "runtime": {"ml_dtypes", "numpy", "safetensors"},
    "runtime/compiled": {"google", "ml_dtypes", "numpy", "onnx", "onnxruntime"},
    "runtime/train_step": {"ml_dtypes", "numpy", "onnx", "onnxruntime"},
    "runtime/lowering": {"ml_dtypes", "numpy", "onnx"},
    "runtime/lowering/opsets.py": {"onnx", "onnxruntime"},  # asks ONNX Runtime which opsets it takes
    "converter": {"google", "jax", "ml_dtypes", "numpy", "onnx", "runtime", "sympy", "torch"},
    "converter/mapped_weights.py": {"numpy", "runtime", "safetensors", "torch"},
    "parity": PARITY,
    "parity/jobs/deployment/quantizing.py": PARITY | {"google"},  # its errors come through onnxruntime.quantization
    "parity/pytest_": PARITY | {"pytest"},  # only pytest itself loads it: others need not have pytest
    "parity/sides/jax": PARITY | {"equinox", "flax", "jax"},  # loaded for a network in JAX alone
    "parity/checking/recordings/shards.py": PARITY | {"safetensors"},
    "parity/report/notebook.py": PARITY | {"pandas"},  # for to_frame() alone
    "parity/report/report.py": PARITY | {"pandas"},  # its types
    "parity/jobs/sweeping/limits.py": PARITY | {"psutil"},
    "parity/jobs/sweeping/on_ray.py": PARITY | {"ray"},
    "parity/weights/readers/gguf.py": PARITY | {"gguf"},  # loaded for a GGUF file alone
    "parity/sides/mindspore_cells.py": PARITY | {"mindspore"},  # loaded for a Cell of MindSpore's alone
}
HEAVY = ("torch", "onnx", "onnxruntime")


def room_or_library(name: list[str]) -> str:
    """`cellbridge.runtime.ir` is the room `runtime`; `torch.nn` is the library `torch`."""
    return name[1] if name[0] == "cellbridge" and len(name) > 1 else name[0]


def forbidden_imports(root: Path) -> list[str]:
    faults = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            relative = path.relative_to(root)
            row = max((row for row in MAY_IMPORT if relative.as_posix().startswith(row)), key=len)
            allowed = MAY_IMPORT[row] | {room} | sys.stdlib_module_names
            for line, name in imports(path, ["cellbridge", *relative.parts[:-1]]):
                if room_or_library(name) not in allowed:
                    faults.append(f"{relative.as_posix()}:{line}: {row} may not import {'.'.join(name)}")
    return faults


def rooms_imports(root: Path, room: str) -> dict[str, dict[str, int]]:
    """For each file of a room the files of the room that it imports, with the line, wherever in the file that stands.

    Names that a package re-exports count as imports of the package, except in the package itself.
    """
    files = {path.relative_to(root / room).as_posix() for path in (root / room).rglob("*.py")}
    imports_by_file: dict[str, dict[str, int]] = {file: {} for file in sorted(files)}
    for file, imported in imports_by_file.items():
        path = root / room / file
        for line, name in imports(path, ["cellbridge", *path.relative_to(root).parts[:-1]]):
            if name[:2] != ["cellbridge", room]:
                continue
            parts = name[2:]
            spellings = ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"]))
            spellings += ("/".join(parts[:-1]) + ".py", "/".join([*parts[:-1], "__init__.py"]))
            target = next((spelling for spelling in spellings if spelling in files), None)
            if target not in (None, file):
                imported.setdefault(str(target), line)
    return imports_by_file


def floor_of(file: str, floors: tuple[tuple[str, ...], ...]) -> tuple[int, str]:
    """The number of a file's floor, and the row's entry that the file belongs to; `KeyError` if it is on none."""
    rows = [(number, entry) for number, row in enumerate(floors) for entry in row]
    fitting = [(number, entry) for number, entry in rows if file == entry or file.startswith(entry + "/")]
    if not fitting:
        raise KeyError(file)
    return max(fitting, key=lambda row: len(row[1]))


def imports_from_higher_floors(root: Path, room: str, floors: tuple[tuple[str, ...], ...]) -> list[str]:
    """Files on no floor, and imports from a higher floor or from another folder of the same."""
    faults = []
    for file, imported in rooms_imports(root, room).items():
        try:
            number, entry = floor_of(file, floors)
        except KeyError:
            faults.append(f"{room}/{file} is on no floor")
            continue
        for target, line in imported.items():
            target_number, target_entry = floor_of(target, floors)
            if target_number > number:
                faults.append(f"{room}/{file}:{line} imports {target}, which is {target_number - number} floors up")
            elif target_number == number and target_entry != entry:
                faults.append(f"{room}/{file}:{line} imports {target}, which is on the same floor")
    return faults


def import_cycles(root: Path, room: str) -> list[list[str]]:
    """Files of a room that import each other, directly or by way of others."""
    imported = {file: sorted(targets) for file, targets in rooms_imports(root, room).items()}
    done: set[str] = set()
    cycles = []

    def visit(file: str, path: list[str]) -> None:
        if file in path:
            cycles.append([*path[path.index(file) :], file])
        elif file not in done:
            for target in imported[file]:
                visit(target, [*path, file])
            done.add(file)

    for file in imported:
        visit(file, [])
    return cycles


BETWEEN_FOLDERS = {
    "runtime/common/api.py": "the path under which MindSpore's scripts import jit",
    "runtime/ops/higher_order/": "ops whose kernels run programs, whose nodes call ops",
    "runtime/ops/linear_algebra/": "some of its ops are loops, which run programs",
}
"""What may lead back to another folder, beside `__init__.py`, which offers what is defined above."""


def folder_cycles(root: Path, room: str) -> list[list[str]]:
    """Folders of a room that import each other, directly or by way of others."""
    imported: dict[str, set[str]] = {}
    for file, targets in rooms_imports(root, room).items():
        folder = file.partition("/")[0]
        if not file.endswith("__init__.py") and not f"{room}/{file}".startswith(tuple(BETWEEN_FOLDERS)):
            others = {target.partition("/")[0] for target in targets if "/" in target} - {folder}
            imported.setdefault(folder, set()).update(others)

    def path_to(goal: str, folder: str, passed: set[str]) -> list[str]:
        for neighbour in sorted(imported.get(folder, ())):
            if neighbour == goal:
                return [folder, goal]
            if neighbour not in passed and (rest := path_to(goal, neighbour, passed | {neighbour})):
                return [folder, *rest]
        return []

    return [path for folder in sorted(imported) if (path := path_to(folder, folder, {folder}))]


ASSEMBLED_IN: dict[str, set[str]] = {
    "Comparer": {"parity/judging/run_judge.py"},
    "ValueJudge": set(),  # callers say how by partial(ValueJudge, ...), and RunJudge.of makes it
    "SummaryJudge": set(),
    "Report": {"parity/judging/trial.py"},
}
"""The files in which a run is judged, and a report begins."""


def files_that_call(root: Path, name: str) -> set[str]:
    """Return the files of parity that call a name."""
    files = set()
    for path in sorted((root / "parity").rglob("*.py")):
        source = path.read_text()
        if name not in source:  # parsing takes longer than reading
            continue
        called = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        if name in {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}:
            files.add(path.relative_to(root).as_posix())
    return files


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
    (violation,) = forbidden_imports(tmp_path)
    assert violation.startswith(f"{file}:")
    assert violation.endswith(fault)


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


@pytest.mark.parametrize("room", FLOORS)
def test_imports_lead_to_lower_floors(room: str) -> None:
    assert imports_from_higher_floors(ROOT, room, FLOORS[room]) == []


@pytest.mark.parametrize("room", FLOORS)
def test_no_files_import_each_other(room: str) -> None:
    assert import_cycles(ROOT, room) == []


@pytest.mark.parametrize("room", FLOORS)
def test_no_folders_import_each_other(room: str) -> None:
    assert folder_cycles(ROOT, room) == []


def test_the_exceptions_between_folders_are_there() -> None:
    assert [entry for entry in BETWEEN_FOLDERS if not (ROOT / entry).exists()] == []


@pytest.mark.parametrize("room", FLOORS)
def test_every_floor_is_there(room: str) -> None:
    assert [entry for row in FLOORS[room] for entry in row if not (ROOT / room / entry).exists()] == []


@pytest.mark.parametrize("name", ASSEMBLED_IN)
def test_runs_are_judged_in_one_place(name: str) -> None:
    assert files_that_call(ROOT, name) == ASSEMBLED_IN[name]


@pytest.mark.parametrize("call", ["Comparer(side, values)", "comparer.Comparer(side, values)"])
def test_a_planted_second_place_is_found(tmp_path: Path, call: str) -> None:
    plant(tmp_path, {"recordings/a.py": f"def f():\n    return {call}", "recordings/b.py": "class Comparer: ..."})
    assert files_that_call(tmp_path, "Comparer") == {"parity/recordings/a.py"}


PLANTED = (("low.py", "base"), ("base/tables", "side"), ("main",))


@pytest.mark.parametrize(
    ("file", "source", "fault"),
    [
        ("low.py", "from .main import a", "parity/low.py:1 imports main/a.py, which is 2 floors up"),
        ("base/a.py", "def f():\n    from ..main.a import x", "parity/base/a.py:2 imports main/a.py, which is 2"),
        (
            "base/a.py",
            "if TYPE_CHECKING:\n    from ..side import a",
            "base/a.py:2 imports side/a.py, which is 1",
        ),
        (
            "base/a.py",
            "from .tables.a import x",
            "imports base/tables/a.py, which is 1 floors up",
        ),
        ("side/a.py", "import cellbridge.parity.base.tables.a", "imports base/tables/a.py, which is on the same floor"),
        ("low.py", "from cellbridge.parity.base.a import x", "imports base/a.py, which is on the same floor"),
        ("attic.py", "", "parity/attic.py is on no floor"),
    ],
)
def test_a_planted_import_from_a_higher_floor_is_found(tmp_path: Path, file: str, source: str, fault: str) -> None:
    plant(tmp_path, {"low.py": "", "base/a.py": "", "base/tables/a.py": "", "side/a.py": "", "main/a.py": ""})
    plant(tmp_path, {file: source})
    (violation,) = imports_from_higher_floors(tmp_path, "parity", PLANTED)
    assert fault in violation


def test_planted_folders_that_import_each_other_are_found(tmp_path: Path) -> None:
    sources = {"base/a.py": "from ..main import b", "main/b.py": "", "main/c.py": "from ..side.d import x"}
    sources |= {"side/d.py": "from ..base.e import x", "base/e.py": "", "base/__init__.py": "from ..main import b"}
    plant(tmp_path, sources)
    assert import_cycles(tmp_path, "parity") == []
    assert ["base", "main", "side", "base"] in folder_cycles(tmp_path, "parity")


def test_imports_from_lower_floors_are_let_through(tmp_path: Path) -> None:
    sources = {"low.py": "", "base/__init__.py": "", "base/b.py": "from ...runtime import tree"}
    sources |= {"base/a.py": "from . import b", "base/tables/a.py": "from ..a import x\nfrom ... import low"}
    sources |= {"side/a.py": "from ..base import b", "main/a.py": "from ..side.a import x\nfrom ..base.tables import a"}
    plant(tmp_path, sources)
    assert imports_from_higher_floors(tmp_path, "parity", PLANTED) == []
    assert import_cycles(tmp_path, "parity") == []


@pytest.mark.parametrize("inside", ["from .{}", "def f():\n    from .{}", "if TYPE_CHECKING:\n    from .{}"])
def test_a_planted_cycle_is_found(tmp_path: Path, inside: str) -> None:
    sources = {
        "main/a.py": "from .b import x",
        "main/b.py": "from . import c",
        "main/c.py": inside.format("a import x"),
    }
    plant(tmp_path, sources)
    assert import_cycles(tmp_path, "parity") == [["main/a.py", "main/b.py", "main/c.py", "main/a.py"]]


def plant(root: Path, sources: dict[str, str]) -> None:
    for file, source in sources.items():
        (root / "parity" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "parity" / file).write_text(source)


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


def test_the_namespace_holds_the_command_and_the_recorder_alone() -> None:
    assert sorted(file.name for file in (ROOT / "cellbridge").glob("*.py")) == ["__main__.py", "recorder.py"]


def test_the_recorder_needs_numpy_alone(tmp_path: Path) -> None:
    """It may be copied into any project."""
    recorder = ROOT / "cellbridge" / "recorder.py"
    names = {name[0] for _, name in imports(recorder, [])}
    assert names - sys.stdlib_module_names == {"numpy"}
    (tmp_path / "recorder.py").write_bytes(recorder.read_bytes())
    assert loaded_by("import recorder", (*HEAVY, "cellbridge"), tmp_path) == set()


def test_every_package_has_an_init() -> None:
    folders = [ROOT.joinpath(*package.split(".")[1:]) for package in packages_in_folders(ROOT)]
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_a_planted_package_is_found(tmp_path: Path) -> None:
    for file in ("runtime/__init__.py", "runtime/ir/passes/fold.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert packages_in_folders(tmp_path) == {"cellbridge.runtime", "cellbridge.runtime.ir.passes"}
