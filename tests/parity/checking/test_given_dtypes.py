"""Networks whose code casts to the dtype of a part run as they are, and not with their weights in another dtype."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from cellbridge.parity import check, compare
from cellbridge.runtime.errors import UsageError


class Inner(nn.Module):
    """Weights of one dtype, between casts."""

    def __init__(self, dtype: torch.dtype, *, alone: bool = True) -> None:
        super().__init__()
        self.dtype, self.inner = dtype, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(dtype)
        self.first = nn.Identity() if alone else nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.first(x).to(self.dtype)).float()


class WideNorm(nn.Module):
    """A network in half precision whose normalization is in float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.a, self.norm, self.b = nn.Linear(4, 4).to(dtype), nn.LayerNorm(4), nn.Linear(4, 2).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.norm(self.a(x).float()).to(self.dtype))


OTHERS = (torch.float16, torch.bfloat16, torch.float64)
CASES = {
    **{f"inner {d}": (partial(Inner, d), torch.float32) for d in OTHERS},
    **{f"inner {d} beside float32": (partial(Inner, d, alone=False), torch.float32) for d in OTHERS},
    "norm beside float16": (partial(WideNorm, torch.float16), torch.float16),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.every(6)
def test_a_network_that_runs_as_it_is_is_judged_as_it_is(case: str, tmp_path: Path) -> None:
    make, of_inputs = CASES[case]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(5, 4).to(of_inputs)
    dtypes = {name: p.dtype for name, p in module.named_parameters()}
    report = check(module, (x,), save_onnx=tmp_path / "m.onnx", train=False, probe=False)
    assert not report.failed, str(report)
    assert any("it was compared as it is" in note for note in report.notes)
    assert report.dtype == str(of_inputs).removeprefix("torch.")
    assert {name: p.dtype for name, p in module.named_parameters()} == dtypes
    assert (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.every(6)
def test_a_fault_in_such_a_network_is_found(case: str) -> None:
    make, of_inputs = CASES[case]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(5, 4).to(of_inputs)
    twin, faulty = copy.deepcopy(module), copy.deepcopy(module)
    assert not compare(module, twin, (x,), train=False, probe=False).failed
    with torch.no_grad():
        next(faulty.parameters())[0, 0] += 0.5
    assert compare(module, faulty, (x,), train=False, probe=False).failed


@pytest.mark.parametrize("method", ["half", "bfloat16", "double"])
def test_a_network_that_runs_in_the_working_dtype_is_judged_in_it(method: str) -> None:
    report = check(getattr(nn.Linear(4, 2), method)(), (torch.randn(3, 4),), train=False, probe=False, grads=False)
    assert report.dtype == "float32"
    assert not any("as it is" in note for note in report.notes)


def test_a_network_in_bfloat16_with_casts_is_judged_without_onnx_runtime(tmp_path: Path) -> None:
    """ONNX Runtime is judged in float32 there, which the network doesn't run in."""
    torch.manual_seed(0)
    module, x = WideNorm(torch.bfloat16), torch.randn(3, 4).bfloat16()
    report = check(module, (x,), probe=False)
    assert not report.failed, str(report)
    assert (report.sides, report.dtype) == (["interpreter"], "bfloat16")
    assert any("it was compared as it is" in note for note in report.notes)
    assert [note[:26] for note in report.notes if "ONNX Runtime" in note] == ["ONNX Runtime was left out:"]
    assert not compare(module, copy.deepcopy(module), x, probe=False).failed
    for asked in ({"sides": ["onnxruntime"]}, {"save_onnx": tmp_path / "m.onnx"}):
        with pytest.raises(
            UsageError, match=r"runs with weights in bfloat16 and float32, but it can't be judged that way"
        ):
            check(module, (x,), probe=False, **asked)
    assert not (tmp_path / "m.onnx").exists()


def test_a_network_that_does_not_run_at_all_is_refused() -> None:
    module = nn.Sequential(nn.Linear(4, 4).half(), nn.Linear(3, 2))
    with pytest.raises(UsageError, match="doesn't run on its inputs"):
        check(module, (torch.randn(3, 4),), probe=False)


def test_a_network_in_float64_agrees_with_its_file_in_a_second_call(tmp_path: Path) -> None:
    """The numbers of the second call are made from inputs that are rounded already, on every side."""
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(4, 5), nn.Tanh()).double(), torch.randn(3, 4, dtype=torch.float64)
    check(module, (x,), save_onnx=tmp_path / "m.onnx", train=False, probe=False, grads=False)
    report = compare(module, tmp_path / "m.onnx", (x,), train=False, probe=False)
    assert not report.failed, str(report)
