"""What a sweep judges: files, folders, patterns and generated cases."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cellbridge.parity.inputs.model_file import load
from cellbridge.parity.jobs.sweeping.changed import changed_models, files_of
from cellbridge.parity.jobs.sweeping.finding import find_models
from cellbridge.runtime.errors import UsageError

MODEL = """from torch import nn
import torch
def model(): return nn.Linear(4, 3)
def inputs(): return (torch.zeros(2, 4),)
"""
CASES = """
import torch
from torch import nn
def cases():
    for width in (3, 5):
        yield f"width {width}", lambda width=width: (nn.Linear(width, 2), (torch.ones(1, width),))
    yield "never made", lambda: 1 / 0
def loss(outputs):
    return outputs.sum()
"""


def write(path: Path, text: str = MODEL) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_folder_has_model_files_and_onnx_files_inner_ones_too(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.py"), write(tmp_path / "inner" / "b.py")
    broken = write(tmp_path / "c.py", "def model(:")  # parity run says what is wrong
    onnx = write(tmp_path / "d.onnx", "")
    write(tmp_path / "helper.py", "def model(): pass\n")
    write(tmp_path / ".hidden" / "e.py")
    write(tmp_path / "__pycache__" / "f.py")
    assert find_models([str(tmp_path)]) == [first, broken, onnx, second]


def test_each_model_is_judged_once(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py")
    assert find_models([file, str(tmp_path), file]) == [file]


def test_what_isnt_a_pattern_is_left_to_parity_run() -> None:
    assert find_models(["package.module:factory"]) == ["package.module:factory"]


def test_a_file_that_is_not_there_is_an_error() -> None:
    """It gets no result that says so in the file of results."""
    with pytest.raises(UsageError, match=r"no such file: there/is/none\.py"):
        find_models(["package.module:factory", "there/is/none.py"])
    library = "hf:BertModel?hidden_size=128"  # its question mark is no pattern
    assert find_models([library]) == [library]


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no model in"):
        find_models([str(tmp_path)])


@pytest.mark.slow
def test_a_pattern_stands_for_functions_of_a_file(tmp_path: Path) -> None:
    text = (
        MODEL
        + "def make_a(): return nn.Linear(4, 1)\ndef make_b(): return nn.Linear(4, 2)\nmake_c = 3\n_make = make_a\n"
    )
    file = write(tmp_path / "zoo.py", text)
    assert find_models([f"{file}:make_*"]) == [f"{file}:make_a", f"{file}:make_b"]


@pytest.mark.slow
def test_a_pattern_stands_for_functions_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "zoo" / "__init__.py", "")
    write(tmp_path / "zoo" / "small.py", MODEL + "def make_a(): return nn.Linear(4, 1)\n")
    monkeypatch.chdir(tmp_path)
    assert find_models(["zoo.small:ma?e_a"]) == ["zoo.small:make_a"]


@pytest.mark.slow
def test_generated_cases_are_listed_without_making_them(tmp_path: Path) -> None:
    file = write(tmp_path / "many.py", CASES)
    expected = [f"{file}[width 3]", f"{file}[width 5]", f"{file}[never made]"]
    assert find_models([file]) == expected
    assert find_models([str(tmp_path)]) == expected


def test_a_generated_case_is_a_model_file(tmp_path: Path) -> None:
    case = load(write(tmp_path / "many.py", CASES) + "[width 5]")
    assert case.module.in_features == 5  # type: ignore[union-attr]
    assert case.args[0].shape == (1, 5)
    assert case.loss is not None


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (CASES, "width 4", "has no case width 4; did you mean width 5"),
        (CASES, "never made", "ZeroDivisionError"),
        ("def cases(): yield 'a', lambda: 3", "a", "must return the module and its inputs, it returned int"),
        ("def cases(): yield 'a'", "a", "number 1 is str"),
        ("def cases(): yield 'b', len; raise ValueError('no more')", "a", "when cases\\(\\) was to yield number 2"),
        ("x = 1", "a", "defines no function cases"),
    ],
)
def test_a_case_that_cant_be_made(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(f"{write(tmp_path / 'many.py', text)}[{name}]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def cases():\n    yield 'a', len\n    yield 'a', len", "yields the name 'a' more than once"),
        ("def cases(): yield 1, 2", "must yield a name and a function"),
        ("import os\nos._exit(7)\ndef cases(): pass", "exit code 7"),
        ("def cases(): raise ValueError('nothing here')", "nothing here"),
    ],
)
@pytest.mark.every(3)
def test_cases_that_cant_be_listed(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_models([write(tmp_path / "many.py", text)])


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "a.py", f"import layers\n{MODEL}")
    write(tmp_path / "layers.py", "from parts.norms import Norm\n")
    write(tmp_path / "parts" / "__init__.py", "")
    write(tmp_path / "parts" / "norms.py", "class Norm: pass\n")
    write(tmp_path / "b.py")
    monkeypatch.chdir(tmp_path)
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *command], check=True)
    return tmp_path


def test_the_files_of_a_model_are_those_that_it_imports_too(repository: Path) -> None:
    names = {str(file.relative_to(repository.resolve())) for file in files_of("a.py")}
    assert names == {"a.py", "layers.py", "parts/norms.py", "parts/__init__.py"}
    assert files_of("b.py[case]") == files_of("b.py:factory") == files_of("b:factory") == files_of("b.py")


def test_a_model_has_changed_with_what_it_imports(repository: Path) -> None:
    assert changed_models(["a.py", "b.py"], "HEAD") == set()
    write(repository / "parts" / "norms.py", "class Norm: eps = 1\n")
    assert changed_models(["a.py", "b.py"], "HEAD") == {"a.py"}
    write(repository / "c.py")
    assert changed_models(["b.py", "c.py", "c.py:factory"], "HEAD") == {"c.py", "c.py:factory"}


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", "HEAD; touch x", ""])
def test_a_revision_that_git_does_not_know(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError, match="git knows no revision"):
        changed_models(["a.py"], revision)
    assert not (repository / "x").exists()


def test_a_folder_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="not a git repository"):
        changed_models(["a.py"], "HEAD")
