"""Cells in which torch's own gradients are wrong: neither a failure of the other side nor a pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge import parity
from cellbridge.parity.assertions import ReferenceWrongWarning
from cellbridge.parity.cli import main
from cellbridge.parity.report import junit
from cellbridge.parity.report.items import outcomes
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import REFERENCE_WRONG, SKIPPED
from cellbridge.runtime.errors import ParityError
from tests.parity.pairing.ports.ports import made
from tests.parity.test_report_schema import VALIDATOR
from tests.parity.torch_faults import NormToTokens, Tanh, batch_norm_is_wrong, kernel, wrong_tanh_backward

pytestmark = pytest.mark.causes


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), Tanh(), nn.Linear(6, 3))


@pytest.fixture(autouse=True, scope="module")
def _wrong_kernel() -> Iterator[None]:
    with kernel("tanh_backward", wrong_tanh_backward):
        yield


@pytest.fixture(scope="module")
def report() -> Report:
    return parity.check(network(), (torch.randn(5, 6),))


def test_the_verdict(report: Report) -> None:
    assert (report.ok, report.failed, report.failing, report.reference_wrong) == (False, False, [], ["1"])
    assert report.verdicts == {"": "affected", "0": "affected", "1": REFERENCE_WRONG, "2": "pass"}
    assert 0.001 < report.cells["1"].derivative_error < 0.1
    assert report.network_verdict.verdict == "not known"


def test_only_gradients_that_were_tested_are_excused(report: Report) -> None:
    wrong = {(c.kind, c.feeding) for c in report.cells["1"].comparisons if c.status == REFERENCE_WRONG}
    assert wrong == {("input gradient", "isolated")}
    assert {c.status for c in report.cells["1"].outputs} == {"pass"}


def test_what_is_said(report: Report) -> None:
    text = " ".join(str(report).split())
    assert "Nothing fails, but torch's gradient is wrong in 1" in text
    assert "torch's gradient is wrong here" in text
    assert "wrong side: torch; its gradients aren't the derivative of its own forward pass" in text
    assert "FAIL" not in text
    assert report.page().outcome == "unclear"
    VALIDATOR.validate(json.loads(json.dumps(report.to_dict())))
    assert report.to_dict()["reference_wrong"] == ["1"]
    assert report.to_dict()["cells"][2]["status"] == REFERENCE_WRONG


def test_it_is_skipped_in_junit_and_pytest(report: Report) -> None:
    suite = junit.to_xml(report)[0]
    skipped = {case.get("name"): case[0].get("message") for case in suite if len(case) and case[0].tag == "skipped"}
    assert set(skipped) == {"(root)[interpreter]", "0[interpreter]", "1[interpreter]"}
    assert "torch's gradient is wrong here" in str(skipped["1[interpreter]"])
    assert "torch's gradient is wrong in 1" in str(skipped["0[interpreter]"])
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "3")
    assert isinstance(suite, ElementTree.Element)
    items = [("1", "interpreter"), ("1", "onnxruntime"), ("2", "interpreter")]
    assert [status for status, _ in outcomes(report, items).values()] == [SKIPPED, "pass", "pass"]


def test_the_exit_code_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nfrom tests.parity.causes.test_reference_wrong import network as model\n"
        "def inputs(): return (torch.ones(5, 6),)\n"
    )
    arguments = ["run", str(tmp_path / "net.py"), "--json", str(tmp_path / "report.json")]
    assert CliRunner().invoke(main, arguments).exit_code == 4
    assert json.loads((tmp_path / "report.json").read_text())["reference_wrong"] == ["1"]
    arguments = ["export", str(tmp_path / "net.py"), "-o", str(tmp_path / "net.onnx")]
    assert CliRunner().invoke(main, arguments).exit_code == 0  # its outputs are right
    assert (tmp_path / "net.onnx").exists()


class OwnTanh(Tanh):
    """The same layer, whose candidate computes tanh by its definition, and multiplies the output by a factor."""

    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * (1 - 2 / (torch.exp(2 * x) + 1)) * self.scale


def candidate(factor: float) -> nn.Module:
    module = network()
    module[1] = OwnTanh()
    module[1].factor = factor
    return module


def test_an_assertion_warns() -> None:
    with pytest.warns(ReferenceWrongWarning, match="gradients are wrong in 1"):
        parity.assert_parity(network(), candidate(1.0), torch.randn(5, 6))


def test_wrong_outputs_are_still_a_failure() -> None:
    with pytest.raises(ParityError) as raised:
        parity.assert_parity(network(), candidate(1.001), torch.randn(5, 6))
    assert raised.value.report.failing == ["1"]


def test_a_failure_elsewhere_is_still_a_failure() -> None:
    faulty = candidate(1.0)
    faulty.load_state_dict(network().state_dict() | {"2.bias": torch.zeros(3)})
    report = parity.compare(network(), faulty, torch.randn(5, 6))
    assert (report.failed, report.failing, report.reference_wrong) == (True, ["2"], ["1"])
    assert report.cells["1"].status == REFERENCE_WRONG


class WithHook(Tanh):
    """The reference's own code changes a gradient in the Cell in which torch is wrong."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if y.requires_grad:
            y.register_hook(lambda gradient: gradient * 1.1)
        return y


@pytest.mark.slow
def test_a_gradient_that_the_reference_sets_itself_is_meant() -> None:
    module = network()
    module[1] = WithHook()
    report = parity.compare(module, candidate(1.0), torch.randn(5, 6))
    assert (report.failing, report.reference_wrong, report.cells["1"].wrong_side) == (["1"], [], "reference")


def wrong_parameter_gradient(*given: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A layer norm's gradients without rstd in that of its weight."""
    gradient, x, _, mean, rstd, weight, _, _ = given
    normed = (x - mean) * rstd
    inner = gradient * weight
    dx = rstd * (inner - inner.mean(-1, True) - normed * (inner * normed).mean(-1, True))
    return dx, (gradient * (x - mean)).sum(0), gradient.sum(0)


def test_a_wrong_gradient_of_a_parameter() -> None:
    with kernel("native_layer_norm_backward", wrong_parameter_gradient):
        report = parity.check(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)), (torch.randn(5, 6),))
    assert (report.failed, report.reference_wrong) == (False, ["1"])
    wrong = {c.tensor for c in report.cells["1"].comparisons if c.status == REFERENCE_WRONG}
    assert wrong == {"1.weight"}


@pytest.mark.skipif(not batch_norm_is_wrong(), reason="this version of torch has the right gradient")
def test_the_batch_norm_of_torch() -> None:
    torch.manual_seed(0)
    report = parity.check(nn.Sequential(nn.Conv2d(3, 8, 3), NormToTokens()), (torch.randn(1, 3, 6, 6),))
    assert (report.failed, report.reference_wrong) == (False, ["1.norm"])
    assert {path for path, cell in report.cells.items() if cell.status == REFERENCE_WRONG} == {"1.norm"}
    assert "native_batch_norm_backward" in report.cells["1.norm"].wrong_side_reason


def test_a_port_is_not_blamed() -> None:
    module, cell, args = made("encoder")
    with kernel("native_layer_norm_backward", wrong_parameter_gradient):
        report = parity.compare(module, cell, args)
    assert (report.failed, report.reference_wrong) == (False, ["norm1", "norm2"])
