"""Writes the reference: pages made of docstrings, of what `parity --help` prints, and of the tables of versions."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from click import Command

from . import versions

PACKAGES = {  # page: title, module, sentence
    "parity": ("cellbridge.parity", "Judging from Python and from tests."),
    "converter": (
        "cellbridge.converter",
        "From torch and ONNX to programs, and from programs to ONNX, torch and Cells.",
    ),
    "runtime": ("cellbridge.runtime", "Programs, the interpreter, compiled programs, and what Cells are written with."),
    "nn": ("cellbridge.runtime.nn", "Cells: layers, losses, optimizers, schedules and wrappers."),
    "ops": ("cellbridge.runtime.ops", "Operators on tensors."),
    "optim": ("cellbridge.runtime.optim", "Optimizers with the formulas of `torch.optim`."),
    "amp": ("cellbridge.runtime.amp", "Mixed precision and loss scales."),
    "train": ("cellbridge.runtime.train", "Training loops, callbacks, metrics and checkpoints."),
    "common": ("cellbridge.runtime.common", "Tensors, Parameters and initial values."),
}
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Warns|Yields):$")


def write(folder: Path) -> None:
    """Write all pages into a folder. A page that hasn't changed is left alone, so that it isn't built again."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{page}.md": package_page(*described) for page, described in PACKAGES.items()}
    pages["command_line.md"] = command_page()
    pages["versions.md"] = versions.page()
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def command_page() -> str:
    """The help of every command."""
    from cellbridge.parity.cli import COMMANDS, main

    parts = ["# The command line", "What `parity -h` and `parity COMMAND -h` print.", _help(main, "parity")]
    for title, commands in COMMANDS.items():
        parts.append(f"## {title}")
        for command in commands:
            parts += [f"### parity {command.name}", _help(command, f"parity {command.name}")]
    return "\n\n".join(parts) + "\n"


def _help(command: Command, name: str) -> str:
    # with the command's own names of the help option, which click keeps from the first context on
    settings = {**command.context_settings, "terminal_width": 80, "max_content_width": 80}
    with command.context_class(command, info_name=name, **settings) as context:
        return f"```text\n{command.get_help(context)}\n```"


def package_page(package: str, sentence: str) -> str:
    """The public names of a package, each with its signature and docstring."""
    module = importlib.import_module(package)
    entries = [text for name in public_names(module) for text in _entry(package, name, getattr(module, name))]
    return "\n\n".join([f"# {package}", sentence, f":::{{py:module}} {package}\n:::", *entries]) + "\n"


def public_names(module: ModuleType) -> list[str]:
    """What a package offers: what `dir()` lists, without modules, dtypes and private names."""
    names = [name for name in dir(module) if not name.startswith("_")]
    return sorted(name for name in names if _is_public(getattr(module, name)))


def _is_public(value: Any) -> bool:
    origin = getattr(value, "__module__", None) or ""
    return callable(value) and (inspect.isclass(value) or inspect.isroutine(value)) and origin.startswith("cellbridge")


def _entry(package: str, name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield _directive("function", f"{name}{_signature(value)}", markdown(value))
        return
    methods = [
        _directive("method", f"{attribute}{_signature(method, bound=True)}", markdown(method), colons=3)
        for attribute, method in sorted(vars(value).items())
        if not attribute.startswith("_") and inspect.isfunction(method) and inspect.getdoc(method)
    ]
    yield _directive("class", f"{name}{_signature(value)}", "\n\n".join([markdown(value), *methods]), colons=4)


def _directive(kind: str, signature: str, content: str, colons: int = 3) -> str:
    fence = ":" * colons
    return f"{fence}{{py:{kind}}} {signature}\n\n{content}\n{fence}"


def _signature(value: Callable[..., Any], *, bound: bool = False) -> str:
    """(x, *, axis=-1), on one line; without annotations, which the descriptions of the arguments say in words."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r"<([\w. ]+?)(?: at 0x\w+)?>", r"\1", text).replace("\n", " ")


def markdown(value: Any) -> str:
    """A docstring as Markdown: its code is kept as it is, sections become lists, and all else is plain text."""
    lines = (inspect.getdoc(value) or "").splitlines()
    parts: list[str] = []
    position = 0
    while position < len(lines):
        block = _block(lines, position)
        heading = SECTION.match(block[0])
        position += len(block)
        if heading:
            parts.append(f"**{heading[1]}**\n\n{_section(block[1:])}")
        elif block[0].startswith("    "):
            parts.append("```python\n" + textwrap.dedent("\n".join(block)).rstrip() + "\n```")
        elif any(line.strip() for line in block):
            parts.append(plain("\n".join(block).strip()))
    return "\n\n".join(parts)


def _block(lines: list[str], start: int) -> list[str]:
    """The lines from one on that belong together: a section, an indented example, or paragraphs."""
    if SECTION.match(lines[start]):
        end = start + 1
        while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
            end += 1
        return lines[start:end]
    indented = lines[start].startswith("    ")
    end = start + 1
    while end < len(lines) and not SECTION.match(lines[end]):
        if lines[end] and lines[end].startswith("    ") != indented and (indented or not lines[end - 1]):
            break
        end += 1
    return lines[start:end]


def _section(lines: list[str]) -> str:
    """The entries of a section as a list."""
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).strip().splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line:
            entries.append(line)
    listed = []
    for entry in entries:
        name = re.match(r"(\*{0,2}[\w., ]{1,60}):\s+(.*)", entry, re.DOTALL)
        listed.append(f"- `{name[1]}`: {plain(name[2])}" if name else f"- {plain(entry)}")
    return "\n".join(listed)


def plain(text: str) -> str:
    """Text in which nothing but code between backticks means anything to Markdown."""
    pieces = re.split(r"(`[^`\n]+`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([\\*_\[\]<>{}$|#~])", r"\\\1", piece) for piece in pieces
    )
