"""Every sample of the README and the site is run, and prints what the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cellbridge import runtime
from tests.docs.samples import PAGES, ROOT, Block, Session, WrongSample, blocks, commands_of

FAST = [page for page in PAGES if any(not block.slow for block in blocks(page))]
SLOW = [page for page in PAGES if any(block.slow for block in blocks(page))]
LONG = {"docs/explanation/judging.md", "docs/graph_mode.md", "docs/howto/deploy.md", "docs/howto/train.md"}
LONG |= {"docs/quantized.md", "fixtures/migration/README.md"}
"""Pages whose samples take longest, which only the slow tests run."""


@pytest.fixture(autouse=True)
def leave_the_mode() -> Iterator[None]:
    """Samples may choose graph mode; the tests after them run eagerly."""
    yield
    runtime.set_context(mode=runtime.PYNATIVE_MODE)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run(page: Path, folder: Path, *, slow: bool) -> None:
    session = Session(folder)
    chosen = blocks(page)
    skipped = False
    for block in chosen:
        shows = block.language == "text" and not block.remarks
        skipped = not slow and (block.slow or (skipped and shows))
        if not skipped:
            session.run(block)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if name(page) in LONG else page for page in FAST],
    ids=[name(page) for page in FAST],
)
def test_samples(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=name)
def test_all_samples(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path, slow=True)


def test_slow_samples_say_why() -> None:
    for page in SLOW:
        assert [str(block) for block in blocks(page) if block.slow and not block.remarks["slow"]] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint('a')\n```\n\n```text\nb\n```\n", "which isn't"),
        ("```python\nprint('a\\nb')\n```\n\n```text\nb\n...\na\n```\n", "which isn't"),
        ("    parity run absent.py\n", "needed exit code 0, got 2"),
        ("<!-- sample: raises ValueError -->\n```python\n1\n```\n", "nothing was raised"),
        ("<!-- sample: raises KeyError -->\n```python\n1\n```\n", "not KeyError"),
        ("<!-- sample: quote README.md -->\n```python\nimport absent_from_the_readme\n```\n", "which isn't"),
        ("<!-- sample: covered by tests/docs/test_samples.py::test_absent -->\n```sh\nls\n```\n", "there is no test"),
        ("```perl\n1\n```\n", "nobody runs"),
    ],
)
def test_a_wrong_sample_is_found(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.samples.ROOT", tmp_path)
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "README.md").write_text("# A page\n")
    (tmp_path / "tests" / "docs").mkdir(parents=True)
    (tmp_path / "tests" / "docs" / "test_samples.py").write_text("def test_something():\n    pass\n")
    page = tmp_path / "planted.md"
    page.write_text(text)
    (tmp_path / "work").mkdir()
    with pytest.raises(WrongSample, match=message):
        run(page, tmp_path / "work", slow=False)


@pytest.mark.parametrize("remark", ["", "<!-- sample: raises ValueError -->\n"])
def test_an_exception_that_is_not_announced_ends_the_test(
    remark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.docs.samples.ROOT", tmp_path)
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "work").mkdir()
    page = tmp_path / "planted.md"
    page.write_text(f"{remark}```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError):
        run(page, tmp_path / "work", slow=False)


def test_a_remark_belongs_to_a_block(tmp_path: Path) -> None:
    page = tmp_path / "planted.md"
    page.write_text("<!-- sample: exits 1 -->\nA sentence.\n")
    with pytest.raises(WrongSample, match="right in front"):
        blocks(page)


def test_commands_lose_their_comments() -> None:
    assert commands_of("parity run a.py   # a remark\n# nothing\nparity run \\\n  b.py\n") == [
        "parity run a.py",
        "parity run b.py",
    ]


def test_blocks_know_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "planted.md"
    page.write_text("# A\n\n```python\nx = 1\n```\n\n    parity run a.py\n    parity run b.py\n\n    key: value\n")
    triples = [(block.line, block.language, block.text) for block in blocks(page)]
    assert triples == [(4, "python", "x = 1"), (7, "sh", "parity run a.py\nparity run b.py")]
    assert isinstance(blocks(page)[0], Block)
