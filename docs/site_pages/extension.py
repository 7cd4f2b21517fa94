"""The Sphinx extension of this site.

It writes the generated pages before Sphinx reads any, and adds two directives and a role: `source` quotes a function or
class of the code by its name, `picture` shows one of the pictures that are drawn from the code, and `place` names a
function and the file that it is in.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective, SphinxRole

from . import pictures, reference
from .quoting import NotFound, quoted

DOCS = Path(__file__).parents[1]


class Source(SphinxDirective):
    """Quotes a function, a method or a class: `:::{source} runtime/ops leaky_relu`.

    The first argument is a folder or file, the second a name, `Class.method` for a method. With `:rules:`, the
    statements that follow and begin with the same name (the rules of an op) are quoted too; with `:body:`, the
    docstring is left out.
    """

    required_arguments = 2
    option_spec: ClassVar = {"rules": directives.flag, "body": directives.flag}

    def run(self) -> list[nodes.Node]:
        """The place and the code."""
        folder, name = self.arguments
        try:
            found = quoted(DOCS.parent, folder, name, rules="rules" in self.options, body="body" in self.options)
        except NotFound as error:
            raise self.error(str(error)) from error
        self.env.note_dependency(found.file)
        place = nodes.paragraph(classes=["snippet-place"])
        place += nodes.literal(text=f"{found.file.relative_to(DOCS.parent).as_posix()}")
        place += nodes.Text(f", line {found.line}")
        code = nodes.literal_block(found.text, found.text, language="python")
        return [place, code]


class Place(SphinxRole):
    """Names a function and its file: `runtime/ops leaky_relu` between the backticks."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The name and the file, as code."""
        try:
            folder, name = self.text.split()
            found = quoted(DOCS.parent, folder, name)
        except (NotFound, ValueError) as error:
            message = self.inliner.reporter.error(str(error), line=self.lineno)
            return [nodes.literal(text=self.text)], [message]
        self.env.note_dependency(found.file)
        file = nodes.literal(text=found.file.relative_to(DOCS.parent).as_posix())
        return [nodes.literal(text=name), nodes.Text(" in "), file], []


class Picture(SphinxDirective):
    """Shows a picture of `site_pages.pictures` by its name, with a description as its content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The SVG, within the page, so that it takes the colours of the theme."""
        try:
            draw = pictures.PICTURES[self.arguments[0]]
        except KeyError:
            raise self.error(f"there is no picture {self.arguments[0]!r}: {sorted(pictures.PICTURES)}") from None
        svg = draw(" ".join(self.content))
        return [nodes.raw("", f'<div class="picture">{svg}</div>', format="html")]


def write_pages(app: Sphinx, config: Config) -> None:
    """Write the generated pages of the reference."""
    reference.write(DOCS / "reference" / "generated")


def list_titles(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Let the theme make its list of pages from their titles.

    Sphinx copies all entries of the contents of all pages for every page, and drops all but the titles then: a quarter
    of the time that the site took.
    """
    whole, titles = context["toctree"], _titles(app.env)

    def toctree(**options: Any) -> str:
        entries, app.env.tocs = app.env.tocs, titles
        try:
            return str(whole(**options))
        finally:
            app.env.tocs = entries

    context["toctree"] = toctree


@cache
def _titles(env: BuildEnvironment) -> dict[str, nodes.bullet_list]:
    """The contents of each page: its title, and the lists of pages that it has."""
    titles = {}
    for page, contents in env.tocs.items():
        title, *rest = contents.children[0].children
        item = nodes.list_item("", title.deepcopy())
        if trees := [tree.deepcopy() for part in rest for tree in part.findall(addnodes.toctree)]:
            item += nodes.bullet_list("", *trees)
        titles[page] = nodes.bullet_list("", item)
    return titles


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", write_pages)
    app.connect("html-page-context", list_titles, priority=100)  # before the theme's
    app.add_role("place", Place())
    app.add_directive("source", Source)
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
