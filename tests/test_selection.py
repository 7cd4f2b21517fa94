"""The choice of tests by what changed, in a repository of a few files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.imports import ImportGraph
from tests.selection import Selector, changed_files

FILES = {
    "runtime/__init__.py": "",
    "runtime/ops/__init__.py": "from . import fourier, power\nfrom .registry import get",
    "runtime/ops/registry.py": "def get(name): ...\ndef operator(f): ...",
    "runtime/ops/constants.py": "TWO_PI = 6.28",
    "runtime/ops/fourier.py": "from .constants import TWO_PI\nfrom .registry import operator\n"
    "@operator\ndef dft(x): return TWO_PI",
    "runtime/ops/power.py": "from .registry import operator\n@operator\ndef cube(x): ...",
    "runtime/spectra.py": "from .ops.fourier import dft",
    "runtime/lazy.py": "from .ops import get\ndef volume(x): return get('cube')",
    "converter/__init__.py": "",
    "converter/tables/__init__.py": "from . import angles",
    "converter/tables/angles.py": "from ..table import aten\n@aten('aten.rad2deg.default')\ndef degrees(x): ...",
    "converter/table.py": "def aten(name): ...",
    "converter/capture.py": "from . import tables",
    "tests/runtime/ops/cases.py": "class OpCase: ...",
    "tests/runtime/ops/test_all_ops.py": "from tests.runtime.ops.cases import OpCase",
    "tests/runtime/test_spectra.py": "from cellbridge.runtime.spectra import dft",
    "tests/runtime/test_registry.py": "from cellbridge.runtime.ops import get",
    "tests/converter/test_capture.py": "from cellbridge.converter import capture\nimport torch\ntorch.sin",
    "tests/converter/test_degrees.py": "import torch\ntorch.rad2deg",
    "tests/converter/test_sine.py": "import torch\ntorch.sin",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def uses(root: Path, name: str) -> set[str]:
    return {path.relative_to(root).as_posix() for path in ImportGraph(root).uses[root / name]}


def distances(
    root: Path, *changed: str, costs: dict[str, float] | None = None, budget: float = 1000.0
) -> dict[str, int]:
    selection = Selector(root, costs or {}).select([root / name for name in changed], budget)
    return {path.name: distance for path, distance in selection.distances.items() if path.exists()}


def test_a_name_of_a_package_leads_to_the_file_that_defines_it(root: Path) -> None:
    assert uses(root, "tests/runtime/test_registry.py") == {"runtime/ops/registry.py"}
    assert uses(root, "runtime/spectra.py") == {"runtime/ops/fourier.py"}


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import cellbridge.runtime as ms\nms.ops.get(1)", "runtime/ops/registry.py"),
        ("from cellbridge import runtime\nruntime.ops.fourier.dft(1)", "runtime/ops/fourier.py"),
        ("import cellbridge.runtime.spectra\ncellbridge.runtime.spectra.dft", "runtime/spectra.py"),
        ("def f():\n    from cellbridge.runtime.ops import power", "runtime/ops/power.py"),
    ],
)
def test_attributes_of_packages_are_followed(root: Path, source: str, used: str) -> None:
    (root / "tests/test_more.py").write_text(source)
    assert used in uses(root, "tests/test_more.py")


def test_a_family_of_ops_selects_its_cases_and_its_users(root: Path) -> None:
    distance_of = distances(root, "runtime/ops/fourier.py")
    assert distance_of["test_all_ops.py"] == 1
    assert distance_of["test_spectra.py"] == 2
    assert "test_registry.py" not in distance_of
    assert Selector(root, {}).select([root / "runtime/ops/fourier.py"]).ops == {"dft"}


def test_a_helper_selects_the_ops_that_use_it(root: Path) -> None:
    assert Selector(root, {}).select([root / "runtime/ops/constants.py"]).ops == {"dft"}


def test_a_table_selects_tests_that_mention_its_names_first(root: Path) -> None:
    distance_of = distances(root, "converter/tables/angles.py")
    assert distance_of["test_degrees.py"] == 1
    assert distance_of["test_capture.py"] > 1
    assert "test_sine.py" not in distance_of


def test_what_lies_beyond_the_budget_is_left_out_and_counted(root: Path) -> None:
    costs = {"tests/runtime/test_spectra.py": 500.0}
    assert "test_spectra.py" not in distances(root, "runtime/ops/fourier.py", costs=costs, budget=100.0)
    selection = Selector(root, costs).select([root / "runtime/ops/fourier.py"], 100.0)
    assert [path.name for path in selection.not_selected] == ["test_spectra.py"]
    assert "left to the whole suite: 1" in str(selection)


def test_a_changed_test_file_is_run_whatever_it_costs(root: Path) -> None:
    costs = {"tests/runtime/test_spectra.py": 500.0}
    assert distances(root, "tests/runtime/test_spectra.py", costs=costs, budget=1.0)["test_spectra.py"] == 0


def test_files_that_git_does_not_know_are_changes(root: Path) -> None:
    for arguments in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a"):
        subprocess.run(["git", *arguments.split()], cwd=root, check=True)
    assert changed_files(root, "HEAD") == []
    (root / "runtime/new.py").touch()
    (root / "runtime/lazy.py").write_text("# another")
    assert {path.name for path in changed_files(root, "HEAD")} == {"new.py", "lazy.py"}
