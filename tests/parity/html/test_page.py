"""The HTML page as a file: what is in it, what isn't, and how it is asked for."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.report.html.data import to_json
from cellbridge.parity.report.html.network_page import network_page
from cellbridge.parity.report.html.page import fraction_of_bar, visible, visible_lines
from cellbridge.parity.report.html.writer import to_html
from cellbridge.parity.report.report import Report
from cellbridge.parity.report.training_report import TrainingReport
from cellbridge.parity.results.cause import Cause
from cellbridge.parity.results.cell_graph import CellGraph, GraphNode
from cellbridge.parity.results.cell_report import CellReport
from cellbridge.parity.results.comparison import FAIL, NOT_COMPARED, PASS
from cellbridge.parity.results.correspondence import CarriedWeight, Correspondence, PairedCell
from cellbridge.parity.results.hunk import CodeLine, Hunk
from cellbridge.runtime.errors import UsageError
from tests.parity.hostile import LONE, PAYLOADS
from tests.parity.reports import CONVNET, cell, encoder, failing, passing, report

GRAPH = CellGraph(
    (
        GraphNode("input", "x", "float64[2, 3]"),
        GraphNode("parameter", "blocks.1.norm.weight", "float64[3]"),
        GraphNode("op", "layer_norm", "float64[2, 3]", (0, 1), attributes=(("axes_count", "1"), ("eps", "1e-05")),
                  difference="eps=1e-05, in the candidate 0.001", source="net.py:12: return self.norm(x)"),
        GraphNode("op", "tanh", "float64[2, 3]", (2,), in_candidate_alone=True, difference="in the candidate alone"),
        GraphNode("output", "output", "float64[2, 3]", (2,), (3,)),
    )
)  # fmt: skip
CAUSE = Cause("attribute", "eps is 0.001 in the candidate, 1e-05 in the reference", fix="LayerNorm(4, eps=1e-05)")
FAULTY = report(
    CONVNET,
    cell("", "ConvNet", failing(feeding="end to end")),
    cell(
        "blocks.1.norm",
        "BatchNorm2d",
        failing(),
        failing(kind="buffer update", tensor="mean"),
        causes=[CAUSE],
        graph=GRAPH,
    ),
)


class Parsed(HTMLParser):
    """The tags of a page with their attributes, and its text by the tag around it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open, []).append(data)

    @property
    def data(self) -> Any:
        """The embedded data."""
        return json.loads(self.texts["script"][0])


def hostile_cell(path: str, name: str) -> CellReport:
    """A failing Cell with a name in every place for one."""
    bad = failing(tensor=name, reason=name, source=name, side=name or "side", sizes=name, dtype=name)
    hunk = Hunk((CodeLine(name, 1, name, (name,)),), (CodeLine(text=name), CodeLine(ops=(name,))))
    cause = Cause("weight", name, fix=name, source=name, hunk=hunk)
    node = GraphNode("op", name, name, attributes=((name, name),), difference=name, source=name)
    graph = CellGraph((node, GraphNode("output", name, name, (0,))))
    return cell(path, name, bad, causes=[cause], explanations=[name], counterpart=name, graph=graph)


def hostile_report(name: str) -> Report:
    """A failing report with a name in every place for one."""
    path = name or "empty"
    hunk = Hunk((CodeLine(name, 2, name),), (CodeLine(name, 3, name),))
    second = cell(f"{path}.inside", name, failing(source=name, reason=name), explanations=[name], hunk=hunk)
    pairs = [PairedCell(path, name, name, name, name, name, layout=name), PairedCell(path, name, name, name, "values")]
    weights = [CarriedWeight(name, name, name, name)]
    return report(
        {"": name}, hostile_cell(path, name), second, model=name, notes=[name], sides=[name, "interpreter"],
        correspondence=Correspondence(pairs, weights),
        reference=name,
    )  # fmt: skip


def test_a_page_has_the_verdict_the_facts_and_the_causes() -> None:
    text = " ".join(" ".join(re.sub("<[^>]*>", " ", to_html(FAULTY.page())).split()).split())
    assert "Parity fails in 1 Cell: blocks.1.norm" in text
    for fact in (
        "net.py",
        "interpreter and onnxruntime against torch",
        "float32",
        "eval",
        "8 pass, 1 fail, 1 affected",
    ):
        assert fact in text
    assert "Cause, proved eps is 0.001 in the candidate, 1e-05 in the reference" in text
    assert "To fix LayerNorm(4, eps=1e-05)" in text
    assert "with that, the reference&#39;s Cell agrees exactly in outputs" in text


def test_causes_come_before_other_faults() -> None:
    faulty = report(CONVNET, cell("stem", "Conv2d", failing()), cell("head", "Linear", failing(), causes=[CAUSE]))
    assert [fault.path for fault in faulty.page().faults] == ["head", "stem"]


def test_a_finding_links_to_its_cell() -> None:
    assert FAULTY.page().faults[0].link == "#cell=blocks.1.norm"
    assert report({}, cell("a b/ü", "Net", failing())).page().faults[0].link == "#cell=a%20b/%C3%BC"


def test_rows_are_the_cells_in_the_order_of_the_network() -> None:
    page = FAULTY.page()
    assert [row.path for row in page.rows] == ["(root)", *list(CONVNET)[1:]]
    parents = {row.path: page.rows[row.parent].path for row in page.rows if row.parent is not None}
    assert parents["blocks.1.norm"] == "blocks.1"
    assert parents["stem"] == "(root)"
    assert [(column.side, column.name) for column in page.columns] == [
        ("interpreter", "outputs"),
        ("interpreter", "input gradients"),
        ("interpreter", "buffers"),
        ("onnxruntime", "outputs"),
    ]
    assert page.rows[list(CONVNET).index("blocks.1.norm")].values == pytest.approx([3.2e5, 0.11, 3.2e5, 0.13])


@pytest.mark.parametrize(
    ("changes", "fraction"),
    [
        ({"ratio": 5.0, "allowed": 10.0}, 0.5),
        ({"ratio": float("nan")}, float("inf")),
        ({"ratio": 0.0, "allowed": 0.0}, 0.0),
        ({"status": FAIL, "ratio": 0.0, "index": None}, float("inf")),
        ({"status": NOT_COMPARED, "ratio": 0.0}, None),
    ],
)
def test_errors_are_in_units_of_the_bar(changes: dict[str, Any], fraction: float | None) -> None:
    assert fraction_of_bar(passing(**changes)) == fraction


def test_numbers_that_json_lacks_are_texts() -> None:
    odd = failing(error=float("inf"), ratio=float("nan"), candidate_value=float("-inf"), index=None)
    data = json.loads(to_json(report({}, cell("a", "Net", odd)).page()))
    (row,) = data["rows"]
    fields = row[10][0]
    assert (fields[10], fields[12], fields[13], fields[16]) == ("inf", "nan", "inf", "-inf")


def test_values_have_the_digits_that_tell_them_apart() -> None:
    close = failing(reference_value=0.123456789, candidate_value=0.123456788, truth=0.123456789)
    (row,) = json.loads(to_json(report({}, cell("a", "Net", close)).page()))["rows"]
    assert row[10][0][15:18] == [0.123456789, 0.123456788, 0.123456789]


def test_the_policy_allows_the_style_and_script_of_the_page_and_nothing_else() -> None:
    html = to_html(FAULTY.page())
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    style, script = (
        re.search("<style>(.*?)</style>", html, re.DOTALL),
        re.search(r"<script>(.*?)</script>", html, re.DOTALL),
    )
    assert policy
    assert style
    assert script
    allowed = policy[1].replace("&#39;", "'").split("; ")
    assert allowed[0] == "default-src 'none'"
    for kind, text in (("script", script[1]), ("style", style[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in allowed


def test_a_page_needs_nothing_from_elsewhere_and_has_no_code_in_attributes() -> None:
    parsed = Parsed(to_html(FAULTY.page()))
    for tag, attributes in parsed.tags:
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "srcset")]
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert not re.search(r"@import|url\(", "".join(parsed.texts["style"]))


@pytest.mark.every(2)
@pytest.mark.parametrize("name", [*PAYLOADS, LONE, "</script><script>x()</script>", "<!--<script>", "<b onclick=x()>"])
def test_names_are_text(name: str, tmp_path: Path) -> None:
    hostile_report(name).write_html(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert all(character.isprintable() or character == "\n" for character in html)
    parsed, plain = Parsed(html), Parsed(to_html(hostile_report("plain").page()))
    kinds = {tag for tag, _ in plain.tags}
    assert {tag for tag, _ in parsed.tags} <= kinds
    assert [tag for tag, _ in parsed.tags].count("script") == 2
    shown = visible(name)
    data = parsed.data
    assert shown in data["texts"]
    assert data["reference"] == shown
    assert any(visible_lines(name).strip() in text for text in parsed.texts["title"])


@pytest.mark.slow
def test_five_thousand_cells_are_a_few_megabytes() -> None:
    checks = [
        passing(side=side, check=check, feeding=feeding, kind=kind, tensor=f"{kind} {i}", error=1.234567e-7 * i)
        for i, kind in enumerate(("output", "input gradient", "parameter gradient"))
        for side in ("interpreter", "onnxruntime")
        for check in ("meaning", "rounding")
        for feeding in ("isolated", "end to end")
    ]
    large = report({})
    large.cells = {
        path: cell(path, name, *checks, *([failing(), failing(tensor="second")] if number % 10 == 0 else []))
        for number, (path, name) in enumerate(encoder(555).items())
    }
    assert len(large.cells) == 4998
    page = large.page()
    assert page.left_out > 100_000
    assert len(to_html(page)) < 4e6
    assert [sum(c.status == FAIL for c in row.comparisons) for row in page.rows[:11]] == [2, *[0] * 9, 2]
    kept = {(c.side, c.kind) for c in page.rows[1].comparisons}
    assert kept == {(c.side, c.kind) for c in large.cells["embedding"].comparisons}


def test_where_very_many_comparisons_fail_the_worst_of_each_kind_is_shown() -> None:
    checks = [
        failing(side=side, kind=kind, feeding=feeding, ratio=ratio)
        for side in ("interpreter", "onnxruntime")
        for kind in ("output", "input gradient")
        for feeding in ("isolated", "end to end")
        for ratio in (1e3, 1e6, 1e9)
    ]
    large = report({}, *(cell(f"a{i}", "Net", *checks) for i in range(900)))
    page = large.page()
    failed = [c for c in page.rows[0].comparisons if c.status == FAIL]
    assert [(c.side, c.kind, c.ratio) for c in failed] == [
        (side, kind, 1e9) for side in ("interpreter", "onnxruntime") for kind in ("output", "input gradient")
    ]
    assert page.rows[0].left_out == 20
    assert {c.status for c in page.rows[0].comparisons} == {PASS, FAIL}


def test_a_page_that_is_not_large_shows_every_comparison() -> None:
    assert FAULTY.page().left_out == 0
    assert sum(len(row.comparisons) for row in FAULTY.page().rows) == sum(
        len(c.comparisons) for c in FAULTY.cells.values()
    )


def test_what_passes_has_no_findings() -> None:
    page = network_page(report(CONVNET))
    assert page.outcome == "holds"
    assert page.faults == []
    assert {c.status for row in page.rows for c in row.comparisons} == {PASS}
    assert 'id="what-fails"' not in to_html(page)


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        FAULTY.write_html(tmp_path / "absent" / "r.html")
    assert list(tmp_path.iterdir()) == []
    FAULTY.write_html(tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_sources_are_relative_to_the_working_directory() -> None:
    comparison = replace(failing(), source=f"{Path.cwd()}/net.py:3: y = x")
    texts = json.loads(to_json(report({}, cell("a", "Net", comparison)).page()))["texts"]
    assert "net.py:3: y = x" in texts


def test_jinja_is_imported_only_to_write_a_page() -> None:
    code = "import cellbridge.parity.cli, cellbridge.parity.report.report, sys; print('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


MODEL = """
import torch

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()
    @staticmethod
    def backward(ctx, grad):
        return grad * {factor}

class Net(torch.nn.Module):
    def forward(self, x):
        return Wrong.apply(x)

model = Net()
inputs = (torch.linspace(-1, 1, 6),)
"""


def test_a_failing_run_ends_with_the_command_for_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my net.py").write_text(MODEL.format(factor=2))
    done = CliRunner().invoke(main, ["run", "my net.py", "--seed", "3"])
    assert done.exit_code == 1
    assert done.output.endswith("\nto look at it: parity run 'my net.py' --seed 3 --html report.html\n")
    done = CliRunner().invoke(main, ["run", "--", "my net.py"])
    assert done.output.endswith("\nto look at it: parity run --html report.html -- 'my net.py'\n")
    done = CliRunner().invoke(main, ["run", "my net.py", "--html", "report.html"])
    assert done.exit_code == 1
    assert "to look at it" not in done.output
    assert "Parity fails in 1 Cell" in Path("report.html").read_text()


def test_a_page_that_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL.format(factor=2))
    done = CliRunner().invoke(main, ["run", str(tmp_path / "net.py"), "--html", str(tmp_path / "absent" / "r.html")])
    assert done.exit_code == 2
    assert "there is no folder" in done.output
    done = CliRunner().invoke(main, ["run", str(tmp_path / "net.py"), "--html", str(tmp_path / "net.py")])
    assert done.exit_code == 2
    assert "give --html another name" in done.output


def test_training_has_a_chart_for_each_quantity_and_a_row_for_each_tensor() -> None:
    comparisons = [
        passing(side="cell", kind=kind, tensor=tensor, call=step, reference_value=0.5 / step, ratio=step)
        for step in (1, 2, 3)
        for kind, tensor in (("loss", "the loss"), ("parameter", "fc.weight"))
    ]
    comparisons.append(failing(side="cell", kind="parameter", tensor="fc.bias", call=2))
    page = TrainingReport("Net", ["cell"], "float32", 3, "adamw", comparisons, explanations=["another eps"]).page()
    assert [row.path for row in page.rows] == ["loss", "parameters", "parameters/fc.weight", "parameters/fc.bias"]
    assert [chart.title for chart in page.charts] == ["loss", "error of the loss", "error of the parameters"]
    assert [chart.differing for chart in page.charts] == [None, None, 2]
    assert page.charts[0].curves[0].values == [0.5, 0.25, 0.5 / 3]
    assert page.charts[2].curves[0].values == pytest.approx([0.1, 3.2e5, 0.3])
    (fault,) = page.faults
    assert (fault.path, fault.explanations) == ("parameters/fc.bias", ["another eps"])
    assert ("Differs", "from step 2 on, first in the parameters") in page.facts


def test_trainings_without_a_step_have_a_page() -> None:
    page = TrainingReport("Net", ["cell"], "float32", 0, problems=["cell made 0 steps"]).page()
    assert page.verdict == "No step was compared, so training parity is not shown"
    assert "cell made 0 steps" in to_html(page)


def test_numbers_are_those_of_the_terminal() -> None:
    """One unit everywhere: a reader compares the page with the log of the run."""
    pairs = [passing(ratio=2.06), failing(check="meaning"), failing(check="rounding", ratio=41.0)]
    data = Parsed(to_html(report({"": "Net"}, *(cell(f"a{i}", "Net", c) for i, c in enumerate(pairs))).page())).data
    words = {data["texts"][row[0]]: {data["texts"][number] for number in row[15]} for row in data["rows"]}
    expected = ("2.1×", "≠ 1.3×", "41×")
    assert all(of_terminal in words[f"a{i}"] for i, of_terminal in enumerate(expected))


def test_the_side_that_fails_comes_first() -> None:
    """Where a Cell is open, the table has room for few columns."""
    both = cell("a", "Net", passing(side="interpreter"), failing(side="onnxruntime"))
    data = Parsed(to_html(report({"": "Net"}, both, sides=["interpreter", "onnxruntime"]).page())).data
    assert list(dict.fromkeys(side for side, _ in data["columns"])) == ["onnxruntime", "interpreter"]
