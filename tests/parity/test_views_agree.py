"""One failing run in all formats: each names the same place, cause and lines."""

from __future__ import annotations

import html
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity import assert_parity
from cellbridge.parity.cli import main
from cellbridge.parity.report import junit
from cellbridge.parity.report.formats import FORMATS
from cellbridge.parity.report.report import Report
from cellbridge.runtime.errors import ParityError

pytestmark = pytest.mark.causes


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate="tanh")


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.acts = nn.ModuleList(Gelu() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, act in zip(self.layers, self.acts, strict=True):
            x = act(layer(x))
        return x


class Port(nn.Module):
    def __init__(self, reference: Reference) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.first.load_state_dict(reference.layers[0].state_dict())
        self.second.load_state_dict(reference.layers[1].state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x))
        return F.gelu(self.second(x), approximate="tanh")


X = torch.linspace(-2, 2, 24).reshape(4, 6)


@pytest.fixture(scope="module")
def networks() -> tuple[Reference, Port]:
    reference = Reference()
    return reference, Port(reference)


@pytest.fixture(scope="module")
def report(networks: tuple[Reference, Port]) -> Report:
    return parity.compare(*networks, (X,))


@pytest.fixture(scope="module")
def data(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("json") / "report.json"
    FORMATS["json"].write(report, str(path))
    return json.loads(path.read_text())


def texts_of_failing_cell(data: Any) -> dict[str, list[str]]:
    """What the JSON report says of the failing Cell, which is what the others must say."""
    (path,) = data["failing"]
    (cell,) = [cell for cell in data["cells"] if cell["path"] == path]
    (cause,) = cell["causes"]
    (pair,) = [pair for pair in data["pairs"] if pair["module"] == path]
    lines = [line for side in ("reference", "candidate") for line in cause["hunk"][side]]
    return {
        "place": [path, cell["class_name"], pair["cell_class"], pair["how"]],
        "cause": [cause["summary"], cause["proof"], cause["fix"]],
        "lines": [text for line in lines for text in (str(line["line"]), line["text"], Path(line["file"]).name)],
    }


def test_the_json_report_has_the_lines_of_the_sources(data: Any) -> None:
    (cell,) = [cell for cell in data["cells"] if cell["path"] == "acts.0"]
    hunk = cell["causes"][0]["hunk"]
    source = Path(__file__).read_text().splitlines()
    for side, text in (
        ("reference", 'return F.gelu(x, approximate="tanh")'),
        ("candidate", "x = F.gelu(self.first(x))"),
    ):
        (line,) = hunk[side]
        assert line == {"file": __file__, "line": line["line"], "text": text, "ops": ["gelu"]}
        assert source[line["line"] - 1].strip() == text


def in_terminal(report: Report, _: tuple[Reference, Port], __: Path) -> str:
    return str(report)


def in_pytest(_: Report, networks: tuple[Reference, Port], __: Path) -> str:
    with pytest.raises(ParityError) as caught:
        assert_parity(*networks, X, grads=True)
    return str(caught.value)


def in_junit(report: Report, _: tuple[Reference, Port], folder: Path) -> str:
    junit.write(report, folder / "report.xml")
    (case,) = [
        case
        for case in ElementTree.parse(folder / "report.xml").getroot().iter("testcase")
        if case.find("failure") is not None
    ]
    assert case.attrib["name"] == "acts.0[candidate]"
    return str(case.findtext("failure"))


def in_html(report: Report, _: tuple[Reference, Port], folder: Path) -> str:
    report.write_html(folder / "report.html")
    page = (folder / "report.html").read_text()
    section = page[page.index("What fails") : page.index("What was paired how")]
    return html.unescape(re.sub("<[^>]*>", " ", section))


@pytest.mark.parametrize("view", [in_terminal, in_pytest, in_junit, in_html], ids=lambda view: view.__name__)
def test_a_view_says_what_the_json_report_says(
    view: Any, report: Report, networks: tuple[Reference, Port], data: Any, tmp_path: Path
) -> None:
    text = " ".join(view(report, networks, tmp_path).split())
    assert data["failing"] == ["acts.0"]
    for kind, words in texts_of_failing_cell(data).items():
        missing = [word for word in words if " ".join(word.split()) not in text]
        assert missing == [], kind
    minus, plus = texts_of_failing_cell(data)["lines"][1], texts_of_failing_cell(data)["lines"][4]
    assert text.index(minus) < text.index(plus) < text.index(texts_of_failing_cell(data)["cause"][0])
    assert "unpaired" not in text


NETWORK = """
import torch

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.act = torch.nn.Linear(4, 3), torch.nn.GELU(APPROXIMATE)
    def forward(self, x):
        return self.act(self.fc(x))

def model(): return Network()
def inputs(): return (torch.linspace(-2, 2, 8).reshape(2, 4),)
"""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each format says of one command line, as plain text."""
    folder = tmp_path_factory.mktemp("views")
    (folder / "ours.py").write_text(NETWORK.replace("APPROXIMATE", ""))
    (folder / "port.py").write_text(NETWORK.replace("APPROXIMATE", "'tanh'"))
    files = [word for name in ("json", "junit", "html") for word in (f"--{name}", f"report.{name}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(main, ["compare", "ours.py", "port.py", "--no-probe", "-v", *files])
    assert result.exit_code == 1, result.output
    texts = {"terminal": result.stdout, "json": (folder / "report.json").read_text()}
    suite = ElementTree.parse(folder / "report.junit").getroot()
    texts["junit"] = " ".join(
        [*(str(value) for each in suite.iter() for value in each.attrib.values()), *suite.itertext()]
    )
    texts["html"] = html.unescape(re.sub("<[^>]*>", " ", (folder / "report.html").read_text()))
    return {name: " ".join(text.split()) for name, text in texts.items()}


def test_every_view_says_where_it_comes_from_and_which_cell_fails(views: dict[str, str]) -> None:
    data = json.loads(views["json"])
    origin = data["origin"]
    assert datetime.fromisoformat(origin["date"]).tzinfo is not None
    assert {*origin["versions"]} >= {"cellbridge", "python", "torch", "numpy"}
    assert origin["command"].startswith("parity compare ours.py port.py --no-probe")
    words = [origin["date"], origin["command"], origin["reference"], data["model"], *origin["versions"].values()]
    words += ["act", data["cells"][-1]["causes"][0]["summary"], "Parity fails in 1 Cell: act"]
    for name, text in views.items():
        missing = [word for word in words if name != "json" and " ".join(word.split()) not in text]
        assert missing == [], name


def test_every_view_gives_errors_in_the_same_unit(views: dict[str, str]) -> None:
    """`5e7×` is what double precision allows, times 5e7, wherever it stands."""
    (multiple,) = {*re.findall(r"error \S+, (\S+×) what double precision allows", views["terminal"])[:1]}
    assert multiple in views["junit"]
    assert multiple in views["html"]
