"""The lines of both sides in two columns, and what was paired how, on the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cellbridge.parity.report.html.pairing import MOST
from cellbridge.parity.report.html.side_by_side import hunk_view
from cellbridge.parity.report.html.writer import to_html
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.cause import Cause
from cellbridge.parity.results.comparison import PASSED_ON
from cellbridge.parity.results.correspondence import CarriedWeight, Correspondence, PairedCell
from cellbridge.parity.results.hunk import CodeLine, Hunk
from tests.parity.html.browser import COMMAND, Browser, browser
from tests.parity.html.pages import CONTRASTS
from tests.parity.html.test_page import Parsed
from tests.parity.reports import cell, failing, passing, report

SCRIPT = "<script>document.body.dataset.ran = 1</script>"
OURS = CodeLine("/lib/python3.11/site-packages/library/model.py", 66, f"x = gelu(x, 'tanh')  {SCRIPT}", ("gelu",))
THEIRS = CodeLine("port.py", 7, "x = gelu(x)", ("gelu",))


def with_hunks(*hunks: Hunk) -> Report:
    causes = [Cause("attribute", f"cause {number}", hunk=hunk) for number, hunk in enumerate(hunks)]
    act = f"block.{SCRIPT}"
    cells = {"": "Net", "block": "Block", act: "GELU", "block.drop": "Dropout"}
    pairs = [
        PairedCell("", "Net", "", "Port", "root"),
        PairedCell("block", "Block", "b", f"B{SCRIPT}", "values", layout="joined"),
        PairedCell(act, "GELU", "b", "B", "values", is_part=True),
    ]
    weights = [CarriedWeight("b.weight", "block.q.weight and block.k.weight", "values", "joined")]
    faulty_report = report(
        cells, cell("block", "Block", passing()), cell(act, "GELU", failing(), causes=causes),
        correspondence=Correspondence(pairs, weights), sides=["interpreter"],
    )  # fmt: skip
    faulty_report.cells["block.drop"].presence = PASSED_ON
    return faulty_report


def texts_of(page: Parsed, tag: str) -> list[str]:
    return [text.strip() for text in page.texts.get(tag, []) if text.strip()]


def test_a_hunk_has_the_lines_of_both_sides() -> None:
    page = Parsed(to_html(with_hunks(Hunk((OURS,), (THEIRS,))).page()))
    sides = [
        attributes["class"] for tag, attributes in page.tags if (attributes.get("class") or "").startswith("side ")
    ]
    assert sides == ["side minus", "side plus"]
    assert [text for text in texts_of(page, "code") if "gelu" in text] == [OURS.text, THEIRS.text]
    assert "library/model.py" in texts_of(page, "bdi")
    assert "66" in texts_of(page, "td")


def test_what_the_other_side_lacks_is_marked_where_the_lines_are_alike() -> None:
    def marked(reference: str, candidate: str) -> list[str]:
        hunk = Hunk((CodeLine("a", 1, reference),), (CodeLine("b", 2, candidate),))
        view = hunk_view(hunk, ("a", "b"), of_cause=True)
        assert view is not None
        lines = [pieces for column in view.columns for block in column.blocks for _, pieces in block.lines]
        assert ["".join(text for text, _ in pieces) for pieces in lines] == [reference, candidate]
        return ["".join(text for text, is_marked in pieces if is_marked) for pieces in lines]

    assert marked("y = gelu(x, 'tanh')", "y = gelu(x)") == [",'tanh'", ""]
    assert marked("norm(x,  eps=0.5)", "norm(x, eps=0.3)") == ["5", "3"]
    assert marked("y = gelu(x)", "return self.head[self.norm + hidden]") == ["", ""], "other code altogether"
    assert marked("x + " * 2000, "x - " * 2000) == ["", ""], "comparing very long lines takes too long"


def test_causes_in_one_place_share_a_hunk_and_one_with_the_same_lines_on_both_sides_is_one_column() -> None:
    hunk = Hunk((OURS,), (THEIRS,))
    page = Parsed(to_html(with_hunks(hunk, hunk, Hunk((THEIRS,), (THEIRS,))).page()))
    hunks = [attributes for tag, attributes in page.tags if attributes.get("class") == "hunk"]
    assert len(hunks) == 2
    assert texts_of(page, "p").count("both sides") == 1


def test_without_a_line_the_ops_stand_there() -> None:
    page = Parsed(to_html(with_hunks(Hunk((CodeLine(ops=("mul", "tanh")),), ())).page()))
    assert "mul, tanh" in texts_of(page, "code")
    assert "no line is known" in texts_of(page, "p")


def test_pairs_are_collapsed_below_their_counts() -> None:
    page = Parsed(to_html(with_hunks(Hunk((OURS,), (THEIRS,))).page()))
    assert ("details", {"class": "pairs"}) in page.tags
    assert texts_of(page, "summary")[-1] == (
        "What was paired how: 4 Cells (1 as the whole network, 1 by values (joined), 1 by values, 1 passed on), "
        "1 parameter (1 by values (joined))"
    )
    shown = texts_of(page, "bdi")
    assert "a part of b" in shown
    assert "block.q.weight and block.k.weight" in shown


def test_many_pairs_are_cut_and_counted() -> None:
    faulty_report = with_hunks(Hunk((OURS,), (THEIRS,)))
    pairs = [PairedCell(f"c{number}", "C", f"d{number}", "D", "values") for number in range(MOST)]
    faulty_report.correspondence = faulty_report.correspondence.joined(Correspondence(pairs))
    table = faulty_report.page().pairing
    assert table is not None
    assert (len(table.cells), table.left_out) == (MOST, 4)
    assert "and 4 more, which the JSON report has" in to_html(faulty_report.page())


def test_cells_paired_by_their_paths_need_no_table() -> None:
    report_by_paths = report({"": "Net"}, cell("", "Net", failing()))
    assert report_by_paths.page().pairing is None
    assert "What was paired how" not in to_html(report_by_paths.page())


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    if COMMAND is None:
        pytest.skip("there is no Chromium")
    with browser() as opened:
        yield opened


PLACES = (
    "[...document.querySelectorAll('.hunk .side')].map(e => [e.getBoundingClientRect().x, e.getBoundingClientRect().y])"
)


@pytest.mark.parametrize("dark", [False, True])
def test_two_columns_become_one_in_a_narrow_window(window: Browser, tmp_path: Path, *, dark: bool) -> None:
    long = CodeLine("port.py", 12345, "x = " + "a_name_without_a_space" * 20)
    page = tmp_path / "report.html"
    page.write_text(to_html(with_hunks(Hunk((OURS,), (long,))).page()))
    for width, is_wide in ((1200, True), (701, True), (690, False), (360, False)):
        window.open(page, width, 900, dark=dark)
        (x, y), (other_x, other_y) = window.run(PLACES)
        assert (y == other_y and other_x > x) if is_wide else (x == other_x and other_y > y)
        assert window.run("document.documentElement.scrollWidth") <= width
        window.run("document.querySelector('.pairs').open = true")
        assert window.run("document.documentElement.scrollWidth") <= width
        assert window.run(CONTRASTS) == []
    assert window.run("document.body.dataset.ran ?? ''") == ""
    assert window.complaints == []
