"""`parity init`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ...runtime.errors import UsageError
from ..report.layout import echo
from ..support import files
from .arguments.declaring import ArgumentGroup, option
from .command import command


@dataclass(frozen=True)
class Written(ArgumentGroup):
    """What is written."""

    title = "Write"
    output: str | None = option(
        "-o", "--output", metavar="FILE", help="The model file to write. Default: parity_<class>.py, beside the class."
    )


@command("init")
@click.argument("target", metavar="CLASS")
def init(target: str, written: Written) -> None:
    """Write a first model file for a class, with inputs that it takes.

    CLASS is file.py:Class or package.module:Class, a torch module or a function that makes one. If it can be made
    without arguments, inputs are guessed from its first layers and the names of its parameters, and tried. What can't
    be guessed is marked in the file. An existing file isn't overwritten.
    """
    from ..inputs.first_model_file import first_model_file

    first = first_model_file(target)
    path = first.path if written.output is None else Path(written.output)
    if path.exists():
        raise UsageError(f"{path} exists already; give another name with -o")
    files.write_text(path, first.text)
    if first.open_points:
        echo(f"wrote {path}; fill in {' and '.join(first.open_points)}, marked `to do`, then run: parity run {path}")
    else:
        echo(f"wrote {path}, with inputs that the network takes; to compare it: parity run {path}")
