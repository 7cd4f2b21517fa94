"""Builds the wheel, compares it with the folders, and uses it in a fresh virtual environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ROOMS = ("runtime", "converter", "parity")
NAMESPACE = "cellbridge"  # holds `__main__` alone
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MODEL_FILE = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
inputs = (torch.randn(2, 3),)
"""


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_project(to: Path) -> Path:
    """A copy to build in: setuptools leaves a `build/` in the tree, and would take a deleted module out of it again."""
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, to)
    for room in (NAMESPACE, *ROOMS):
        shutil.copytree(ROOT / room, to / room, ignore=shutil.ignore_patterns("__pycache__"))
    return to


def build_wheel(project: Path, into: Path) -> Path:
    pip_wheel = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, *pip_wheel, "--wheel-dir", into, project, cwd=into)
    (wheel,) = into.glob("*.whl")
    return wheel


def files_in_wheel(wheel: Path) -> set[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return {name.removeprefix("cellbridge/") for name in names if ".dist-info/" not in name}


def files_in_folders(project: Path) -> set[str]:
    files = (path for room in (NAMESPACE, *ROOMS) for path in (project / room).rglob("*") if path.is_file())
    return {path.relative_to(project).as_posix().removeprefix(f"{NAMESPACE}/") for path in files}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(project, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh virtual environment that has the wheel."""
    return environment_with([wheel], tmp_path_factory.mktemp("venv"))


def environment_with(installed: list[str | Path], folder: Path) -> Path:
    """The scripts folder of a fresh virtual environment, with what `pip install` is told to install.

    The dependencies are lent by the running environment, through a .pth file: torch is large. Its own cellbridge is
    ignored by pip, and an editable install of it does not reach through, since a .pth file's folders have none of
    their own .pth files read.
    """
    builder = venv.EnvBuilder(with_pip=False, symlinks=True)
    builder.create(folder)
    context = builder.ensure_directories(folder)
    (site_packages,) = folder.glob("[Ll]ib/**/site-packages")
    lent = [path for path in sys.path if path.endswith("-packages")]
    (site_packages / "lent.pth").write_text("\n".join(lent))
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
    run(sys.executable, "-m", "pip", "--python", context.env_exe, *install, *installed, cwd=folder)
    return Path(context.bin_path)


def test_wheel_has_the_files_of_the_folders(wheel: Path, project: Path) -> None:
    assert files_in_wheel(wheel) == files_in_folders(project)


@pytest.mark.slow
def test_a_forgotten_package_is_missing_from_the_wheel(tmp_path: Path) -> None:
    project, into = tmp_path / "project", tmp_path / "wheel"
    project.mkdir()
    into.mkdir()
    copy_project(project)
    (project / "runtime" / "forgotten").mkdir()
    (project / "runtime" / "forgotten" / "__init__.py").touch()
    missing = files_in_folders(project) - files_in_wheel(build_wheel(project, into))
    assert missing == {"runtime/forgotten/__init__.py"}


def test_wheel_installs_the_license_and_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {f"cellbridge/{room}/py.typed" for room in ROOMS} <= set(names)


def test_installed_package_is_the_wheel(scripts: Path, tmp_path: Path) -> None:
    for room in ROOMS:
        file = run(scripts / "python", "-c", f"import cellbridge.{room} as room; print(room.__file__)", cwd=tmp_path)
        assert Path(file.strip()).is_relative_to(scripts.parent)


@pytest.mark.slow
def test_an_editable_install_has_the_command_too(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    python = environment_with(["--editable", project], tmp_path) / "python"
    assert "version" in run(python, "-m", "cellbridge", "--version", cwd=folder)
    file = run(python, "-c", "import cellbridge.parity as room; print(room.__file__)", cwd=folder)
    assert Path(file.strip()).is_relative_to(project)


def test_every_room_tells_the_version(scripts: Path, tmp_path: Path) -> None:
    for room in ROOMS:
        code = f"import cellbridge.{room} as room; print(room.__version__)"
        assert run(scripts / "python", "-c", code, cwd=tmp_path).strip() == PROJECT["version"]


@pytest.mark.slow
def test_a_source_distribution_has_documentation_tests_and_fixtures(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(
        ROOT, project, ignore=shutil.ignore_patterns(".[!p]*", "__pycache__", "*.egg-info", "build", "dist")
    )
    code = "from setuptools import build_meta; build_meta.build_sdist('..')"
    run(sys.executable, "-c", code, cwd=project)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    needed = [file for file in project.iterdir() if file.suffix in (".md", ".toml", ".txt")]
    for folder in ("docs", "tests", "fixtures", "benchmarks", "scripts", NAMESPACE, *ROOMS):
        needed += [file for file in (project / folder).rglob("*") if file.is_file()]
    assert {file.relative_to(project).as_posix() for file in needed} <= inside


@pytest.mark.slow
def test_installed_command_prints_help(scripts: Path, tmp_path: Path) -> None:
    python = scripts / "python"
    for command in ([scripts / "parity"], [python, "-m", "cellbridge"], [python, "-m", "cellbridge.parity"]):
        assert run(*command, "--version", cwd=tmp_path) == f"parity, version {PROJECT['version']}\n"
        assert "run" in run(*command, "--help", cwd=tmp_path)
        assert "Usage: parity run" in run(*command, "run", "--help", cwd=tmp_path)


def test_installed_command_judges_a_model(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(MODEL_FILE)
    run(scripts / "parity", "run", "tiny.py", "--json", "tiny.json", cwd=tmp_path)
    assert json.loads((tmp_path / "tiny.json").read_text())


def test_installed_command_refuses_a_missing_file(scripts: Path, tmp_path: Path) -> None:
    run(scripts / "parity", "run", "absent.py", cwd=tmp_path, code=2)


@pytest.mark.slow
def test_installed_plugin_collects_a_model(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "parity_tiny.py").write_text(MODEL_FILE)
    output = run(scripts / "python", "-m", "pytest", "--collect-only", "-q", "parity_tiny.py", cwd=tmp_path)
    assert "parity_tiny.py::0[interpreter]" in output
    assert "parity_tiny.py::1[interpreter]" in output


@pytest.mark.parametrize(
    ("platform", "machine", "package"),
    [
        ("linux", "x86_64", "onnxruntime-gpu"),
        ("linux", "aarch64", "onnxruntime"),
        ("win32", "AMD64", "onnxruntime-gpu"),
        ("win32", "ARM64", "onnxruntime"),
        ("darwin", "arm64", "onnxruntime"),
        ("darwin", "x86_64", "onnxruntime"),
    ],
)
def test_one_onnxruntime_a_platform(platform: str, machine: str, package: str) -> None:
    environment = {"sys_platform": platform, "platform_machine": machine}
    requirements = [requirement for requirement in map(Requirement, PROJECT["dependencies"]) if requirement.marker]
    assert [each.name for each in requirements if each.marker and each.marker.evaluate(environment)] == [package]


def test_constraints_pin_every_direct_dependency() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {pin.name: pin.specifier for pin in map(Requirement, (line for line in lines if not line.startswith("#")))}
    extras = PROJECT["optional-dependencies"].values()
    for direct in map(Requirement, [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]):
        if direct.name == PROJECT["name"]:
            continue  # an extra that contains another
        (pin,) = pins[direct.name]
        assert pin.operator == "=="
        assert direct.specifier.contains(pin.version), f"{direct} does not allow the tested {pin.version}"
