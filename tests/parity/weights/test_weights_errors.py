"""Errors of `parity weights`: one message and exit code 2, without a traceback or partial file."""

from __future__ import annotations

import os
import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.runtime import nn
from cellbridge.runtime.train.serialization import save_checkpoint

LINEAR = {"fc.weight": torch.rand(2, 3), "fc.bias": torch.rand(2)}


class Executed:
    """Unpickling it leaves a file."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(LINEAR, "net.pt")
    save_checkpoint(nn.Dense(3, 2), "net.ckpt")


def refused(*arguments: str) -> str:
    """What is said, in one line; the files are as they were."""
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    result = CliRunner().invoke(main, ["weights", *arguments], catch_exceptions=False)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("net.pt", "other.pt"), ("net.pt", "net.safetensors"), ("net.ckpt", "other.ckpt"), ("net.pt", "net.onnx"),
        ("net.ckpt", "net"),
    ],
)  # fmt: skip
def test_files_of_other_kinds(source: str, target: str) -> None:
    message = refused(source, "-o", target)
    assert "one of the two files must be a checkpoint of Cells (.ckpt), the other one of torch" in message
    assert f"given {source} and {target}" in message


def test_a_source_of_another_kind_is_named() -> None:
    Path("net.h5").touch()
    for source, words in (("net", "net, which isn't there"), ("net.h5", "the file net.h5")):
        said = refused(source, "-o", "net.ckpt")
        assert f"converts a checkpoint (.pt, .pth, .bin, .safetensors, .ckpt), given {words}" in said


def test_endings_in_capitals() -> None:
    torch.save(LINEAR, "NET.PT")
    assert CliRunner().invoke(main, ["weights", "NET.PT", "-o", "NET.CKPT"]).exit_code == 0


@pytest.mark.parametrize("source", ["none.pt", "none.ckpt", "none.safetensors"])
def test_a_missing_source(source: str) -> None:
    assert f"can't read {source}: No such file" in refused(
        source, "-o", "x.pt" if source.endswith("ckpt") else "x.ckpt"
    )


@pytest.mark.parametrize("ending", ["pt", "ckpt", "safetensors"])
def test_a_source_that_is_a_folder_or_empty(ending: str) -> None:
    target = "x.pt" if ending == "ckpt" else "x.ckpt"
    Path(f"folder.{ending}").mkdir()
    assert f"can't read folder.{ending}: Is a directory" in refused(f"folder.{ending}", "-o", target)
    Path(f"empty.{ending}").touch()
    assert f"can't read empty.{ending}" in refused(f"empty.{ending}", "-o", target)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_source_that_may_not_be_read() -> None:
    Path("net.pt").chmod(0)
    assert "can't read net.pt: Permission denied" in refused("net.pt", "-o", "x.ckpt")


def test_a_target_that_cant_be_written() -> None:
    assert "there is no folder nowhere" in refused("net.pt", "-o", "nowhere/x.ckpt")
    Path("there.ckpt").mkdir()
    assert "it is a folder" in refused("net.pt", "-o", "there.ckpt")


def test_objects_of_python_are_never_made() -> None:
    for content in (Executed(), {"fc.weight": Executed()}, torch.nn.Linear(2, 2)):
        torch.save(content, "object.pt")
        message = refused("object.pt", "-o", "x.ckpt")
        assert "it holds more than tensors, and loading Python objects runs code" in message
        assert "torch.save(model.state_dict(), FILE)" in message
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.rand(2), "holds a Tensor, needed a state dict"),
        ([torch.rand(2)], "holds a list, needed a state dict"),
        ({}, "holds no tensors by name"),
        ({"epoch": 3, "lr": 0.1}, "it has epoch, lr"),
        ({"model": {}, "epoch": 3}, "holds no parameters"),
        ({"model": {"a": 3}}, "holds no parameters: a (int)"),
        (
            {"model": {"a": torch.rand(1)}, "state_dict": {"a": torch.rand(1)}},
            "holds state_dict and model: save",
        ),
        ({3: torch.rand(2)}, "a name must be a string, given 3"),
        ({"a": torch.rand(2).to(torch.complex64)}, "a has the dtype complex64, which checkpoints of Cells don't have"),
        ({"a": torch.rand(2).to(torch.float8_e4m3fn)}, "a has the dtype float8_e4m3fn"),
        ({"a": torch.eye(2).to_sparse()}, "a is sparse"),
        ({"a": torch.empty(2, device="meta")}, "a has no values"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_things_in_a_file_of_torch(content: Any, message: str) -> None:
    torch.save(content, "other.pt")
    assert message in refused("other.pt", "-o", "x.ckpt")


def test_a_quantized_tensor() -> None:
    with warnings.catch_warnings(action="ignore"):
        torch.save({"a": torch.quantize_per_tensor(torch.rand(2), 0.1, 0, torch.qint8)}, "other.pt")
    assert "a is quantized, which checkpoints of Cells don't have" in refused("other.pt", "-o", "x.ckpt")


@pytest.mark.filterwarnings("ignore")
def test_a_torchscript_file() -> None:
    torch.jit.script(torch.nn.Linear(2, 2)).save("script.pt")  # type: ignore[no-untyped-call]
    assert "it holds more than tensors" in refused("script.pt", "-o", "x.ckpt")


def test_other_things_in_a_checkpoint_of_cells() -> None:
    Path("lightning.ckpt").write_bytes(Path("net.pt").read_bytes())
    assert "It looks like a torch checkpoint: give it the suffix .pt" in refused("lightning.ckpt", "-o", "x.pt")
    Path("protobuf.ckpt").write_bytes(b"\n\x1a\n\tfc.weight\x12\r\x08\x02\x12\x07Float32")
    assert 'save it there with format="safetensors"' in refused("protobuf.ckpt", "-o", "x.pt")
    Path("lfs.ckpt").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    assert "git lfs pull" in refused("lfs.ckpt", "-o", "x.pt")


@pytest.mark.parametrize("metadata", ["[", "[1]", '{"parameters": 3}', '{"parameters": {"a": 3}}'])
def test_damaged_metadata(metadata: str) -> None:
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(2)}, "net.ckpt", {"from_torch": metadata})
    assert "metadata" in refused("net.ckpt", "-o", "x.pt")


def test_all_is_dropped() -> None:
    Path("m.toml").write_text('"*" = { drop = true }')
    assert "it would be empty, since every parameter is dropped" in refused("net.pt", "-o", "x.ckpt", "--map", "m.toml")
    assert "it would be empty, since every parameter is dropped" in refused("net.ckpt", "-o", "x.pt", "--map", "m.toml")


def test_a_map_that_is_none() -> None:
    assert "can't read the map none.toml: No such file" in refused("net.pt", "-o", "x.ckpt", "--map", "none.toml")
    Path("m.toml").write_text('"a" = "b"')
    assert "m.toml: no name in the checkpoint matches 'a'" in refused("net.pt", "-o", "x.ckpt", "--map", "m.toml")


def test_the_old_target_stays_when_something_is_wrong() -> None:
    torch.save(LINEAR | {"alone.weight": torch.rand(2, 3)}, "open.pt")
    Path("x.ckpt").write_bytes(b"before")
    assert '"alone.weight" = "alone.weight"' in refused("open.pt", "-o", "x.ckpt")


@pytest.mark.parametrize("ending", ["pt", "legacy.pt", "ckpt", "safetensors"])
@pytest.mark.every(3)
def test_damaged_files(ending: str) -> None:
    """Cut, overwritten or shuffled anywhere: refused, or (where only values changed) converted; never a crash."""
    name, target = f"net.{ending}", "x.pt" if ending == "ckpt" else "x.ckpt"
    if ending == "legacy.pt":
        torch.save(LINEAR, name, _use_new_zipfile_serialization=False)
    elif ending == "safetensors":
        from safetensors.torch import save_file

        save_file(LINEAR, name)
    whole = Path(name).read_bytes()
    rng = random.Random(0)
    codes = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            if rng.random() < 0.3:
                del data[at:]
                data += b"\0"
            else:
                data[at] = rng.randrange(256)
        Path(name).write_bytes(data)
        result = CliRunner().invoke(main, ["weights", name, "-o", target], catch_exceptions=False)
        assert result.exit_code in (0, 2), result.output
        assert "Traceback" not in result.output
        codes.add(result.exit_code)
    assert 2 in codes


def test_a_tensor_larger_than_its_file() -> None:
    torch.save({"w": torch.ones(1).expand(10**12)}, "bomb.pt")
    assert "w: one tensor of float32[1000000000000] would take 4 TB" in refused("bomb.pt", "-o", "o.ckpt")


def test_a_compressed_checkpoint() -> None:
    torch.save({"w": torch.zeros(10**6)}, "zeros.pt")
    with zipfile.ZipFile("zeros.pt") as plain, zipfile.ZipFile("bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    assert "though torch.save doesn't compress" in refused("bomb.pt", "-o", "o.ckpt")


@pytest.mark.parametrize("output", ["net.pt", "./net.pt", "link.pt"])
def test_the_source_is_not_overwritten(output: str) -> None:
    Path("map.toml").write_text('"fc.weight" = "weight"\n"fc.bias" = "bias"\n')
    Path("link.pt").hardlink_to("net.pt")
    refused("net.pt", "-o", output, "--map", "map.toml")
