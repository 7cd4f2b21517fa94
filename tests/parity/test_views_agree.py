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
from cellbridge.parity.inputs.model_file import load
from cellbridge.parity.jobs.sweeping import result
from cellbridge.parity.jobs.sweeping.limits import Ended
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
PORT = """
from collections import OrderedDict
from cellbridge.runtime import nn

def cell(): return nn.SequentialCell(OrderedDict(fc=nn.Dense(4, 3), act=nn.GELU()))
"""
FILES = [word for name in ("json", "junit", "html") for word in (f"--{name}", f"report.{name}")]


def run(*words: str, folder: Path) -> str:
    """Run a command line that fails in a folder, and return what it prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 1, result.output
    return result.stdout


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def text_of_junit(file: Path) -> str:
    suite = ElementTree.parse(file).getroot()
    return " ".join([*(str(value) for each in suite.iter() for value in each.attrib.values()), *suite.itertext()])


def text_of_html(file: Path) -> str:
    return html.unescape(re.sub("<[^>]*>", " ", file.read_text()))


def views_of(printed: str, folder: Path) -> dict[str, str]:
    """What each format says of one command line, as plain text."""
    texts = {
        "terminal": printed,
        "json": (folder / "report.json").read_text(),
        "junit": text_of_junit(folder / "report.junit"),
        "html": text_of_html(folder / "report.html"),
    }
    return {name: on_one_line(text) for name, text in texts.items()}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the formats of `parity compare`, and an assertion in pytest, say of two networks."""
    folder = tmp_path_factory.mktemp("views")
    (folder / "ours.py").write_text(NETWORK.replace("APPROXIMATE", ""))
    (folder / "port.py").write_text(NETWORK.replace("APPROXIMATE", "'tanh'"))
    views = views_of(run("compare", "ours.py", "port.py", "--no-probe", "-v", *FILES, folder=folder), folder)
    ours, port = (load(str(folder / name)) for name in ("ours.py", "port.py"))
    with pytest.raises(ParityError) as caught:
        assert_parity(ours.module, port.module, ours.args, probe=False)
    return views | {"pytest": on_one_line(str(caught.value))}


def test_every_view_says_where_it_comes_from_and_which_cell_fails(views: dict[str, str]) -> None:
    data = json.loads(views["json"])
    origin = data["origin"]
    assert datetime.fromisoformat(origin["date"]).tzinfo is not None
    assert {*origin["versions"]} >= {"cellbridge", "python", "torch", "numpy"}
    assert origin["command"].startswith("parity compare ours.py port.py --no-probe")
    of_command_line = [origin["date"], origin["command"]]
    words = [origin["reference"], data["model"], *(f"{name} {version}" for name, version in origin["versions"].items())]
    words += [data["headline"].removeprefix("act: "), data["sentence"], data["network_verdict"]["sentence"]]
    for name in views.keys() - {"json"}:
        expected = [*words, *(["date: ", "command: pytest "] if name == "pytest" else of_command_line)]
        assert [word for word in expected if on_one_line(word) not in views[name]] == [], name


def test_every_view_gives_errors_in_the_same_unit(views: dict[str, str]) -> None:
    """`5e3×` is the reference's own rounding error, times 5e3, wherever it stands."""
    multiples = {name: {*re.findall(r"\d\S*×", text)} for name, text in views.items() if name != "json"}
    assert multiples["terminal"] >= {"5e3×", "1e3×"}
    assert multiples["junit"] | multiples["pytest"] <= multiples["terminal"]
    assert "5e3×" in multiples["html"] & multiples["junit"] & multiples["pytest"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """What `parity run` and `parity sweep` say of one model; of the sweep, the page of the model and the overview."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "bad.py").write_text(NETWORK.replace("APPROXIMATE", "") + PORT)
    single = views_of(run("run", "bad.py", "--no-probe", "-v", *FILES, folder=folder), folder)

    (folder / "report.html").unlink()  # which is a folder of a sweep

    def in_this_process(command: list[str], *_: object) -> Ended:
        words = command[command.index("cellbridge.parity") + 1 :]
        done = CliRunner().invoke(main, words)
        return Ended(done.exit_code, "", done.output, seconds=1.0, memory=10**6)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result, "run_limited", in_this_process)
        printed = run("sweep", "bad.py", "-v", "--workers", "1", *FILES, "--", "--no-probe", folder=folder)
    (page,) = (folder / "report.html").glob("bad*.html")
    several = {"terminal": printed, "json": (folder / "report.json").read_text()}
    several["junit"] = text_of_junit(folder / "report.junit")
    several |= {"page": text_of_html(page), "overview": text_of_html(folder / "report.html" / "index.html")}
    return single, {name: on_one_line(text) for name, text in several.items()}


def test_a_sweep_says_what_the_run_of_the_model_says(swept: tuple[dict[str, str], dict[str, str]]) -> None:
    single, several = swept
    data, document = json.loads(single["json"]), json.loads(several["json"])
    (of_model,) = document["results"]
    for name in ("failing_cells", "network_verdict"):
        assert of_model[name] == data[name.removesuffix("_cells")], name
    assert (of_model["reason"], of_model["cause"]) == (data["sentence"], data["headline"])
    assert of_model["origin"]["versions"] == data["origin"]["versions"]
    assert of_model["origin"]["command"] == "parity run --no-probe -- bad.py"  # which files of a sweep are gone
    assert of_model["origin"]["command"] in several["page"]
    words = [data["headline"], document["origin"]["date"], f"torch {data['origin']['versions']['torch']}"]
    words += ["parity sweep bad.py -v", data["model"]]
    for name in ("terminal", "junit", "overview"):
        assert [word for word in words if on_one_line(word) not in several[name]] == [], name
    assert data["sentence"] in several["junit"]
    assert data["network_verdict"]["sentence"] in several["junit"]
    findings = [text.rpartition("What fails")[2] for text in (single["html"], several["page"])]
    assert findings[0] == findings[1] != ""
