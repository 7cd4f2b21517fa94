"""Files of safetensors and NumPy, models and folders are read by rows; damaged ones are refused in one sentence."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from cellbridge.converter import from_torch
from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.checkpoint_files import write_cells, write_torch
from cellbridge.parity.weights.readers.opening import open_checkpoint
from cellbridge.parity.weights.readers.tensor import StoredCheckpoint
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.storage.programs import save

ARRAYS: dict[str, Array] = {
    "a.weight": np.arange(12, dtype=np.float32).reshape(4, 3),
    "a.bias": np.arange(4, dtype=np.float16),
    "count": np.array(7),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def with_index() -> str:
    save_file({"a.weight": ARRAYS["a.weight"]}, "one.safetensors")
    save_file({name: ARRAYS[name] for name in ("a.bias", "count")}, "two.safetensors")
    names = {"a.weight": "one.safetensors", "a.bias": "two.safetensors", "count": "two.safetensors"}
    Path("m.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return "m.safetensors.index.json"


def npy_folder() -> str:
    for name, array in ARRAYS.items():
        path = Path("folder", *name.split(".")).with_suffix(".npy")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.asfortranarray(array) if array.ndim else array)
    return "folder"


def of_onnx() -> str:
    tensors = [numpy_helper.from_array(array, name) for name, array in ARRAYS.items()]
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], tensors)), "m.onnx")
    return "m.onnx"


def written(write: Callable[[str], object], path: str) -> Callable[[], str]:
    def make() -> str:
        write(path)
        return path

    return make


MAKERS: dict[str, Callable[[], str]] = {
    "safetensors": written(lambda path: save_file(ARRAYS, path), "m.safetensors"),
    "an index": with_index,
    "a folder with an index": lambda: with_index() and ".",
    "torch": written(lambda path: write_torch(path, ARRAYS), "m.pt"),
    "Cells": written(lambda path: write_cells(path, ARRAYS, {}), "m.ckpt"),
    "npz": written(lambda path: np.savez(path, **ARRAYS), "m.npz"),  # type: ignore[arg-type]
    "a compressed npz": written(lambda path: np.savez_compressed(path, **ARRAYS), "m.npz"),  # type: ignore[arg-type]
    "a folder of npy files": npy_folder,
    "ONNX": of_onnx,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_checkpoint_is_read(name: str) -> None:
    checkpoint = open_checkpoint(MAKERS[name]())
    assert checkpoint.tensors.keys() == ARRAYS.keys()
    for key, array in ARRAYS.items():
        tensor = checkpoint.tensors[key]
        assert (tensor.shape, tensor.dtype) == (array.shape, array.dtype.name)
        np.testing.assert_array_equal(tensor.read(), array)
    np.testing.assert_array_equal(checkpoint.tensors["a.weight"].read_rows(1, 3), ARRAYS["a.weight"][1:3])


def test_small_floats_are_read() -> None:
    arrays = {"w": np.array([[1.5, -2.0]], ml_dtypes.bfloat16)}
    save_file({"f8": np.array([1.0, 0.5], ml_dtypes.float8_e4m3fn), **arrays}, "m.safetensors")
    tensors = open_checkpoint("m.safetensors").tensors
    assert (tensors["w"].dtype, tensors["f8"].dtype) == ("bfloat16", "float8_e4m3fn")
    np.testing.assert_array_equal(tensors["f8"].read().astype(np.float32), [1.0, 0.5])


def test_a_program_is_read() -> None:
    import torch

    module = torch.nn.Linear(3, 4)
    save(from_torch(module, (torch.randn(2, 3),)), "m.cell")
    tensors = open_checkpoint("m.cell").tensors
    np.testing.assert_array_equal(tensors["weight"].read(), module.weight.detach().numpy())


def cut_off(path: str, size: int) -> str:
    os.truncate(path, size)
    return path


def lying_header() -> str:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2**30, 2**30], "data_offsets": [0, 2**62]}}).encode()
    Path("m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    return "m.safetensors"


def overlapping() -> str:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"a": entry, "b": {**entry, "data_offsets": [4, 12]}}).encode()
    Path("m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 12)
    return "m.safetensors"


def index_of(names: object) -> str:
    save_file({"a": ARRAYS["a.weight"]}, "one.safetensors")
    Path("m.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return "m.safetensors.index.json"


def twice() -> str:
    save_file({"a": ARRAYS["a.weight"]}, "one.safetensors")
    save_file({"a": ARRAYS["a.weight"]}, "two.safetensors")
    return "."


def lying_npy() -> str:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": (2**40, 2**20), "fortran_order": False, "descr": "<f4"})
    with zipfile.ZipFile("m.npz", "w") as archive:
        archive.writestr("w.npy", file.getvalue() + b"\0" * 16)
    return "m.npz"


def of_objects() -> str:
    np.savez("m.npz", w=np.array([{"a": 1}], dtype=object))
    return "m.npz"


def outside() -> str:
    tensor = TensorProto(name="w", dims=[1], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../../etc/passwd")
    Path("m.onnx").write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString())
    return "m.onnx"


def two_members() -> str:
    file = io.BytesIO()
    np.save(file, ARRAYS["a.weight"])
    with zipfile.ZipFile("m.npz", "w") as archive:
        archive.writestr("w", file.getvalue())
        archive.writestr("w.npy", file.getvalue())
    return "m.npz"


def one_name_by_two_paths() -> str:
    npy_folder()
    np.save("folder/a.bias.npy", ARRAYS["a.bias"])
    return "folder"


def shape_of_bools() -> str:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": (True, 2), "fortran_order": False, "descr": "<f4"})
    with zipfile.ZipFile("m.npz", "w") as archive:
        archive.writestr("w.npy", file.getvalue() + b"\0" * 64)
    return "m.npz"


def of_bfloat16() -> str:
    np.savez("m.npz", w=np.ones(2, ml_dtypes.bfloat16))
    return "m.npz"


def fifo_in_folder(name: str) -> str:
    save_file(ARRAYS, "m.safetensors")
    os.mkfifo(name)
    return "."


def part_of_three() -> str:
    save_file(ARRAYS, "model-00002-of-00003.safetensors")
    return "."


def pointer_in_folder() -> str:
    os.mkdir("folder")
    return os.path.dirname(text("folder/w.npy"))


def text(path: str, content: str = "version https://git-lfs.github.com/spec/v1\n") -> str:
    Path(path).write_text(content)
    return path


def fifo() -> str:
    os.mkfifo("m.safetensors")
    return "m.safetensors"


BAD: dict[str, tuple[Callable[[], str], str]] = {
    "nothing": (lambda: "nothere.safetensors", "no such file"),
    "another suffix": (lambda: text("m.txt"), "needed a checkpoint"),
    "an empty folder": (lambda: os.makedirs("empty") or "empty", "holds no .npy file"),  # type: ignore[func-returns-value]
    "an empty file": (lambda: text("m.safetensors", ""), "the file is empty"),
    "cut off": (lambda: cut_off(MAKERS["safetensors"](), 300), "not safetensors, or damaged"),
    "a size of 2^60": (lying_header, "not safetensors, or damaged"),
    "overlapping tensors": (overlapping, "not safetensors, or damaged"),
    "a pointer": (lambda: text("m.safetensors"), "git lfs pull"),
    "a torch file": (lambda: os.rename(MAKERS["torch"](), "m.safetensors") or "m.safetensors", "suffix .pt"),  # type: ignore[func-returns-value]
    "an index that leads outside": (lambda: index_of({"a": "../one.safetensors"}), "isn't the name of a .safetensors"),
    "an index without its file": (lambda: index_of({"a": "two.safetensors"}), "isn't there"),
    "an index with more": (lambda: index_of({"a": "one.safetensors", "b": "one.safetensors"}), "names b, which"),
    "no index": (lambda: index_of(["a"]), "isn't an index"),
    "one name twice": (twice, "in two files"),
    "an npz cut off": (lambda: cut_off(MAKERS["npz"](), 200), "not an .npz file, or damaged"),
    "an npy that lies": (lying_npy, "bytes, and there are"),
    "objects": (of_objects, "needed numbers"),
    "external data outside": (outside, "no file in the folder"),
    "ONNX cut off": (lambda: cut_off(of_onnx(), 20), "can't read m.onnx"),
    "one name twice in an npz": (two_members, "it has w twice"),
    "one name by two paths": (one_name_by_two_paths, "holds a.bias in two files"),
    "a shape of bools": (shape_of_bools, "needed whole numbers"),
    "bfloat16 in an npz": (of_bfloat16, "save it as float32"),
    "a FIFO as a shard": (lambda: fifo_in_folder("n.safetensors"), "n.safetensors: it isn't a regular file"),
    "a FIFO as an index": (lambda: fifo_in_folder("m.safetensors.index.json"), "json: it isn't a regular file"),
    "a part of three": (part_of_three, "holds 1 of the 3 files of model, and no number 1"),
    "a pointer in a folder": (pointer_in_folder, "git lfs pull"),
    **{
        f"a pointer, {end}": (lambda end=end: text(f"m.{end}"), "git lfs pull") for end in ("pt", "npz", "onnx", "gguf")
    },
    "an empty torch file": (lambda: text("m.pt", ""), "the file is empty"),
    "a FIFO": (fifo, "isn't a regular file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name: str) -> None:
    make, words = BAD[name]
    with pytest.raises(UsageError, match=words.replace(".", r"\.").replace("^", r"\^")):
        open_checkpoint(make())


def test_a_file_that_is_cut_off_while_it_is_read_is_refused() -> None:
    checkpoint = open_checkpoint(MAKERS["safetensors"]())
    os.truncate("m.safetensors", Path("m.safetensors").stat().st_size - 20)
    with pytest.raises(UsageError, match="was cut off within"):
        _read_all(checkpoint)


def _read_all(checkpoint: StoredCheckpoint) -> None:
    for tensor in checkpoint.tensors.values():
        tensor.read()
