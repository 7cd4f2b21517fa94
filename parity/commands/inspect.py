"""`parity inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from ...runtime.errors import UsageError
from ..report.layout import echo
from .command import EXIT_CODES, Command, shapes_option, shared
from .conversion import converted


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("--ir", is_flag=True, help="Print the program, op by op.")
@shapes_option
@shared
def inspect(model: str, seed: int, verbose: bool, ir: bool, shapes: dict[str, tuple[int, ...]]) -> None:
    """Show the Cells of MODEL as converted, their parameters and ops.

    MODEL is a model file or an ONNX file, as for `parity run`. Where inputs() yields several, it is converted as the
    first are: that program is judged on all of them by parity run.
    """
    from rich.console import Console

    from ..report import inspection

    if Path(model).suffix == ".onnx":
        from ...converter import from_onnx

        program = from_onnx(model, shapes=shapes)
    elif shapes:
        raise UsageError("--shape is for ONNX files: a model file has inputs() of its own")
    else:
        program = converted(model, seed, verbose)
    if ir:
        echo(str(program))
    else:
        inspection.render(program, Console())
