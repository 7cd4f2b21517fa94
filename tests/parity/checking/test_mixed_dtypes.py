"""Networks with parts in another dtype than the working dtype: the file that is written is the one that was judged."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge.parity import check
from cellbridge.parity.cli import main
from cellbridge.parity.sides.exported_side import ExportedSide
from cellbridge.runtime.compiled.session import run_model


class Autocast(nn.Module):
    """Computes in another dtype by autocast, with a region in float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype, self.a, self.b = dtype, nn.Conv1d(4, 4, 3), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=self.dtype):
            h = self.a(x)
            with torch.autocast("cpu", enabled=False):
                h = torch.nn.functional.layer_norm(h.float(), (2,))
            return self.b(h).float()


class Casts(nn.Module):
    """Casts its input, without autocast and without weights in that dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype, self.a = dtype, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.a(x.to(self.dtype).tanh().float()).to(self.dtype) * 2).float()


class Part(nn.Module):
    """Has weights of another dtype in a part."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype, self.a = dtype, nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 4))
        self.inner = nn.Conv1d(4, 4, 3).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.a(x).to(self.dtype)).float()


MIXED = [
    *(partial(kind, dtype) for kind in (Autocast, Casts, Part) for dtype in (torch.bfloat16, torch.float16)),
    partial(Casts, torch.float64),
    partial(Part, torch.float64),
]


def dtypes_in(model: onnx.ModelProto) -> set[int]:
    return {value.type.tensor_type.elem_type for value in model.graph.value_info}


@pytest.mark.parametrize("make", MIXED, ids=lambda make: f"{make.func.__name__}-{make.args[0]}")
@pytest.mark.every(6)
def test_the_file_that_is_written_runs_and_is_the_one_that_was_judged(
    make: partial[nn.Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[onnx.ModelProto] = []
    whole = ExportedSide._whole_model

    def observed(side: ExportedSide, *given: object) -> object:
        parts = whole(side, *given)  # type: ignore[arg-type]
        judged.append(parts[0][0])
        return parts

    monkeypatch.setattr(ExportedSide, "_whole_model", observed)
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(2, 4, 4)
    report = check(module, (x,), save_onnx=tmp_path / "m.onnx", train=False, probe=False, grads=False)
    assert not report.failed, str(report)
    written = onnx.load(tmp_path / "m.onnx")
    assert judged
    assert all(dtypes_in(model) == dtypes_in(written) for model in judged)
    assert dtypes_in(written) > {onnx.TensorProto.FLOAT}, "the part keeps its dtype"
    (result,) = run_model(tmp_path / "m.onnx", {"x": x.numpy()}).values()
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=0.02, atol=0.02)


def test_what_is_rewritten_is_said(tmp_path: Path) -> None:
    x = torch.randn(2, 4, 4)
    for dtype, text in ((torch.bfloat16, "rounded to bfloat16"), (torch.float64, "products of matrices")):
        report = check(Part(dtype), (x,), save_onnx=tmp_path / "m.onnx", train=False, probe=False, grads=False)
        assert any(text in note for note in report.notes), report.notes


@pytest.mark.parametrize("method", ["half", "bfloat16", "double"])
def test_a_model_in_another_dtype_is_said_to_be_written_in_float32(method: str, tmp_path: Path) -> None:
    module, name = getattr(nn.Linear(3, 2), method)(), {"half": "float16", "double": "float64"}.get(method, method)
    x = getattr(torch.randn(2, 3), method)()
    report = check(module, (x,), save_onnx=tmp_path / "m.onnx", train=False, probe=False, grads=False)
    assert any(
        f"the model is in {name}, but was compared, and is written to ONNX, in float32" in n for n in report.notes
    )
    assert onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.every(2)
def test_a_file_that_was_not_run_is_said_not_to_be(dtype: str, tmp_path: Path) -> None:
    x, options = torch.randn(2, 3), {"train": False, "probe": False, "grads": False}
    report = check(nn.Linear(3, 2), (x,), save_onnx=tmp_path / "m.onnx", dtype=dtype, **options)
    assert any(f"the file is in {dtype}, and wasn't run" in note for note in report.notes)
    assert not any("wasn't run" in note for note in check(nn.Linear(3, 2), (x,), dtype=dtype, **options).notes)


UNCHECKED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Conv1d(4, 4, 3)
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.a(x).float()

def model():
    return Net()

def inputs():
    return torch.randn(2, 4, 4)
"""


def test_an_unchecked_file_runs_too(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(UNCHECKED)
    result = CliRunner().invoke(
        main, ["export", str(tmp_path / "net.py"), "-o", str(tmp_path / "m.onnx"), "--no-check"]
    )
    assert result.exit_code == 0, result.output
    assert "rounded to bfloat16" in " ".join(result.output.split())
    assert run_model(tmp_path / "m.onnx", {"x": np.ones((2, 4, 4), np.float32)})


class Constants(nn.Module):
    """Makes constants in the dtype that autocast gives its values."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.a(x)
            return (h - torch.tensor([0.1, 0.2, 0.3], dtype=h.dtype)).float() * h.new_tensor([0.3, 0.1, 0.7])


def test_constants_in_the_dtype_of_autocast_are_the_same_numbers_in_float64() -> None:
    report = check(Constants(), (torch.randn(2, 3),), probe=False)
    assert not report.failed, str(report)
