"""The HTML page in a real browser: keys, search, order, print, contrast, and names that would run as code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cellbridge.parity.report.base import BaseReport
from cellbridge.parity.report.html.data import MAX_GRAPHS
from cellbridge.parity.report.html.page import fraction_of_bar
from cellbridge.parity.results.cause import Cause
from cellbridge.parity.results.cell_graph import CellGraph, GraphNode
from cellbridge.parity.results.hunk import CodeLine, Hunk
from cellbridge.parity.verdicts.error_maps import error_map
from tests.parity.hostile import PAYLOADS
from tests.parity.html.browser import COMMAND
from tests.parity.html.pages import CONTRASTS, LARGE, Opened, training_report
from tests.parity.html.test_page import FAULTY, GRAPH, hostile_cell
from tests.parity.reports import CONVNET, cell, failing, passing, report

pytestmark = pytest.mark.skipif(COMMAND is None, reason="there is no Chromium")

SHOWN = "[...document.querySelectorAll('.rows .row')].sort((a, b) => a.dataset.place - b.dataset.place)"
LABELS = f"{SHOWN}.map(row => row.querySelector('.label-of-row').textContent)"


def test_failures_are_expanded_and_what_passes_is_collapsed(opened: Opened) -> None:
    page = opened(FAULTY)
    labels = page.run(LABELS)
    assert labels == ["(root)", "stem", "blocks", "0", "1", "norm", "act", "head"]
    expanded = page.run(f"{SHOWN}.map(row => row.getAttribute('aria-expanded'))")
    assert expanded == ["true", None, "true", "false", "true", None, None, None]


def test_on_a_phone_what_fails_stands_first(opened: Opened) -> None:
    page = opened(FAULTY, width=390, height=844)
    top = "document.querySelector('.fault h3').getBoundingClientRect().top"
    facts = "document.querySelector('.facts').checkVisibility()"
    assert page.run(top) < 300
    assert not page.run(facts)
    page.click("#about summary")
    assert page.run(facts)
    page.click("#about summary")
    page.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
    page.run("new Promise(requestAnimationFrame)")
    assert page.run(facts), "a wide window has no line to unfold them"


def test_only_rows_in_sight_have_elements(opened: Opened) -> None:
    page = opened(LARGE)
    assert page.run("document.querySelectorAll('.rows .row').length") < 80
    assert page.run("document.querySelectorAll('*').length") < 1500
    assert page.run("document.getElementById('tree').getAttribute('aria-rowcount')") > "500"
    page.run("document.getElementById('tree').scrollTop = 1e6")
    page.run("new Promise(requestAnimationFrame)")
    assert page.run(LABELS)[-1] == "head"
    assert page.run("document.querySelectorAll('.rows .row').length") < 80


def test_five_thousand_cells_are_searched_and_sorted_in_a_moment(opened: Opened) -> None:
    page = opened(LARGE)
    milliseconds = page.run(
        "(() => { const start = performance.now(); state.query = 'norm'; update(); sortBy(0);"
        " state.query = ''; update(); return performance.now() - start; })()"
    )
    assert milliseconds < 1000
    assert page.run(LABELS)[0] == "layers.150.norm1"


def test_keys(opened: Opened) -> None:
    page = opened(FAULTY)
    active = "document.activeElement.querySelector('.label-of-row')?.textContent ?? document.activeElement.id"
    page.run("document.querySelector('.rows .row').focus()")
    page.press("ArrowDown", "ArrowDown")
    assert page.run(active) == "blocks"
    page.press("ArrowLeft")
    assert page.run(LABELS) == ["(root)", "stem", "blocks", "head"]
    assert page.run(active) == "blocks"
    page.press("ArrowRight", "ArrowRight", "End")
    assert page.run(active) == "head"
    page.press("Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Enter")
    assert page.run(active) == "detail"
    assert page.run("location.hash") == "#cell=blocks.1.norm"
    assert page.run("document.querySelector('#detail h3').textContent") == "blocks.1.norm"
    page.press("Escape")
    assert page.run("document.getElementById('detail').hidden")
    assert page.run(active) == "norm"
    page.press("/")
    assert page.run(active) == "search"
    assert page.run("document.getElementById('search').value") == ""
    page.press("g", "e", "l", "u")
    assert page.run(LABELS) == ["blocks.0.act", "blocks.1.act"]
    assert page.run("document.getElementById('count').textContent") == "2 of 10 Cells"
    page.press("ArrowDown")
    assert page.run(active) == "blocks.0.act"
    outline = page.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_columns_are_sorted(opened: Opened) -> None:
    page = opened(FAULTY)
    sorting = "[...document.querySelectorAll('[role=columnheader]')].map(e => e.getAttribute('aria-sort'))"
    page.click(".head .value button")
    assert page.run(sorting)[2] == "descending"
    assert page.run(LABELS)[:2] == ["(root)", "blocks.1.norm"]
    page.click(".head .value button")
    assert page.run(sorting)[2] == "ascending"
    assert page.run(LABELS)[-1] == "blocks.1.norm"
    page.click(".head .value button")
    assert page.run(sorting)[2] == "none"
    assert page.run(LABELS)[1] == "stem"


def test_filters(opened: Opened) -> None:
    page = opened(FAULTY)
    page.click("[data-filter=failing]")
    assert page.run(LABELS) == ["blocks.1.norm"]
    page.click("[data-filter=affected]")
    assert page.run(LABELS) == ["(root)", "blocks.1.norm"]
    page.click("[data-filter=all]")
    assert len(page.run(LABELS)) == 8


def test_an_address_leads_to_a_cell(opened: Opened) -> None:
    page = opened(LARGE, fragment="#cell=layers.300.norm1")
    assert page.run("document.querySelector('#detail h3').textContent") == "layers.300.norm1"
    assert page.run(f"{SHOWN}.filter(row => row.ariaSelected === 'true').length") == 1
    page = opened(FAULTY)
    page.click(".fault h3 a")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run("document.querySelector('#detail h3').textContent") == "blocks.1.norm"


def test_a_cell_is_told_with_causes_values_and_bars(opened: Opened) -> None:
    page = opened(FAULTY, fragment="#cell=blocks.1.norm")
    text = page.run("document.getElementById('detail').innerText")
    for part in (
        "✗ fails", "eps is 0.001 in the candidate", "LayerNorm(4, eps=1e-05)", "not the same function",
        "up to 1e-9 passes", "Values at the worst element, [1, 2]", "0.75032",
        "net.py:12: return self.norm(x)",
    ):  # fmt: skip
        assert part in text
    assert page.run("document.querySelectorAll('#detail .error-bar').length") == 7
    assert page.run("document.querySelectorAll('#detail rect.beyond').length") == 2
    assert page.run("document.querySelectorAll('#detail details[open]').length") == 2


def test_a_row_has_the_lines_of_both_sides(opened: Opened) -> None:
    reference_line, candidate_line = (
        CodeLine("library.py", 66, "y = gelu(x, 'tanh')"),
        CodeLine("port.py", 7, "y = gelu(x)"),
    )
    cause = Cause("attribute", "gelu is another one", hunk=Hunk((reference_line,), (candidate_line,)))
    wrong = failing(source="port.py:7: y = gelu(x)")
    page = opened(
        report(
            {"": "Net"},
            cell("first", "GELU", wrong, causes=[cause]),
            cell("second", "GELU", wrong, hunk=Hunk((reference_line,), (candidate_line,))),
            cell("third", "GELU", wrong, hunk=Hunk((), (candidate_line,))),
        )
    )
    sides = (
        "[...document.querySelectorAll('#detail .side')].map(side => [side.querySelector('.label').textContent,"
        " ...[...side.querySelectorAll('.file, td')].map(line => line.textContent)])"
    )
    first = [["torch", "library.py", "66", "y = gelu(x, 'tanh')"], ["interpreter", "port.py", "7", "y = gelu(x)"]]
    last = [["torch", "no line is known"], ["interpreter", "port.py", "7", "y = gelu(x)"]]
    for path, expected in (("first", first), ("second", first), ("third", last)):
        page.run(f"location.hash = '#cell={path}'; follow();")
        assert page.run(sides) == expected
    page.run("location.hash = '#cell=first'; follow();")
    assert page.run("[...document.querySelectorAll('#detail mark')].map(mark => mark.textContent)") == [",", "'tanh'"]
    left, right = page.run(
        "[...document.querySelectorAll('#detail .side')].map(side => side.getBoundingClientRect().x)"
    )
    assert left < right
    assert page.run(CONTRASTS) == []


def test_where_a_tensor_is_wrong_is_drawn_along_axes_of_choice(opened: Opened) -> None:
    truth = np.zeros((4, 8, 3))
    wrong = truth.copy()
    wrong[:, 5, :] = 1.0
    errors = error_map(wrong, truth, truth, 1e-9, (0, 5, 0))
    comparison = failing(shape=(4, 8, 3), index=(0, 5, 0), error_map=errors)
    page = opened(report({"": "Net"}, cell("a", "Net", comparison)), fragment="#cell=a")
    assert page.run("document.querySelectorAll('.picture rect').length") == 8 * 3
    label = "document.querySelector('.picture svg').getAttribute('aria-label')"
    assert page.run(label) == "errors along axes 1 (8, down) and 2 (3, across); the largest at 5, 0"
    page.run(
        "const s = document.querySelector('.picture select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change'))"
    )
    assert page.run(label) == "errors along axes 0 (4, down) and 1 (8, across); the largest at 0, 5"
    counts = page.run("[...document.querySelectorAll('.histogram .count')].map(cell => cell.textContent)")
    assert counts == ["84", "0", "0", "0", "0", "0", "0", "12"]
    assert page.run("document.querySelectorAll('.window td.different').length") == 3
    assert page.run(CONTRASTS) == []


def test_the_program_of_a_cell_is_drawn_with_what_differs_marked(opened: Opened) -> None:
    page = opened(FAULTY, fragment="#cell=blocks.1.norm")
    nodes = "[...document.querySelectorAll('.node')]"
    assert page.run(f"{nodes}.map(n => n.querySelector('.title').textContent)") == [
        "input x", "parameter weight", "layer_norm", "tanh", "output output",
    ]  # fmt: skip
    assert page.run(f"{nodes}.map(n => n.matches('.is-different'))") == [False, False, True, True, False]
    assert page.run("document.querySelectorAll('.edge').length") == 5
    assert page.run("document.querySelectorAll('.edge.is-added').length") == 2
    assert "eps=1e-05, in the candidate 0.001" in page.run("document.querySelector('.canvas').ariaLabel")
    within = "(c => c.scrollLeft + c.clientWidth >= 0 && c.tabIndex)(document.querySelector('.canvas'))"
    assert page.run(within) == 0


def test_nodes_of_a_large_program_do_not_overlap(opened: Opened) -> None:
    nodes = [GraphNode("input", f"x{i}", "float64[2]") for i in range(4)]
    nodes += [GraphNode("op", f"op{i}", "float64[2]", ((7 * i) % (i + 4), i + 3)) for i in range(55)]
    page = opened(report({"": "Net"}, cell("a", "Net", failing(), graph=CellGraph((*nodes,), 900))), fragment="#cell=a")
    overlaps = page.run(
        "(() => { const boxes = [...document.querySelectorAll('.node rect')].map(r => r.getBoundingClientRect());"
        " return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => a.left < b.right && b.left < a.right"
        " && a.top < b.bottom && b.top < a.bottom)).length; })()"
    )
    assert overlaps == 0
    assert page.run("document.querySelectorAll('.node').length") == 59
    assert "900 more aren't drawn" in page.run("document.querySelector('.graph figcaption').innerText")
    page = opened(report({"": "Net"}, cell("a", "Net", failing(), graph=CellGraph((), 900))), fragment="#cell=a")
    assert "900 nodes, which are too many" in page.run("document.getElementById('detail').innerText")


def test_of_very_many_failing_cells_some_programs_are_left_out(opened: Opened) -> None:
    cells = [cell(f"a{i}", "Net", failing(), graph=GRAPH) for i in range(MAX_GRAPHS + 1)]
    page = opened(report({"": "Net"}, *cells), fragment=f"#cell=a{MAX_GRAPHS - 1}")
    assert page.run("document.querySelectorAll('#detail .node').length") == len(GRAPH.nodes)
    page.run(f"show(rowOfPath.get('a{MAX_GRAPHS}'))")
    assert page.run("document.querySelectorAll('#detail .node').length") == 0
    assert "the JSON report has it" in page.run("document.getElementById('detail').innerText")


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read(opened: Opened, dark: bool) -> None:
    ratios = [0.05, 0.5, 3, 8, 50, 5e3, 5e6, 5e8]
    cells = [cell(f"a{i}", "Net", passing(ratio=r) if r < 10 else failing(ratio=r)) for i, r in enumerate(ratios)]
    every = report({"": "Net"}, *cells, notes=["a note"])
    assert opened(every, dark=dark, fragment="#cell=a7").run(CONTRASTS) == []
    page = opened(FAULTY, dark=dark)
    page.run("document.querySelector('.row.is-failing').focus()")
    assert page.run(CONTRASTS) == []
    assert opened(FAULTY, dark=dark, fragment="#cell=blocks.1.norm").run(CONTRASTS) == []
    assert opened(training_report(), dark=dark).run(CONTRASTS) == []


@pytest.mark.parametrize("of", [FAULTY, training_report()], ids=["network", "training"])
def test_a_narrow_window_has_no_overflow(opened: Opened, of: BaseReport) -> None:
    page = opened(of, width=360, height=700)
    assert page.run("document.documentElement.scrollWidth") == 360
    page.run("show(rows[0])")
    assert page.run("document.documentElement.scrollWidth") == 360
    assert page.run("document.getElementById('detail').scrollWidth") <= 360


def test_print_has_everything_that_fails(opened: Opened, tmp_path: Path) -> None:
    page = opened(LARGE)
    page.print(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    text = page.run("document.getElementById('print').innerText")
    page.call("Emulation.setEmulatedMedia", media="")
    assert [path for path in LARGE.failing if f"{path}\n" not in text] == []
    assert text.count("not the same function") == len(LARGE.failing)
    assert "(root)" in text
    page.run("window.dispatchEvent(new Event('afterprint'))")
    assert page.run("document.getElementById('print').childElementCount") == 0


def test_roles(opened: Opened) -> None:
    page = opened(FAULTY)
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
    assert {"treegrid", "columnheader", "rowheader", "gridcell", "searchbox", "search"} <= set(roles)
    named = [node for node in nodes if node.get("role", {}).get("value") in ("treegrid", "button", "searchbox")]
    assert [node for node in named if not node.get("name", {}).get("value")] == []
    headers = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "columnheader"]
    assert headers == [
        "Cell", "verdict", "interpreter outputs", "interpreter input gradients", "interpreter buffers",
        "onnxruntime outputs",
    ]  # fmt: skip


def test_hostile_names_are_shown_and_do_nothing(opened: Opened) -> None:
    scripts = ["</script><script>window.OWNED = 1</script>", "<img src=x onerror='window.OWNED = 1'>"]
    names = [*dict.fromkeys(name or "empty" for name in PAYLOADS), *scripts]
    of = report({"": "Net"}, *(hostile_cell(f"{number}/{name}", name) for number, name in enumerate(names)))
    of.notes, of.model = names, " ".join(names)
    page = opened(of)
    page.run("for (const row of rows) show(row); window.dispatchEvent(new Event('beforeprint'))")
    assert page.run("window.OWNED") is None
    assert page.run("document.querySelectorAll('script').length") == 2
    wrong = page.run(
        "rows.filter(row => { location.hash = '#cell=' + encodeURIComponent(row.path); follow();"
        " return document.querySelector('#detail h3').textContent !== row.path; }).map(row => row.path)"
    )
    assert wrong == []
    titles = page.run("[...document.querySelectorAll('.fault h3')].map(e => e.textContent)")
    assert len(titles) == 40
    assert any("\\u202edrowssap" in title for title in titles)


def test_the_policy_forbids_other_code(opened: Opened) -> None:
    page = opened(report(CONVNET))
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.OWNED = 1\">')")
    page.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.OWNED = 1'}))")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run("window.OWNED") is None
    assert any("Content Security Policy" in text for text in page.complaints)
    page.complaints.clear()


def test_training_is_drawn_step_by_step(opened: Opened) -> None:
    page = opened(training_report())
    captions = page.run("[...document.querySelectorAll('figcaption strong')].map(e => e.textContent)")
    assert captions == ["loss", "error of the loss", "error of the gradients", "error of the parameters"]
    marks = page.run("[...document.querySelectorAll('.differing-label')].map(e => e.textContent)")
    assert marks == ["differs at step 3"]
    assert page.run("document.querySelectorAll('.chart:first-child .point').length") == 2 * 6
    page.click(".fault h3 a")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run("document.querySelector('#detail h3').textContent") == "parameters/fc.bias"
    assert page.run("document.querySelectorAll('#detail .comparison.failed').length") == 4


def test_a_quantizer_is_told_in_its_steps(opened: Opened) -> None:
    far = failing(check="quantization", kind="quantizer", tensor="q", ratio=3.2, allowed=0.5, bar=0.01)
    page = opened(report({}, cell("", "Net", far)), fragment="#cell=(root)")
    text = page.run("document.getElementById('detail').innerText")
    assert "up to 0.50 steps pass" in text
    assert "3.2 steps of its quantizer" in text


def test_an_error_that_steps_explain_has_a_bar_and_the_steps_have_none(opened: Opened) -> None:
    explained = failing(
        check="quantization", kind="quantization error", tensor="q", ratio=6.0, allowed=3.0, bar=0.02, error=0.04
    )
    steps = failing(check="quantization", kind="quantizer", tensor="q", ratio=7.5, allowed=0.0, bar=0.01)
    passing_steps = replace(steps, status="pass", reason="")
    page = opened(report({}, cell("", "Net", explained, passing_steps)), fragment="#cell=(root)")
    text = page.run("document.getElementById('detail').innerText")
    assert "6.0× what rounding to the steps of its quantizers makes" in text
    assert "up to 0.02 passes" in text
    assert "7.5 steps" in text
    assert fraction_of_bar(explained) == 2.0
    assert fraction_of_bar(passing_steps) is None
    assert fraction_of_bar(steps) == 7.5
