"""`parity inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from ...runtime.errors import UsageError
from ..report.layout import echo
from .command import EXIT_CODES, Command, common_options, shapes_option
from .conversion import convert_model_file


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("--ir", is_flag=True, help="Print the program, op by op.")
@shapes_option
@common_options
def inspect(model: str, seed: int, verbose: bool, ir: bool, shapes: dict[str, tuple[int, ...]]) -> None:
    """Show the Cells of MODEL as converted, their parameters and ops.

    MODEL is a model file or an ONNX file, as for `parity run`. If inputs() yields several, the first are used for the
    conversion: parity run judges that program on all of them.
    """
    from rich.console import Console

    from ..report import inspection

    if Path(model).suffix == ".onnx":
        from ...converter import from_onnx

        program = from_onnx(model, shapes=shapes)
    elif shapes:
        raise UsageError("--shape is for ONNX files: a model file defines inputs() itself")
    else:
        program = convert_model_file(model, seed, verbose)
    if ir:
        echo(str(program))
    else:
        inspection.render(program, Console())
