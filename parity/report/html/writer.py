"""Writes a `Page` as one HTML file: template, style and scripts of this folder, and the data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ...support.files import write_in_folder, write_text
from .data import to_json
from .page import Page, visible_lines

FOLDER = Path(__file__).parent
SCRIPTS = (
    "data.js",
    "drawing.js",
    "places.js",
    "layout.js",
    "graph.js",
    "detail.js",
    "tree.js",
    "boxes.js",
    "error_line.js",
    "network.js",
    "main.js",
)
"""The scripts, each of which uses those before it."""


def write(page: Page, path: str | PathLike[str]) -> None:
    """Write the page to `path`, completely or not at all; raise `UsageError` if that fails."""
    write_text(path, to_html(page))


def write_in(folder: str | PathLike[str], name: str, page: Page) -> None:
    """Write the page to a file of a folder, through no link that is there; raise `UsageError` if that fails."""
    write_in_folder(folder, name, to_html(page))


def to_html(page: Page) -> str:
    """Return the page as HTML."""
    return render("page.html", SCRIPTS, page=page, data=to_json(page))


def render(template: str, scripts: Sequence[str], **values: Any) -> str:
    """Return a template of this folder as HTML, with the style of all pages, and the scripts.

    Names that come from files are data: the template escapes every text and makes invisible characters visible, and the
    policy of the page forbids the network and any style or script but its own.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    def show(value: Any) -> Any:
        return visible_lines(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    style = _read("page.css")
    script = "\n".join(['"use strict";', *map(_read, scripts)])
    sources = _hash(script) if scripts else "'none'"
    policy = (
        f"default-src 'none'; script-src {sources}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=show,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(policy=policy, style=style, script=script, **values)


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return what a content security policy calls a script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
