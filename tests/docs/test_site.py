"""The site builds without a warning, and what is quoted and drawn in it comes from the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlparse

import pytest

from cellbridge.converter.torch_version import CHANGES, FAULTS
from cellbridge.runtime.workarounds import WORKAROUNDS
from tests.parity.html.browser import COMMAND, Browser, PageError, browser

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from site_pages import contents, docstrings, entries, floors, pictures, quoting, reference, versions  # noqa: E402


def addresses_in(text: str) -> Addresses:
    addresses = Addresses()
    addresses.feed(text)
    return addresses


class Addresses(HTMLParser):
    """The addresses in a page: links, and what the browser loads."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                (self.links if tag == "a" else self.loaded).append(value)


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = ["bash", str(ROOT / "scripts" / "docs"), str(site)]
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()

    require_self_contained(site)
    require_links(site)
    assert "copybutton.js" in (site / "start.html").read_text()
    generated = site / "reference" / "generated"
    sidebar = re.search(r'class="sidebar-tree">(.*?)</aside>', (generated / "parity.html").read_text(), re.DOTALL)
    assert sidebar is not None
    linked = {(generated / link).resolve() for link in addresses_in(sidebar[1]).links if not link.startswith("#")}
    assert {page for page in generated.rglob("*.html") if page.name != "parity.html"} <= linked
    large = [page.name for folder in ("nn", "ops") for page in (generated / folder).glob("*.html") if _size(page) > 150]
    assert large == []
    assert _size(generated / "ops.html") < 100
    require_old_addresses_to_lead_on(generated)
    listed = re.search(r'class="toc-tree">(.*?)</aside>', (generated / "parity.html").read_text(), re.DOTALL)
    assert listed is not None
    assert 'href="#cellbridge.parity.check"' in listed[1]


def require_old_addresses_to_lead_on(generated: Path) -> None:
    """An address of when the entries of a package stood on one page leads to the page of the entry."""
    if COMMAND is None:
        return
    with browser() as page:
        for name in ("ops.relu", "ops.ReLU", "nn.Cell.set_train"):
            page.open(generated / f"{name.partition('.')[0]}.html")
            page.run(f"setTimeout(() => {{ location.hash = 'cellbridge.runtime.{name}' }}); 0")
            deadline = time.monotonic() + 20
            while not _has_its_anchor(page):
                assert time.monotonic() < deadline, name


def _has_its_anchor(page: Browser) -> bool:
    try:
        return bool(page.run("!!location.hash && !!document.getElementById(location.hash.slice(1))"))
    except PageError:  # the page is left
        return False


def _size(page: Path) -> float:
    return page.stat().st_size / 1000


def require_self_contained(site: Path) -> None:
    """No page loads anything from another place."""
    for page in site.rglob("*.html"):
        assert [address for address in addresses_in(page.read_text()).loaded if urlparse(address).netloc] == [], page
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text()
        assert "@import" not in style.read_text()


def require_links(site: Path) -> None:
    """Links within the site lead to a page and an anchor; others are well-formed, which is all that can be known."""
    anchors = {page: page.read_text() for page in site.rglob("*.html")}
    for page, text in anchors.items():
        for link in addresses_in(text).links:
            parts = urlparse(link)
            if parts.scheme:
                assert parts.scheme == "https", f"{page}: {link}"
                assert "." in parts.netloc, f"{page}: {link}"
                continue
            target = (page.parent / parts.path).resolve() if parts.path else page
            assert target.exists(), f"{page}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert f'id="{parts.fragment}"' in anchors[target], f"{page}: {link}"


SETTINGS = """
import sys

sys.path.insert(0, {docs!r})
extensions = ["myst_parser", "planted"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
"""
EXTENSION = """
from site_pages import extension


def setup(app):
    app.add_role("place", extension.Place())
    app.add_directive("source", extension.Source)
    app.add_directive("picture", extension.Picture)
"""


BROKEN = {
    "link": "[a page](absent.md)",
    "anchor": "[an anchor](#absent)",
    "source": ":::{source} runtime no_such_function\n:::",
    "picture": ":::{picture} absent\n:::",
    "place": "{place}`runtime no_such_function`",
}


def test_every_broken_page_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(SETTINGS.format(docs=str(ROOT / "docs")) + "sys.path.insert(0, '.')\n")
    (tmp_path / "planted.py").write_text(EXTENSION)
    (tmp_path / "index.md").write_text("# A page\n\n```{toctree}\n:glob:\n\n*\n```\n")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", ".", "out"]
    for name, text in (BROKEN | {"whole": "A sentence."}).items():
        (tmp_path / f"{name}.md").write_text(f"# A page\n\n{text}\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    named = {page for page in (*BROKEN, "whole") if f"{page}.md" in done.stderr}
    assert (done.returncode, named) == (1, set(BROKEN)), done.stdout + done.stderr


def test_a_definition_is_quoted_with_its_rules() -> None:
    quotation = quoting.quoted(ROOT, "runtime/ops", "leaky_relu", rules=True)
    assert quotation.text.startswith("@operator\ndef leaky_relu")
    assert quotation.text.count("@leaky_relu.") == 3
    assert "prelu" not in quotation.text


def test_a_method_is_quoted_without_its_docstring() -> None:
    quotation = quoting.quoted(ROOT, "tests/docs/test_site.py", "Addresses.handle_starttag", body=True)
    assert quotation.text.startswith("def handle_starttag")
    assert quoting.quoted(ROOT, "tests/docs/test_site.py", "Addresses", body=True).text.splitlines()[1].strip() == ""


@pytest.mark.parametrize("name", ["no_such_function", "require_links.inner"])
def test_a_name_that_is_gone_is_an_error(name: str) -> None:
    with pytest.raises(quoting.NotFound, match="found none"):
        quoting.quoted(ROOT, "tests/docs", name)


def test_docstrings_become_lists_and_plain_text() -> None:
    def documented() -> None:
        """One [S] line, with `code` and a*b*c.

            documented()

        Args:
            x: the first,
                on two lines.
            *rest: others.

        Raises:
            ValueError: never.
        """

    text = docstrings.markdown(documented)
    assert "One \\[S\\] line, with `code` and a\\*b\\*c." in text
    assert "```python\ndocumented()\n```" in text
    assert "- `x`: the first, on two lines." in text
    assert "- `*rest`: others." in text
    assert "**Raises**" in text


def test_the_page_of_versions_has_every_row_of_the_tables() -> None:
    page = versions.page()
    for name in (*CHANGES, *FAULTS, *WORKAROUNDS):
        assert f"| {name} |" in page
    assert "| torch | `<2.16,>=2.13` |" in page


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    described = contents.homes(contents.PACKAGES)
    return {
        file: text
        for page, package in contents.PACKAGES.items()
        for file, text in reference.package_pages(page, package, described).items()
    }


def test_the_reference_has_every_public_name(pages: dict[str, str]) -> None:
    from cellbridge import converter, parity
    from cellbridge.runtime import amp, ops

    for page, module in (("parity", parity), ("converter", converter), ("amp", amp)):
        for name in module.__all__:
            assert re.search(rf"}} {name}[(\n]", pages[f"{page}.md"]), name
    operators = "".join(text for file, text in pages.items() if file.startswith("ops"))
    for name in contents.public_names(ops):
        assert re.search(rf"}} {name}[(\n]|#cellbridge\.\w+\.{name}\)", operators), name


def test_the_reference_begins_with_what_people_call(pages: dict[str, str]) -> None:
    names = re.findall(r"\{py:(?:function|class)\} (\w+)", pages["parity.md"])
    assert names[:5] == ["check", "compare", "assert_parity", "check_training", "assert_training_parity"]
    assert names[-4:] == ["Report", "TrainingReport", "CellReport", "Comparison"]


def test_a_name_that_no_group_has_is_an_error() -> None:
    converter = contents.PACKAGES["converter"]
    with pytest.raises(contents.Unplaced, match=r"has cellbridge\.converter\.\w+, .*converter\.to_onnx\b"):
        contents.homes({"converter": replace(converter, groups=converter.groups[:1])})


def test_a_value_is_described_once(pages: dict[str, str]) -> None:
    assert "} relu(input)\n\nmax(x, 0)" in pages["ops/activations.md"]
    objects = pages["ops/activations.md"].partition("} ReLU(")[2]
    assert objects.startswith(")\n:no-contents-entry:\n\nOperator object of [`relu`](#cellbridge.runtime.ops.relu).\n")
    assert "} absolute\n:no-contents-entry:\n\nThe same as [`abs`](#" in pages["ops/mathematical_functions.md"]
    assert "[`Tensor`](#cellbridge.runtime.common.Tensor)" in pages["runtime.md"].partition("## Described elsewhere")[2]


def test_names_in_descriptions_are_links_but_for_arguments(pages: dict[str, str]) -> None:
    assert "- `**options`: fields of [`Options`](#cellbridge.parity.Options)." in pages["parity.md"]
    assert "- `cells`: as for [`compare`](#cellbridge.parity.compare)." in pages["parity.md"]
    histogram = pages["ops/reductions.md"].partition("} HistogramFixedWidth(")[2].partition(":::")[0]
    assert "equal intervals of `range`" in histogram
    example = "```python\n`relu`\n```"
    described = contents.homes(contents.PACKAGES)
    assert entries.linked(example, "cellbridge.runtime.ops", len, described) == example
    assert entries.linked("`relu`", "cellbridge.runtime.ops", len, described) != "`relu`"


def test_types_are_short() -> None:
    from cellbridge import parity

    text = entries.signature(parity.check)
    assert "(module: Module, args, kwargs: Mapping[str, Any] | None = None, *, " in text
    assert "save_onnx: str | Path | None = None" in text
    assert text.endswith("**options) -> Report")
    assert entries.short("Callable[..., tuple[Any, ...]] | None") == "Callable[..., tuple] | None"
    assert entries.short("Callable[[Any], Any] | None") == "Callable[[Any], Any] | None"
    assert entries.short(int) == "int"


def test_fields_have_types_and_defaults(pages: dict[str, str]) -> None:
    assert "- `grads` (`bool`, by default `True`): compare gradients too." in pages["parity.md"]
    assert "- `only` (`Sequence[str]`): globs" in pages["parity.md"]


def test_the_command_line_is_shown_by_groups() -> None:
    from cellbridge.parity.cli import COMMANDS

    page = reference.command_page()
    for title, commands in COMMANDS.items():
        assert f"\n## {title}\n\n### parity {commands[0].name}\n" in page
    of_run = page.partition("### parity run\n")[2].partition("\n###")[0]
    assert re.findall(r"^(\w[\w ]*):$", of_run, re.MULTILINE)[:2] == ["Judge", "Inputs"]
    assert page.lower().count("exit codes") == 1
    assert "\n130  interrupted" in page
    assert page.count("\n### parity ") == sum(map(len, COMMANDS.values()))
    assert page.count("-h, --help") == page.count("\n### parity ") + 1


def test_floors_are_those_of_the_table() -> None:
    rows = floors.floors("parity")
    assert rows[0] == ["support/", "dtypes"]
    assert rows[-2] == ["cli", "pytest_plugin"]
    assert "support/  dtypes" in pictures.rooms("Rooms")


def test_pictures_show_the_program() -> None:
    sampled = pictures.program("A program")
    assert sampled.count("<rect") == 12 + 4  # ops and boundaries, and the boxes of the Cells
    assert "block.fc Linear" in sampled
    assert "stroke-dasharray" in pictures.gradient("A gradient")
