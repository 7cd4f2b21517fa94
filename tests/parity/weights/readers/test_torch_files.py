"""torch's checkpoints are read by rows, alone or by an index; what isn't whole or holds code is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cellbridge.parity.weights.readers.opening import open_checkpoint
from cellbridge.runtime.errors import UsageError

INDEX = "pytorch_model.bin.index.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def with_index(names: object, **files: dict[str, torch.Tensor]) -> str:
    for name, state in files.items():
        torch.save(state, f"{name}.bin")
    Path(INDEX).write_text(json.dumps({"weight_map": names}))
    return "."


A, B = {"a": torch.arange(6.0).reshape(3, 2)}, {"b": torch.ones(2)}


@pytest.mark.parametrize("path", [".", INDEX])
def test_the_files_of_an_index_are_read(path: str) -> None:
    with_index({"a": "one.bin", "b": "two.bin"}, one=A, two=B)
    torch.save({"args": 1}, "training_args.bin")
    tensors = open_checkpoint(path).tensors
    assert tensors.keys() == {"a", "b"}
    np.testing.assert_array_equal(tensors["a"].read_rows(1, 3), A["a"][1:])


def test_the_one_file_of_a_folder_is_read() -> None:
    torch.save(A, "pytorch_model.bin")
    np.testing.assert_array_equal(open_checkpoint(".").tensors["a"].read(), A["a"])


def test_small_floats_and_tied_tensors_are_read() -> None:
    half, small = torch.tensor([1.5, -2]).bfloat16(), torch.tensor(0.5).to(torch.float8_e4m3fn)
    torch.save({"half": half, "tied": half, "part": half[:1], "small": small}, "m.pt")
    tensors = open_checkpoint("m.pt").tensors
    assert [tensors[name].dtype for name in ("half", "small")] == ["bfloat16", "float8_e4m3fn"]
    np.testing.assert_array_equal(tensors["half"].read().astype(np.float32), [1.5, -2])
    assert (tensors["small"].shape, float(tensors["small"].read())) == ((), 0.5)
    assert tensors["half"].storage == tensors["tied"].storage is not None
    assert tensors["part"].storage is tensors["small"].storage is None


def code() -> str:
    torch.save(torch.nn.Linear(1, 1), "m.pt")
    return "m.pt"


def empty_file() -> str:
    Path("pytorch_model.bin").touch()
    return "."


BAD: dict[str, tuple[Callable[[], str], str]] = {
    "one name twice": (lambda: with_index({"a": "one.bin", "b": "two.bin"}, one=A, two=A), "holds a in two files"),
    "a missing file": (lambda: with_index({"a": "one.bin", "b": "two.bin"}, one=A), "names two.bin, which isn't there"),
    "a missing tensor": (lambda: with_index({"a": "one.bin", "b": "one.bin"}, one=A), "names b, which its files"),
    "a file outside": (lambda: with_index({"a": "../one.bin"}), "isn't the name of a .bin file"),
    "no index": (lambda: with_index([]), "isn't an index of bin files"),
    "an empty file": (empty_file, "the file is empty"),
    "code": (code, "runs code from the file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name: str) -> None:
    make, words = BAD[name]
    with pytest.raises(UsageError, match=words.replace(".", r"\.")):
        open_checkpoint(make())
