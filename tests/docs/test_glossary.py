"""The glossary has the terms that code and pages use, and pages use no deprecated synonym."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.samples import PAGES, ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"


def rows(text: str) -> list[tuple[str, str]]:
    """The first two columns of the tables, without headings."""
    pairs = re.findall(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)
    return [(first, second) for first, second in pairs if set(first) != {"-"} and first not in ("Term", "Don't write")]


TERMS, SYNONYMS = (rows(part) for part in GLOSSARY.read_text().split("## Deprecated synonyms"))


def mentions(term: str, text: str) -> bool:
    """Whether a text has a term, in the singular or plural; line breaks count as spaces."""
    pattern = re.escape(term).replace(r"\ ", r"\s+")
    return re.search(rf"\b{pattern}(s|es)?\b", text, re.IGNORECASE) is not None


def sources() -> list[str]:
    return [file.read_text() for room in ("runtime", "converter", "parity") for file in (ROOT / room).rglob("*.py")]


def pages() -> dict[Path, str]:
    return {page: page.read_text() for page in [*PAGES, ROOT / "CHANGELOG.md"] if page != GLOSSARY}


def test_every_term_is_used_in_code_and_pages() -> None:
    code, text = "\n".join(sources()), "\n".join(pages().values())
    assert [term for term, _ in TERMS if not mentions(term, code)] == []
    assert [term for term, _ in TERMS if not mentions(term, text)] == []


def test_no_page_uses_a_deprecated_synonym() -> None:
    deprecated_uses = [
        f"{page.relative_to(ROOT)}: {synonym}, write {term}"
        for page, text in pages().items()
        for synonym, term in SYNONYMS
        if mentions(synonym, text)
    ]
    assert deprecated_uses == []


def test_a_term_is_explained_once_and_briefly() -> None:
    names = [term for term, _ in TERMS]
    assert len(names) == len(set(names))
    assert [term for term, meaning in TERMS if len(meaning) > 240] == []


def test_every_synonym_leads_to_a_word_that_is_used() -> None:
    text = "\n".join(pages().values())
    assert [term for _, term in SYNONYMS if not mentions(term, text)] == []


@pytest.mark.parametrize(
    ("term", "text", "expected"),
    [
        ("gradient program", "two gradient\nprograms", True),
        ("Cell", "Cellular", False),
        ("pass", "all passes", True),
        ("bar", "barrier", False),
    ],
)
def test_mentions(term: str, text: str, expected: bool) -> None:
    assert mentions(term, text) == expected
