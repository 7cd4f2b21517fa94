"""Modules on the meta device whose weights are in safetensors files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.converter.mapped_weights import map_weights
from cellbridge.runtime.errors import UsageError


class Tied(nn.Module):
    """ids to scores by one table, with a buffer that is saved."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.fc = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.tensor([0.5, 1.0, 2.0, 4.0]))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.fc(self.embed(ids))) * self.scale)


IDS = torch.tensor([[1, 2, 6]])


def on_meta() -> Tied:
    with torch.device("meta"):
        return Tied()


def tensors(module: nn.Module, *without: str) -> dict[str, Tensor]:
    state = {name: tensor.clone() for name, tensor in module.state_dict().items() if name != "head.weight"}
    return {name: tensor for name, tensor in state.items() if name not in without}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_file(tmp_path: Path, dtype: torch.dtype) -> None:
    original = Tied().to(dtype)
    save_file(tensors(original), tmp_path / "w.safetensors")
    module = on_meta().to(dtype)
    weights = map_weights(module, tmp_path / "w.safetensors")
    assert weights.notes == []
    assert module.head.weight is module.embed.weight
    torch.testing.assert_close(module(IDS), original(IDS), rtol=0, atol=0)
    weights.release()
    torch.testing.assert_close(module(IDS), original(IDS), rtol=0, atol=0)
    assert not any(p.is_meta for p in module.parameters())


def test_several_files_of_an_index_and_of_a_folder(tmp_path: Path) -> None:
    original = Tied()
    first, second = tensors(original, "fc.weight", "fc.bias"), tensors(original, "embed.weight", "scale")
    save_file(first, tmp_path / "a.safetensors")
    save_file(second, tmp_path / "b.safetensors")
    for _ in range(2):
        module = on_meta()
        map_weights(module, tmp_path)
        torch.testing.assert_close(module(IDS), original(IDS), rtol=0, atol=0)
        places = dict.fromkeys(first, "a.safetensors") | dict.fromkeys(second, "b.safetensors")
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": places}))
    module = on_meta()
    map_weights(module, index)
    torch.testing.assert_close(module(IDS), original(IDS), rtol=0, atol=0)


def test_offsets_that_are_not_aligned(tmp_path: Path) -> None:
    original = Tied()
    data, header = b"", {}
    for name, tensor in {"odd": torch.tensor([1], dtype=torch.uint8), **tensors(original)}.items():
        raw = tensor.numpy().tobytes()
        kind = "U8" if name == "odd" else "F32"
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (tmp_path / "w.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    module = on_meta()
    weights = map_weights(module, tmp_path / "w.safetensors")
    torch.testing.assert_close(module(IDS), original(IDS), rtol=0, atol=0)
    assert weights.notes == ["the model doesn't have odd of the files"]


def test_other_dtypes_are_said(tmp_path: Path) -> None:
    save_file(tensors(Tied().bfloat16()), tmp_path / "w.safetensors")
    module = on_meta()
    weights = map_weights(module, tmp_path / "w.safetensors")
    assert module.fc.weight.dtype == torch.bfloat16
    assert weights.notes == ["parameters that model() makes in float32 have the dtype of the file, bfloat16"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.bias"), r"the files have no fc\.bias; they have .*embed\.weight"),
        (lambda t: t.update({"fc.bias": torch.ones(5)}), r"fc\.bias has the shape \[5\] in the file, and \[4\] in"),
        (lambda t: t.update({"fc.bias": torch.ones(4).int()}), r"fc\.bias has the dtype I32 in the file, and float32"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change: object, message: str) -> None:
    state = tensors(Tied())
    change(state)  # type: ignore[operator]
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=message):
        map_weights(on_meta(), tmp_path / "w.safetensors")


def test_a_buffer_that_is_not_saved_needs_its_values(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = Tied()
        module.register_buffer("table", torch.ones(3), persistent=False)
    save_file(tensors(Tied()), tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=r'no table; (?s:.)*outside of torch\.device\("meta"\)'):
        map_weights(module, tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.safetensors", b"not safetensors", "not safetensors, or damaged"),
        ("w.safetensors", b"", "not safetensors, or damaged"),
        ("w.bin", b"", r"isn't a \.safetensors file"),
        ("w.safetensors.index.json", b"[]", "it isn't an index"),
        ("w.safetensors.index.json", b'{"weight_map": {"x": "../../etc/passwd"}}', "isn't the name of a"),
        ("w.safetensors.index.json", b'{"weight_map": {"x": "/tmp/a.safetensors"}}', "isn't the name of a"),
        ("w.safetensors.index.json", b'{"weight_map": {"x": 3}}', "isn't the name of a"),
        ("w.safetensors.index.json", b'{"weight_map": {"x": "b.safetensors"}}', r"names b\.safetensors, which isn't"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        map_weights(on_meta(), tmp_path / name)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        map_weights(on_meta(), tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=r"holds no \.safetensors file"):
        map_weights(on_meta(), tmp_path)


def test_a_module_without_values_is_refused() -> None:
    with pytest.raises(UsageError, match=r"on the meta device: embed\.weight, fc\.weight(?s:.)*checkpoint"):
        from_torch(on_meta(), (IDS,))


@pytest.mark.parametrize(("dtype", "stored"), [("float32", "float32"), ("float32", "bfloat16"), ("float16", "float32")])
@pytest.mark.every(2)
def test_a_program_reads_its_parameters_when_they_are_used(tmp_path: Path, dtype: str, stored: str) -> None:
    working, of_file = getattr(torch, dtype), getattr(torch, stored)
    original = Tied().to(of_file).to(working)
    save_file({n: t.to(of_file) for n, t in tensors(original).items()}, tmp_path / "w.safetensors")
    module = on_meta().to(working)
    program = from_torch(module, (IDS,), checkpoint=tmp_path / "w.safetensors")
    assert all(p.is_meta for p in module.parameters())
    expected = from_torch(original, (IDS,))
    np.testing.assert_array_equal(program(IDS.numpy()), expected(IDS.numpy()))
    for initializer, expected_initializer in zip(
        to_onnx(program).graph.initializer, to_onnx(expected).graph.initializer, strict=True
    ):
        assert initializer.name == expected_initializer.name
        np.testing.assert_array_equal(
            onnx.numpy_helper.to_array(initializer), onnx.numpy_helper.to_array(expected_initializer)
        )


EXPORT = """
import resource, sys, torch
from torch import nn
from cellbridge.converter import from_torch, to_onnx

with torch.device("meta"):
    module = nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(24)])
x = torch.ones(1, 2048)
program = from_torch(module, (x,), checkpoint=sys.argv[1])
to_onnx(from_torch(nn.Linear(4, 4), (torch.ones(1, 4),)), sys.argv[2])  # loads what writing needs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
to_onnx(program, sys.argv[2], external_data=True)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads the process's peak of memory, in Linux's unit")
@pytest.mark.slow
def test_writing_holds_few_tensors_at_a_time(tmp_path: Path) -> None:
    each = 2048 * 2048 * 4
    state = {f"{i}.weight": torch.full((2048, 2048), i / 64, dtype=torch.bfloat16) for i in range(24)}
    save_file(state, tmp_path / "w.safetensors")
    command = [sys.executable, "-c", EXPORT, str(tmp_path / "w.safetensors"), str(tmp_path / "model.onnx")]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert (tmp_path / "model.onnx.data").stat().st_size == 24 * each
    assert grown < 5 * each, f"{grown / each:.1f} of its 24 tensors were in memory"


def test_names_in_files_are_shown_as_data(tmp_path: Path) -> None:
    save_file({"\x1b[2Jevil": torch.ones(1)}, tmp_path / "w.safetensors")
    with pytest.raises(UsageError) as error:
        map_weights(on_meta(), tmp_path / "w.safetensors")
    assert "\x1b" not in str(error.value)
    index = tmp_path / "x.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "\x1b[2J.safetensors"}}))
    with pytest.raises(UsageError, match="which isn't there") as error:
        map_weights(on_meta(), index)
    assert "\x1b" not in str(error.value)
