"""Kinds of models that were once judged or captured wrongly: parity holds in eval and train mode."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.capture.tables.table import TABLE
from cellbridge.runtime.errors import UnsupportedOperators, UsageError
from tests.parity.models import MODELS, SEQUENCE, MaskedDecoder, ReturnsDataclasses, Scores, X, spectral


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.every(12)
def test_parity_holds(name: str, train: bool) -> None:
    torch.manual_seed(0)
    module, args = MODELS[name]()
    report = parity.check(module, args, train=train)
    report.raise_if_failed()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("constants", "float64"),
        ("own RMS norm", "float64"),
        ("RMS norm without eps", "float64"),
        ("RMS norm without eps", "float16"),
        ("lowest mask", "bfloat16"),
    ],
)
def test_parity_holds_in_other_dtypes(name: str, dtype: str) -> None:
    torch.manual_seed(0)
    module, args = MODELS[name]()
    parity.check(module, args, dtype=dtype).raise_if_failed()


def test_what_onnx_computes_of_no_parameter_comes_back_from_the_ir_alone() -> None:
    """In ONNX the weight is a number, without a gradient."""
    module, args = MODELS["orthogonal"]()
    report = parity.check(module, args, round_trip=True)
    report.raise_if_failed()
    assert report.sides == ["interpreter", "onnxruntime", "torch from IR"]


def test_a_model_that_torch_cannot_run_in_a_dtype_is_the_users_to_mend() -> None:
    """Operands of two dtypes are torch's own error, no fault of the capture."""
    module, args = MODELS["constants"]()
    with pytest.raises(UsageError, match=r"doesn't run on its inputs .*same dtype"):
        parity.check(module, args, dtype="float16")


def test_a_lost_update_of_a_buffer_is_found() -> None:
    """One side updates its statistics, the other leaves them alone."""
    torch.manual_seed(0)
    reference, candidate = nn.Sequential(nn.BatchNorm1d(6)), nn.Sequential(nn.BatchNorm1d(6, momentum=0.0))
    report = parity.compare(reference, candidate, (X + 1.0,), train=True)
    assert report.failing == ["0"]
    kinds = {c.kind for c in report.cells["0"].comparisons if c.status != "pass"}
    assert kinds == {"buffer update"}


def test_another_eps_of_an_rms_norm_is_found() -> None:
    """Without eps, an RMS norm has that of float32, in the float64 truth too."""
    with_eps = nn.RMSNorm(6, eps=torch.finfo(torch.float32).eps)
    assert parity.compare(nn.RMSNorm(6), with_eps, (X,)).ok
    assert not parity.compare(nn.RMSNorm(6), nn.RMSNorm(6, eps=1e-6), (X,)).ok


def test_limits_are_torchs_own_afterwards() -> None:
    limits = torch.finfo
    parity.check(nn.Linear(6, 2), (X,))
    assert torch.finfo is limits
    assert torch.finfo(torch.float64).eps == pytest.approx(2.2e-16, rel=0.01)


def test_a_mask_that_is_not_causal_is_applied() -> None:
    """What torch would see as not causal isn't taken for causal: the program is torch's function."""
    torch.manual_seed(0)
    module = MaskedDecoder().eval()
    (result,) = [from_torch(module, (SEQUENCE,))(SEQUENCE)]
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(result), module(SEQUENCE))


def test_a_dataclass_comes_back_as_its_fields() -> None:
    torch.manual_seed(0)
    module = ReturnsDataclasses().eval()
    result = from_torch(module, (X,))(X)
    assert isinstance(result, dict)
    assert list(result) == [f.name for f in dataclasses.fields(Scores)]


def test_operators_with_a_check_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TABLE, "aten.linalg_ldl_factor_ex.default")

    class Factors(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.ldl_factor(x @ x.mT + torch.eye(4))[0]

    with pytest.raises(UnsupportedOperators, match="linalg_ldl_factor_ex"):
        from_torch(Factors(), (X,))


def test_the_vector_of_a_power_iteration_is_exact_in_onnxruntime() -> None:
    """A product of a transposed matrix with a vector, both known at run time only."""
    torch.manual_seed(0)
    report = parity.check(spectral(5), (X,), train=True)
    judged = [c for cell in report.cells.values() for c in cell.comparisons if c.side == "onnxruntime"]
    assert judged
    assert all(c.status == "pass" for c in judged)
