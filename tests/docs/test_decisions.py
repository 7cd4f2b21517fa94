"""Each decision has a date, a reason, and one place."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "decisions").glob("*.md"))
FORM = re.compile(r"\n\n\*(\d{4}-\d\d-\d\d)\*((?:, `[\w/.]+`)*)\n\n(?!\*\*Rejected)\S")


def decisions(text: str) -> dict[str, str]:
    """What follows each heading, by heading."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def misshapen(text: str) -> list[str]:
    """The decisions without a date and reason, with a file that is gone, or with a full stop behind the heading."""
    headings = []
    for heading, body in decisions(text).items():
        form = FORM.match(body)
        files = re.findall(r"`(.+?)`", form[2]) if form else []
        wrong = form is None or date.fromisoformat(form[1]) < date(2026, 1, 1)
        if wrong or heading.endswith(".") or not all((DOCS.parent / file).exists() for file in files):
            headings.append(heading)
    return headings


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_form(page: Path) -> None:
    assert misshapen(page.read_text()) == []
    assert len(decisions(page.read_text())) >= 3


def test_a_decision_stands_once() -> None:
    headings = Counter(heading for page in PAGES for heading in decisions(page.read_text()))
    assert [heading for heading, count in headings.items() if count > 1] == []


def test_every_theme_is_listed() -> None:
    assert set(re.findall(r"^decisions/(\w+)$", (DOCS / "decisions.md").read_text(), re.MULTILINE)) == {
        page.stem for page in PAGES
    }


@pytest.mark.parametrize(
    "body",
    [
        "\n\nNo date.",
        "\n\n*2026-11-23*\n\n**Rejected:** all.",
        "\n\n*2026-11-23*\nNo empty line.",
        "\n\n*2026-11-23*, `no/such.py`\n\nWhy.",
    ],
)
def test_a_wrong_form_is_found(body: str) -> None:
    assert misshapen(f"## A decision{body}") == ["A decision"]
