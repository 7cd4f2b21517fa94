"""Saving and loading: what comes back is the same program; what is damaged is refused, at once."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import CellbridgeError, Program, ProgramError, UsageError, load
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ops import elementwise, shaping
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.building import build

X = np.array([[0.5, 2.0, 1.0]], np.float32)
N = symbol("n")


def example(dtype: str = "float32") -> Program:
    def function(x: Any, w: Any, s: Any) -> Any:
        y = elementwise.cast(x, dtype=np.dtype("float64")) * 0.1
        limited = elementwise.clamp(elementwise.cast(y, dtype=x.dtype) * w * s, minimum=-np.inf, maximum=1.0)
        return limited, shaping.reshape(x, shape=(N * 3,))

    weights = {"w": np.arange(3).astype(X.dtype), "s": np.array(2.0, X.dtype)}
    return build(function, (N, 3), parameters=weights).astype(dtype)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    example().save(tmp_path / "program.cell")
    return tmp_path / "program.cell"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_loaded_program_is_the_same(tmp_path: Path, dtype: str) -> None:
    program = example(dtype)
    program.save(tmp_path / "program.cell")
    loaded = load(tmp_path / "program.cell")
    assert str(loaded) == str(program)
    assert (loaded.arguments, loaded.result, loaded.calls) == (program.arguments, program.result, program.calls)
    x = X.astype(program.inputs[0].dtype)
    (outputs, gradients), (outputs_of_loaded, gradients_of_loaded) = (p.value_and_grad(x) for p in (program, loaded))
    for a, b in zip(outputs, outputs_of_loaded, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(gradients.inputs[0], gradients_of_loaded.inputs[0])
    for name in gradients.parameters:
        np.testing.assert_array_equal(gradients.parameters[name], gradients_of_loaded.parameters[name])


def test_keys_of_any_plain_kind(tmp_path: Path) -> None:
    structure = Structure("dict", (TENSOR,) * 3, (1, "1", ("a", 2)))
    program = build(lambda x: (x, x, x), (3,), result=structure)
    program.save(tmp_path / "p")
    assert list(load(tmp_path / "p")(X[0])) == [1, "1", ("a", 2)]


def test_what_json_lacks_can_not_be_saved(tmp_path: Path) -> None:
    constant = Structure("constant", constant=np.dtype("float32"))
    program = build(lambda x: x, (3,), result=Structure("tuple", (TENSOR, constant)))
    with pytest.raises(UsageError, match=r"can't save the program: .* must be None, bool, int, float or str"):
        program.save(tmp_path / "p")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_path_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't write"):
        example().save(tmp_path / "no" / "such" / "folder")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load(tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_what_is_no_program(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(ProgramError, match="is not a saved program"):
        load(tmp_path / "p")


def test_truncated_files(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(0, len(whole), len(whole) // 20):
        saved.write_bytes(whole[:length])
        with pytest.raises(ProgramError):
            load(saved)


def test_a_changed_byte_never_breaks_the_reader(saved: Path) -> None:
    whole = saved.read_bytes()
    refused = 0
    for place in range(0, len(whole), len(whole) // 60):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            load(saved)
        except CellbridgeError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("name", ["program.json", "tensors.safetensors"])
def test_missing_members(saved: Path, name: str) -> None:
    with zipfile.ZipFile(saved) as archive:
        members = {n: archive.read(n) for n in archive.namelist() if n != name}
    with zipfile.ZipFile(saved, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    with pytest.raises(ProgramError, match=name.replace(".", r"\.")):
        load(saved)


def _node(written: Any, **changes: Any) -> None:
    written["nodes"][0] |= changes


EDITS: dict[str, Callable[[Any], Any]] = {
    "no format": lambda w: w.pop("format"),
    "another version": lambda w: w.update(version=99),
    "no nodes": lambda w: w.pop("nodes"),
    "undefined name": lambda w: _node(w, inputs=["nowhere"]),
    "cycle": lambda w: _node(w, inputs=[w["nodes"][-1]["outputs"][0][0]]),
    "assigned twice": lambda w: w["nodes"].append(w["nodes"][0]),
    "unknown op": lambda w: _node(w, op="system"),
    "unknown attribute kind": lambda w: _node(w, attributes={"dtype": {"pickle": "x"}}),
    "unknown dtype": lambda w: w["inputs"][0].__setitem__(1, "float31"),
    "code for a dimension": lambda w: w["inputs"][0].__setitem__(2, ["__import__('os')"]),
    "division by zero": lambda w: w["inputs"][0].__setitem__(2, ["n//0", 3]),
    "infinite dimension": lambda w: w["inputs"][0].__setitem__(2, [float("inf"), 3]),
    "negative cell": lambda w: _node(w, cell=-1),
    "cell of another kind": lambda w: _node(w, cell="0"),
    "source out of range": lambda w: _node(w, source=5),
    "huge parameter": lambda w: w["parameters"]["w"]["value"].__setitem__(2, [10**15, 10**15]),
    "huge input": lambda w: w["inputs"][0].__setitem__(2, [10**15, 10**15]),
    "unknown structure": lambda w: w.update(result={"set": []}),
    "structure of another size": lambda w: w.update(result="tensor"),
    "a list": lambda w: w.clear(),
}


@pytest.mark.parametrize("edit", EDITS)
def test_files_that_break_a_rule(saved: Path, edit: str) -> None:
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    written = json.loads(members["program.json"])
    EDITS[edit](written)
    members["program.json"] = json.dumps(written).encode()
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ProgramError):
        load(saved)
