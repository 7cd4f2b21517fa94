"""The overview of several comparisons, and `parity run` with several models, which writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main
from cellbridge.parity.report.html import overview
from cellbridge.parity.report.html.overview import Summary, page_name
from cellbridge.parity.results.origin import Origin
from tests.parity.hostile import PAYLOADS
from tests.parity.html.browser import COMMAND, browser
from tests.parity.html.test_in_browser import CONTRASTS
from tests.parity.html.test_page import CAUSE, FAULTY, Parsed
from tests.parity.models import WRONG_BACKWARD
from tests.parity.reports import CONVNET, cell, failing, report

MODEL = "import torch\n\ndef model():\n    return torch.nn.Tanh()\n\ndef inputs():\n    return (torch.randn(2, 3),)\n"
FAILING = f"""{WRONG_BACKWARD}
class Net(torch.nn.Module):
    def forward(self, x):
        return Doubled.apply(x)
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that is sound, one that fails, and one that can't be judged; the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text(MODEL)
    Path("wrong.py").write_text(MODEL.replace("torch.nn.Tanh", "Net") + FAILING)
    Path("broken.py").write_text(MODEL.replace("(torch.randn(2, 3),)", "3"))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


def test_a_page_on_each_model_and_an_overview_are_written(models: Path) -> None:
    done = run("good.py", "wrong.py", "broken.py", "good.py", "--html", "new/pages")
    assert done.exit_code == 1, done.output
    folder = models / "new" / "pages"
    names = {path.name for path in folder.iterdir()}
    assert names == {"index.html", "good.py.html", "good.py-2.html", "wrong.py.html"}
    text = (folder / "index.html").read_text()
    assert "1 fails, 1 couldn&#39;t be judged, 2 hold" in text
    links = [attributes["href"] for tag, attributes in Parsed(text).tags if tag == "a"]
    assert links == ["wrong.py.html", "good.py.html", "good.py-2.html"]
    assert "Parity fails" in (folder / "wrong.py.html").read_text()
    assert "Parity holds" in (folder / "good.py.html").read_text()
    assert "inputs() must return a tuple" in text
    assert "1 of 1 Cell" in text
    assert done.output.index("1 of 4: good.py") < done.output.index("2 of 4: wrong.py")
    assert "\n✗ wrong.py: Parity fails" in done.output
    assert "to look at it" not in done.output


@pytest.mark.parametrize(
    ("given", "code"), [(("good.py", "good.py"), 0), (("good.py", "broken.py"), 2), (("broken.py", "wrong.py"), 1)]
)
def test_the_exit_code_is_the_worst(models: Path, given: tuple[str, ...], code: int) -> None:
    done = run(*given)
    assert done.exit_code == code, done.output
    command = f"to look at it: parity run {' '.join(given)} --html reports\n"
    assert (command in done.output) == (code > 0)
    assert {path.name for path in models.iterdir() if path.suffix == ".html"} == set()


@pytest.mark.parametrize("option", ["--json", "--junit", "--repro", "--save-onnx"])
def test_options_for_one_model_are_refused(models: Path, option: str) -> None:
    done = run("good.py", "good.py", option, "file")
    assert done.exit_code == 2
    assert f"{option} can't be combined with several MODELs" in done.output
    assert len(list(models.iterdir())) == 3


def test_a_folder_whose_name_is_taken(models: Path) -> None:
    done = run("good.py", "good.py", "--html", "wrong.py")
    assert done.exit_code == 2
    assert "can't write wrong.py" in done.output


def test_a_summary_names_the_first_cause_and_counts_what_fails() -> None:
    summary = Summary.of(FAULTY.page(), "net.py", 3.24, "net.html")
    assert (summary.outcome, summary.failing, summary.time) == ("fails", "1 of 10 Cells", "3.2 s")
    assert summary.cause == f"blocks.1.norm: {CAUSE.summary}"
    assert Summary.of(report(CONVNET).page(), "net.py", 300).cause == ""
    unproved = Summary.of(report(CONVNET, cell("stem", "Conv2d", failing())).page(), "net.py", 300)
    assert unproved.cause.startswith("stem: output")
    assert unproved.time == "5 min"


def test_names_of_pages_are_apart_and_stay_in_the_folder() -> None:
    taken: list[str] = []
    for name in ("a/b.py", "a.b.py", "A.B.py", "../../etc", "index", "", "x" * 500, "\u202e<b>.py"):
        taken.append(page_name(name, taken))
    assert len({name.lower() for name in taken}) == len(taken)
    assert "index.html" not in taken
    assert not any("/" in name or name.startswith(".") or len(name) > 120 for name in taken)


@pytest.mark.skipif(COMMAND is None, reason="there is no Chromium")
def test_hostile_names_are_text_and_all_can_be_read(tmp_path: Path) -> None:
    names = [*PAYLOADS, "<img src=x onerror='window.OWNED = 1'>", "</style><script>window.OWNED = 1</script>"]
    outcomes = ("holds", "fails", "unclear", "not judged")
    summaries = [Summary(name, outcomes[i % 4], name, name, name, 1.0, page_name(name)) for i, name in enumerate(names)]
    overview.write(summaries, Origin(), tmp_path)
    with browser() as page:
        for dark in (False, True):
            page.open(tmp_path / "index.html", dark=dark, width=1000)
            assert page.run(CONTRASTS) == []
        assert page.run("window.OWNED") is None
        assert page.run("document.querySelectorAll('script, img').length") == 0
        assert page.run("document.querySelectorAll('tbody tr').length") == len(names)
        assert "\\u202e" in page.run("document.body.innerText")
        page.open(tmp_path / "index.html", width=360, height=700)
        assert page.run("document.documentElement.scrollWidth") == 360
        assert page.complaints == []
