"""What is too ill-conditioned to be judged is not known: neither failed nor held, and a fault beyond it still fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.exported_side import ExportedSide
from cellbridge.parity.sides.records import OUTPUT, Records
from cellbridge.parity.sides.run import Run


class Computed(nn.Module):
    """A Cell that computes a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _odds(x: Tensor) -> Tensor:
    p = torch.sigmoid(8 * x)
    return torch.log(p / (1 - p))


def _logit(x: Tensor) -> Tensor:
    return torch.logit(torch.sigmoid(8 * x))


def _constant_normalized(norm: nn.Module) -> Callable[[float], tuple[nn.Module, Tensor]]:
    def made(value: float) -> tuple[nn.Module, Tensor]:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 4), norm, nn.Linear(4, 2)), torch.full((8, 4), value)

    return made


def _check(module: nn.Module, x: Tensor, **options: Any) -> Report:
    report = parity.check(module, (x,), diagnose_seconds=0, **options)
    assert isinstance(report, Report)
    return report


@pytest.mark.parametrize("function", [_logit, _odds])
@pytest.mark.parametrize(("least", "most"), [(-1.2, 0.5), (-1.0, 1.0), (-0.5, 1.2)])
@pytest.mark.every(2)
def test_what_any_implementation_loses_is_rounding(
    function: Callable[[Tensor], Tensor], least: float, most: float
) -> None:
    report = _check(Computed(function), torch.linspace(least, most, 24))
    assert report.ok, str(report)


@pytest.mark.parametrize("function", [_logit, _odds])
@pytest.mark.parametrize(("least", "most"), [(-1.8, 0.4), (-2.0, -1.9)])
@pytest.mark.every(3)
def test_where_most_digits_are_lost_nothing_is_known(
    function: Callable[[Tensor], Tensor], least: float, most: float
) -> None:
    report = _check(Computed(function), torch.linspace(least, most, 24))
    assert not report.ok
    assert not report.failed
    assert report.cells_not_known == [""]
    assert {c.side for c in report.cells[""].differences} == {"onnxruntime"}
    assert report.network_verdict.verdict == "not known"


@pytest.mark.parametrize(("least", "most"), [(-1.8, 0.4), (-1.2, 0.5)])
@pytest.mark.every(2)
def test_a_fault_beyond_what_rounding_explains_fails(
    monkeypatch: pytest.MonkeyPatch, least: float, most: float
) -> None:
    """The planted fault changes one well-conditioned element by half a percent."""
    run = ExportedSide.run

    def faulty(side: ExportedSide, settings: Run) -> Records:
        records = run(side, settings)
        for key, value in records.values.items():
            if key.kind == OUTPUT:
                records.values[key] = value * np.where(np.arange(value.size) == value.size - 1, np.float32(1.005), 1)
        return records

    monkeypatch.setattr(ExportedSide, "run", faulty)
    report = _check(Computed(_logit), torch.linspace(least, most, 24))
    assert report.failed
    assert report.failing == [""]


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(4), nn.BatchNorm1d(4, affine=False), nn.InstanceNorm1d(4)])
@pytest.mark.every(3)
def test_a_constant_that_is_normalized_in_train_mode_does_not_fail(norm: nn.Module) -> None:
    report = _check(*_constant_normalized(norm)(3.0), train=True)
    assert not report.failed, str(report)
    if not report.ok:
        assert report.cells_not_known == ["1"]


def test_the_command_says_that_parity_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import torch\nfrom torch import nn\n\n\ndef model():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))\n\n\n"
        "inputs = (torch.full((8, 4), 3.0),)\n"
    )
    junit = tmp_path / "report.xml"
    result = CliRunner().invoke(main, ["run", str(file), "--train", "--junit", str(junit)])
    assert result.exit_code == 4, result.output
    assert "? not known" in result.output
    assert "! Nothing fails, but parity is not known in 1\n" in result.output
    assert "✗" not in result.output
    assert 'failures="0"' in junit.read_text()


def test_export_writes_nothing_where_parity_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import torch\n\n\nclass Logit(torch.nn.Module):\n    def forward(self, x):\n"
        "        return torch.logit(torch.sigmoid(8 * x))\n\n\nmodel = Logit()\n"
        "inputs = (torch.linspace(-1.8, 0.4, 24),)\n"
    )
    result = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path / "m.onnx")])
    assert result.exit_code == 4, result.output
    assert "m.onnx was not written, since parity is not known" in result.output
    assert not (tmp_path / "m.onnx").exists()


def test_an_assertion_of_what_is_not_known_raises() -> None:
    module, x = _constant_normalized(nn.BatchNorm1d(4))(3.0)
    with pytest.raises(AssertionError, match="parity is not known in 1"):
        _check(module, x, train=True).raise_if_failed()
