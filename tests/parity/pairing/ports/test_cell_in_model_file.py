"""A model file with `cell()`: the command, the reports and the plugin judge the port beside the conversions."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main

pytest_plugins = ["pytester"]

FILE = """
import torch
from torch import nn as tnn
from cellbridge.runtime import nn, ops

class TorchNet(tnn.Module):
    def __init__(self):
        super().__init__()
        self.features = tnn.Sequential(tnn.Conv2d(1, 3, 3, padding=1), tnn.BatchNorm2d(3), tnn.ReLU())
        self.act = tnn.GELU()
        self.head = tnn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.act(self.features(x).mean((2, 3))))

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, has_bias=True)
        self.bn = nn.BatchNorm2d(3, eps=EPS)
        self.relu = nn.ReLU()
        self.classifier = nn.Dense(3, 2)

    def construct(self, x):
        x = self.relu(self.bn(self.conv(x)))
        return self.classifier(ops.gelu(x.mean((2, 3))))

def model():
    return TorchNet()

def inputs():
    return torch.randn(2, 1, 4, 4),

def cell():
    return Net()
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(text: str, *options: str) -> Result:
    Path("net.py").write_text(text)
    return CliRunner().invoke(main, ["run", "net.py", *options], catch_exceptions=False)


def test_right_port() -> None:
    result = run(FILE.replace("EPS", "1e-5"), "--json", "report.json", "--junit", "report.xml")
    assert result.exit_code == 0, result.output
    verdict = " ".join(result.output.split())
    assert "and cell (outputs and gradients) agree with torch" in verdict
    assert "features.0" in result.output  # the pairing
    assert "conv" in result.output
    report = json.loads(Path("report.json").read_text())
    assert report["sides"] == ["interpreter", "onnxruntime", "cell"]
    pairs = {pair["module"]: pair for pair in report["pairs"]}
    assert pairs["features.0"]["cell"] == "conv"
    assert pairs["features.0"]["how"] == "class and order"
    assert pairs["act"]["cell"] is None
    assert report["unpaired"] == ["act"]
    carried = {"parameter": "bn.gamma", "source": "features.1.weight", "how": "layer", "layout": ""}
    assert carried in report["weights"]
    suite = ElementTree.parse("report.xml").getroot()[0]
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["port of features.0"] == "conv (Conv2d, by class and order)"
    assert properties["Parameter bn.gamma"] == "features.1.weight (by layer)"
    assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    skipped = {case.get("name"): case for case in suite.iter("testcase") if len(case)}
    assert "it has no counterpart" in skipped["act[cell]"][0].get("message", "")


def test_wrong_port() -> None:
    result = run(FILE.replace("EPS", "1e-3"), "--json", "report.json")
    assert result.exit_code == 1
    assert "Parity fails in 1 Cell: features.1" in result.output
    report = json.loads(Path("report.json").read_text())
    assert report["failing"] == ["features.1"]
    failing = next(each for each in report["cells"] if each["path"] == "features.1")
    assert {c["side"] for c in failing["comparisons"] if c["status"] == "fail"} == {"cell"}
    assert failing["counterpart"] == "BatchNorm2d at bn"
    assert any("eps" in line for line in failing["explanations"])


def test_verbose_shows_the_weights_in_eighty_columns() -> None:
    short, long = run(FILE.replace("EPS", "1e-5")).output, run(FILE.replace("EPS", "1e-5"), "-v").output
    assert "bn.moving_variance" not in short
    assert "bn.moving_variance" in long
    assert "features.1.running_var" in long
    assert all(len(line) <= 80 for line in (short + long).splitlines())


def test_cells_and_weights() -> None:
    source = FILE.replace("EPS", "1e-5").replace("self.classifier = nn.Dense(3, 2)", "self.classifier = Head()")
    source += """
class Head(nn.Cell):
    def __init__(self):
        super().__init__()
        self.kernel = ms.Parameter(ms.Tensor(np.zeros((3, 2), np.float32)))
        self.offset = ms.Parameter(ms.Tensor(np.zeros(2, np.float32)))
    def construct(self, x):
        return ops.matmul(x, self.kernel) + self.offset

import numpy as np
import cellbridge.runtime as ms
cells = {"classifier": "head"}
"""
    refused = run(source)
    assert refused.exit_code == 2
    assert "weights={" in refused.output
    assert "Traceback" not in refused.output
    accepted = run(source + "weights = lambda: {'classifier.kernel': ('head.weight', 'transpose')}\n", "-v")
    assert accepted.exit_code == 0, accepted.output
    assert "head.weight, axes (1, 0)" in accepted.output


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ("return Net()", "return TorchNet()", "cell() must return a Cell or a network in JAX; it returned a TorchNet"),
        (
            "return Net()",
            "Net()",
            "cell() must return a Cell or a network in JAX; it returned None (is a `return` missing?)",
        ),
        (
            "def cell():\n    return Net()",
            "cell = 3",
            "`cell` must be a Cell or a network in JAX, or a function returning one; it is an int",
        ),
        ("return Net()", "return Net()\ncells = {'conv': 'features.9'}", "there is no module at 'features.9'"),
        ("return Net()", "return Net()\nweights = 3", "`weights` must be a dict"),
        ("return Net()", "raise RuntimeError('no')", "net.py raised RuntimeError when cell() was called"),
    ],
)
def test_errors_in_the_file(replaced: str, by: str, message: str) -> None:
    result = run(FILE.replace("EPS", "1e-5").replace(replaced, by))
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


@pytest.mark.causes
def test_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(parity_net=FILE.replace("EPS", "1e-3"))
    result = pytester.runpytest("-rs", "parity_net.py", "-v")
    result.stdout.fnmatch_lines(["*::0[[]cell[]] PASSED*", "*::1[[]cell[]] FAILED*"])
    result.stdout.fnmatch_lines(["*::act[[]cell[]] SKIPPED*"])
    result.stdout.fnmatch_lines(["*in the APIs: BatchNorm2d: eps*"])
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1


UNCONVERTIBLE = """
import torch
from cellbridge.runtime import nn, ops

class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    def forward(self, x):
        y = self.fc(x)
        y = y + 0 * torch.hash_tensor(y).float()  # no program has it; y stays as it is
        a, b = y.split(1, dim=1)
        return torch.cat((a + b, a - b), dim=1).abs()

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2)

    def construct(self, x):
        a, b = self.fc(x).split(1, axis=1)
        return ops.concat((a + b, SIGN * (a - b)), axis=1).abs()

def model():
    return TorchNet()

def inputs():
    return torch.randn(3, 2),

def cell():
    return Net()
"""


@pytest.mark.slow
def test_a_model_that_cannot_be_converted_has_its_port_judged() -> None:
    result = run(UNCONVERTIBLE.replace("SIGN", "1"))
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())
    assert "Parity holds: cell (outputs and gradients) agrees with torch in 2 Cells" in shown
    assert "note: only the port was judged: the model can't be converted: 1 use of operators" in shown
    wrong = run(UNCONVERTIBLE.replace("SIGN", "2"))
    assert wrong.exit_code == 1, wrong.output
    assert run(UNCONVERTIBLE.replace("def cell", "def no_cell")).exit_code == 3
    assert run(UNCONVERTIBLE, "--save-onnx", "net.onnx").exit_code == 3


@pytest.mark.slow
def test_the_plugin_says_what_was_not_judged(pytester: pytest.Pytester) -> None:
    pytester.makefile(".py", parity_net=UNCONVERTIBLE.replace("SIGN", "1"))
    result = pytester.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(passed=2, failed=4)
    result.stdout.fnmatch_lines(["*nothing of the Cell fc was compared on the interpreter side", "*only the port was*"])
