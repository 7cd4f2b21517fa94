"""Writes the reference: pages made of docstrings, of what `parity --help` prints, and of the tables of versions."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click import Command

from . import versions
from .contents import PACKAGES, Package, homes, members
from .entries import described_at, entry, reference


def write(folder: Path) -> None:
    """Write all pages into a folder. A page that hasn't changed is left alone, so that it isn't built again."""
    described = homes(PACKAGES)
    pages = {"command_line.md": command_page(), "versions.md": versions.page()}
    for page, package in PACKAGES.items():
        pages |= package_pages(page, package, described)
    for old in folder.rglob("*.md"):
        if old.relative_to(folder).as_posix() not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def command_page() -> str:
    """The help of every command, and the exit codes once."""
    from cellbridge.parity.cli import COMMANDS, main
    from cellbridge.parity.commands.command import EXIT_CODES

    parts = ["# The command line", "What `parity -h` and `parity COMMAND -h` print.", _help(main, "parity")]
    parts += ["## Exit codes", "Those of every command.", _block(inspect.cleandoc(EXIT_CODES.partition("codes:\n")[2]))]
    for title, commands in COMMANDS.items():
        parts.append(f"## {title}")
        for command in commands:
            parts += [f"### parity {command.name}", _help(command, f"parity {command.name}")]
    return "\n\n".join(parts) + "\n"


def _help(command: Command, name: str) -> str:
    # with the command's own names of the help option, which click keeps from the first context on
    settings = {**command.context_settings, "terminal_width": 80, "max_content_width": 80}
    shown = copy.copy(command)
    shown.epilog = None  # the exit codes
    with command.context_class(shown, info_name=name, **settings) as context:
        return _block(shown.get_help(context))


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


def package_pages(page: str, package: Package, described: Mapping[int, str]) -> dict[str, str]:
    """The pages of a package, by file.

    Args:
        page: name of its page, or of the index of its pages.
        package: the package.
        described: where each value is described (`homes`).
    """
    values, listed = package.values(), members(package)
    pages_of = {f"{package.name}.{name}": group.page for group, names in listed.items() for name in names}
    parts = [f"# {package.name}", package.sentence, f":::{{py:module}} {package.name}\n:::"]
    pages = {}
    for group, grouped in listed.items():
        names = _with_forms(package, grouped, values, described)
        entries = [entry(package.name, name, values[name], described) for name in names]
        if package.paged:
            current = f":::{{py:currentmodule}} {package.name}\n:::"
            pages[f"{page}/{group.page}.md"] = _joined([f"# {group.title}", f"In `{package.name}`.", current, *entries])
            mains = dict.fromkeys(described_at(values[name], described) for name in names)
            links = ", ".join(_short_link(main, f"{page}/{pages_of[main]}.html") for main in mains)
            parts += [f"## [{group.title}]({page}/{group.page}.md)", f'<p class="names">{links}</p>']
        else:
            parts += [f"## {group.title}", *entries]
    elsewhere = sorted(set(values).difference(*listed.values()))
    if elsewhere:
        links = ", ".join(reference(described[id(values[name])]) for name in elsewhere)
        parts += ["## Described elsewhere", f"`{package.name}` has these names too: {links}."]
    if package.paged:
        tree = "\n".join(f"{page}/{group.page}" for group in package.groups)
        parts.append(f"```{{toctree}}\n:hidden:\n\n{tree}\n```")
        parts.append(_leading_on(page, package, pages_of))
    return {f"{page}.md": _joined(parts)} | pages


def _short_link(qualified: str, page: str) -> str:
    """A link to an entry of another page; one that Sphinx makes has four times the size, and an index has hundreds."""
    return f'<a href="{page}#{qualified}">{qualified.rpartition(".")[2]}</a>'


def _leading_on(page: str, package: Package, pages_of: Mapping[str, str]) -> str:
    """The script by which an address of the time when all entries stood on this page leads to that of the entry."""
    names: dict[str, list[str]] = {}
    for qualified, of_group in pages_of.items():
        names.setdefault(f"{page}/{of_group}.html", []).append(qualified.removeprefix(f"{package.name}."))
    lists = json.dumps({address: " ".join(listed) for address, listed in names.items()}, separators=(",", ":"))
    return (
        f'<script type="application/json" id="pages-of-names" data-package="{package.name}">{lists}</script>\n'
        '<script src="../../_static/leading_on.js"></script>'
    )


def _with_forms(
    package: Package, names: list[str], values: Mapping[str, Any], described: Mapping[int, str]
) -> list[str]:
    """The names in their order, each followed by its further forms."""
    mains = [described_at(values[name], described) for name in names]
    positions = {main: position for position, main in reversed([*enumerate(mains)])}
    return [
        name
        for _, _, name in sorted(
            (positions[m], m != f"{package.name}.{name}", name) for m, name in zip(mains, names, strict=True)
        )
    ]


def _joined(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"
