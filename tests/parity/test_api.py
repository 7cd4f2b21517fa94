"""The public names of the packages."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cellbridge import converter, parity, runtime
from tests.converter.programs import two_cells

ROOMS = (parity, converter, runtime)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_dir_lists_what_is_public(room: ModuleType) -> None:
    assert set(dir(room)) == {*room.__all__, "__version__"}
    assert all(hasattr(room, name) for name in dir(room))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_help_has_every_function(room: ModuleType) -> None:
    text = pydoc.render_doc(room, renderer=pydoc.plaintext)
    assert [name for name in room.__all__ if name not in text] == []


def test_the_docstrings_list_names_that_exist() -> None:
    for room in (parity, converter):
        listed = [line.split()[0] for line in (room.__doc__ or "").splitlines() if line.startswith("    ")]
        assert listed
        assert set(listed) <= set(room.__all__)


def test_dir_loads_nothing() -> None:
    code = "import sys; from cellbridge import converter, parity, runtime; "
    code += "[(dir(room), room.__version__) for room in (converter, parity, runtime)]; "
    code += "assert not {'torch', 'onnx', 'onnxruntime'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["run", "missing.onnx"], ["compare", "missing.onnx", "b.onnx"]]
)
@pytest.mark.every(3)
def test_help_and_refusals_are_quick(arguments: list[str]) -> None:
    code = "import sys; from cellbridge.parity.cli import main\n"
    code += "try: main(sys.argv[1:])\n"
    code += "finally: assert not {'numpy', 'torch', 'onnx', 'onnxruntime'} & set(sys.modules), 'imports them'"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert "Usage" in done.stdout or done.stderr == f"error: no such file: {arguments[1]}\n"


def test_an_onnx_file_is_shown_without_torch(tmp_path: Path) -> None:
    converter.to_onnx(two_cells(), tmp_path / "m.onnx")
    code = "import sys; from cellbridge.parity.cli import main; main(sys.argv[1:], standalone_mode=False); "
    code += "assert not {'torch', 'onnxruntime'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, "inspect", str(tmp_path / "m.onnx")], check=True)
