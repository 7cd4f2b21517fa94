"""The table as a page of the documentation.

Written by `python -m cellbridge.parity.causes.api_differences.page > docs/differences.md`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator

import torch

from ....runtime import nn
from ...correspondence.layers import kind_of_name, names
from .entry import Difference
from .reading import code
from .table import FUNCTIONS, LAYER_TABLE, NOTES, OPTIMIZER_TABLE

HEAD = """\
# How Cells differ from torch's modules

The API of Cells has names and defaults of its own. A network that is ported line by line runs, but computes something
else. When `parity` finds a faulty Cell, it lists the differences below that apply to it, with the values on both sides.
`parity.explain_optimizer(reference, optimizer)` does the same for two optimizers.

    Conv2d: pad_mode='same' in the candidate, padding=0 in the reference; write pad_mode="pad"

`python -m cellbridge.parity.causes.api_differences.page` writes this page from the same table
(`parity/causes/api_differences/`). "Here" means the Cell API, and the defaults are those of the first class in a row.
"""
# two columns: with one each for layers, Cell and torch, the explanation was the narrowest
HEADING = ["| what | how it differs |", "|---|---|"]


def page() -> str:
    """Return the page in Markdown."""
    parts = [HEAD]
    for family, entries in LAYER_TABLE.items():
        parts.append(f"## {family}\n\n" + "\n".join(_table(entries, torch.nn)) + "\n")
        parts.append(_plain_arguments(entries))
    parts.append("## Names of Parameters\n\n" + "\n".join(_parameter_names()) + "\n")
    parts.append("## Optimizers\n\n" + "\n".join(_table(OPTIMIZER_TABLE, torch.optim)) + "\n")
    parts.append(_plain_arguments(OPTIMIZER_TABLE))
    parts.append("## Functions, methods and operator objects\n\n" + "\n".join(_functions()) + "\n")
    parts.append("## What isn't visible in a layer\n\n" + "\n".join(_notes()) + "\n")
    return "\n".join(part for part in parts if part)


def default(cls: type | None, argument: str) -> str:
    """Return `name=default` for an argument of a class, or only its name if it has no default."""
    parameters = inspect.signature(cls).parameters if cls is not None else {}
    if argument not in parameters or parameters[argument].default is inspect.Parameter.empty:
        return argument
    return f"{argument}={code(parameters[argument].default)}"


def first_cell_class(entry: Difference) -> type | None:
    """Return the first class of Cells that an entry is about."""
    return getattr(nn, entry.layers[0], None) if entry.layers else None


def torch_class(entry: Difference, library: object) -> type | None:
    """Return the torch class that an entry is about."""
    if not entry.layers:
        return None
    names_ = [name.lower() for name in entry.originals] or [kind_of_name(entry.layers[0])]
    classes_ = {name.lower(): value for name, value in vars(library).items() if isinstance(value, type)}
    return classes_.get(names_[0])


def _table(entries: Iterable[Difference], library: object) -> Iterator[str]:
    yield from HEADING
    for entry in entries:
        if entry.rule:
            cell_arguments = _arguments(first_cell_class(entry), entry.cell_arguments)
            torch_arguments = _arguments(torch_class(entry, library), entry.module_arguments)
            yield f"| **{classes(entry.layers)}**<br>{_both(cell_arguments, torch_arguments)} | {entry.rule} |"


def _both(cell: str, original: str) -> str:
    return f"here: {cell or 'nothing'}<br>torch: {original or 'nothing'}"


def _arguments(cls: type | None, names: str) -> str:
    """Format names as code, and other text as it is."""
    texts = [default(cls, name) for name in names.split(", ") if name]
    return ", ".join(text if " " in text and "=" not in text else f"`{text}`" for text in texts)


def _plain_arguments(entries: Iterable[Difference]) -> str:
    plain = [f"`{entry.cell_arguments}` of {classes(entry.layers)}" for entry in entries if not entry.rule]
    return f"Also compared, and the same on both sides: {'; '.join(plain)}.\n" if plain else ""


def classes(layers: tuple[str, ...]) -> str:
    """Abbreviate `Conv1d, Conv2d and Conv3d` as `Conv1d/2d/3d`."""
    if not layers:
        return "any"
    axes_of: dict[str, list[str]] = {}
    for name in layers:
        parts = re.fullmatch(r"(.*?)(\dd)(.*)", name)
        axes_of.setdefault(f"{parts[1]}*{parts[3]}" if parts else name, []).append(parts[2] if parts else "")
    return ", ".join(stem.replace("*", "/".join(sorted(axes))) for stem, axes in axes_of.items())


def _parameter_names() -> Iterator[str]:
    yield "| layer | here | torch |"
    yield "|---|---|---|"
    for layer in ("BatchNorm2d", "LayerNorm", "Embedding", "PReLU"):
        of_cell = names(kind_of_name(layer)).of_cell
        cell_names, torch_names = (", ".join(f"`{name}`" for name in side) for side in (of_cell, of_cell.values()))
        yield f"| {layer} | {cell_names} | {torch_names} |"


def _functions() -> Iterator[str]:
    yield "Read in the source of `construct` and `forward`, in blocks of your own.\n"
    yield from HEADING
    for entry in FUNCTIONS:
        cell_functions, torch_functions = (
            ", ".join(f"`{name}`" for name in side) for side in (entry.names, entry.originals)
        )
        yield f"| {_both(cell_functions, torch_functions)} | {entry.rule} |"


def _notes() -> Iterator[str]:
    for what, how in NOTES:
        yield f"- {what}: {how}"


if __name__ == "__main__":
    sys.stdout.write(page())
