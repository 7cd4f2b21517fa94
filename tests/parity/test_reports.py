"""The views for machines, JSON and JUnit XML, and how files are written."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cellbridge.parity.report import junit
from cellbridge.parity.report.formats import FORMATS
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.cell_report import CellReport
from cellbridge.parity.results.comparison import INLINED, NOT_COMPARED, NOT_REACHED, SCHEMA_VERSION, SKIPPED, Comparison
from cellbridge.parity.support import files
from cellbridge.runtime.errors import UsageError
from tests.parity.reports import CONVNET, cell, failing, passing, report, without_comparisons

ROOT = Path(__file__).parents[2]
FAULTY = report(
    CONVNET,
    cell("", "ConvNet", failing(feeding="end to end", side="onnxruntime")),
    cell("head", "Linear", failing(ratio=math.inf, candidate_value=math.nan)),
    without_comparisons("blocks.1.act", "GELU", NOT_REACHED),
    without_comparisons("blocks.0.act", "GELU", SKIPPED),
    without_comparisons("blocks.0.norm", "BatchNorm2d", INLINED),
)


def test_json_is_the_report(tmp_path: Path) -> None:
    FORMATS["json"].write(FAULTY, str(tmp_path / "report.json"))
    text = (tmp_path / "report.json").read_text()
    assert json.loads(text) == FAULTY.to_dict()
    assert "NaN" not in text  # which strict JSON parsers refuse
    assert "Infinity" not in text
    assert text.endswith("}\n")


def test_json_of_values_that_are_not_finite() -> None:
    (failure,) = [c for c in FAULTY.to_dict()["cells"][-1]["comparisons"] if c["status"] == "fail"]
    assert (failure["ratio"], failure["candidate_value"]) == ("inf", "nan")


def documented(heading: str) -> set[str]:
    """The fields in the table under a heading of the schema's page."""
    page = (ROOT / "docs" / "report-schema.md").read_text()
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_field_is_documented() -> None:
    written = FAULTY.to_dict()
    assert documented("The report") == set(written)
    assert documented("A Cell") == set(written["cells"][0])
    assert documented("A comparison") == set(written["cells"][0]["comparisons"][0])
    assert {field.name for field in fields(Comparison)} - {"error_map"} == documented("A comparison")


def test_the_version_is_documented() -> None:
    assert f"version {SCHEMA_VERSION}" in (ROOT / "docs" / "report-schema.md").read_text().splitlines()[0]


def cases(of: Report) -> dict[str, ElementTree.Element]:
    return {case.get("name", ""): case for case in junit.to_xml(of).iter("testcase")}


def test_junit_has_a_case_for_each_cell_and_side() -> None:
    test_cases = cases(FAULTY)
    assert len(test_cases) == 2 * len(CONVNET)
    assert {"(root)[interpreter]", "blocks.1.norm[onnxruntime]"} <= set(test_cases)
    assert len(test_cases["stem[interpreter]"]) == 0
    assert test_cases["stem[interpreter]"].get("classname") == "net.py"


def test_junit_has_the_detail_of_a_failure() -> None:
    (failure,) = cases(FAULTY)["head[interpreter]"]
    assert (failure.tag, failure.get("type")) == ("failure", "fail")
    assert failure.get("message") == "1 of 4 comparisons: output output: not the same function"
    assert "worst at [1, 2]" in (failure.text or "")
    assert len(cases(FAULTY)["head[onnxruntime]"]) == 0


def test_junit_counts_what_could_not_be_compared_as_a_failure() -> None:
    lost = failing(status=NOT_COMPARED, reason="no counterpart", index=None)
    (failure,) = cases(report(CONVNET, cell("head", "Linear", lost)))["head[interpreter]"]
    assert (failure.tag, failure.get("type")) == ("failure", "not compared")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("blocks.1.act[interpreter]", "never reached by the inputs"),
        ("blocks.0.act[interpreter]", "left out by --only or --skip"),
        ("blocks.0.norm[onnxruntime]", "never called itself"),
        ("(root)[onnxruntime]", "differs end to end only, because of head"),
    ],
)
def test_junit_says_why_there_is_no_verdict(name: str, message: str) -> None:
    (skipped,) = cases(FAULTY)[name]
    assert skipped.tag == "skipped"
    assert skipped.get("message", "").startswith(message)


def test_junit_does_not_pass_a_side_that_was_not_compared() -> None:
    alone = CellReport("head", "Linear", comparisons=[passing()])
    (skipped,) = cases(report(CONVNET, alone))["head[onnxruntime]"]
    assert skipped.get("message") == "nothing of it was compared on the onnxruntime side"


def test_junit_counts() -> None:
    suites = junit.to_xml(FAULTY)
    for element in (suites, suites[0]):
        assert [element.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["20", "1", "0", "7"]


def test_junit_is_well_formed_whatever_it_holds(tmp_path: Path) -> None:
    nasty = failing(reason="<&> \x00\x1b\ud800 'größe'", source="net.py:1: x = '\x0c'")
    junit.write(report(CONVNET, cell("head", "Linear", nasty), model="a & b.py"), tmp_path / "report.xml")
    root = ElementTree.parse(tmp_path / "report.xml").getroot()
    (failure,) = root.iter("failure")
    assert "<&> ??? 'größe'" in (failure.text or "")
    assert root[0].get("name") == "a & b.py"


# --- files ---------------------------------------------------------------------------------------------------------


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    with files.atomic_path(tmp_path / "a.txt") as file:
        file.write_text("new")
        assert names(tmp_path) != ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_file_is_left_alone_when_interrupted(tmp_path: Path, interruption: type[BaseException]) -> None:
    (tmp_path / "a.txt").write_text("old")

    def write() -> None:
        with files.atomic_path(tmp_path / "a.txt") as file:
            file.write_text("ne")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_second_file_beside_it_comes_along(tmp_path: Path) -> None:
    with files.atomic_path(tmp_path / "model.onnx") as file:
        file.write_text("model")
        file.with_name("model.onnx.data").write_text("tensors")
    assert names(tmp_path) == ["model.onnx", "model.onnx.data"]


def test_a_writer_that_writes_nothing_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nothing was written"), files.atomic_path(tmp_path / "a.txt"):
        pass


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.txt").symlink_to("there/a.txt")
    files.write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "there" / "a.txt").read_text() == "new"


def test_the_mode_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch(mode=0o600)
    files.write_text(tmp_path / "a.txt", "new")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o600


def test_a_device_is_written_to_and_stays_one() -> None:
    files.require_writable("/dev/null")
    files.write_text("/dev/null", "new")
    assert not Path("/dev/null").is_file()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, message in (
        (tmp_path, "it is a folder; give the name of a file"),
        (tmp_path / "absent" / "a.txt", f"there is no folder {tmp_path / 'absent'}; create it first"),
        (tmp_path / "file" / "a.txt", f"there is no folder {tmp_path / 'file'}; create it first"),
        (tmp_path / ("a" * 300), "File name too long"),
    ):
        with pytest.raises(UsageError, match=re.escape(f"can't write {path}: {message}")):
            files.require_writable(path)
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        files.require_writable(tmp_path / "folder" / "a.txt")


def test_an_error_while_writing_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match="No space left on device"):
        files.write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == []


def test_require_writable_leaves_nothing(tmp_path: Path) -> None:
    files.require_writable(tmp_path / "a.txt")
    assert names(tmp_path) == []
