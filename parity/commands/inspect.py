"""`parity inspect`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..report.layout import echo
from ..sides.kinds import Kind, kind_of_path
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import InputShapes, Seed, Verbosity
from .command import command
from .conversion import convert_model_file
from .targets import require_onnx_file


@dataclass(frozen=True)
class Contents(ArgumentGroup):
    """What is shown."""

    title = "Show"
    ir: bool = option("--ir", is_flag=True, help="Print the program, op by op.")


@dataclass(frozen=True)
class Inputs(InputShapes, Seed):
    """What the model is converted for."""


@command("inspect")
@click.argument("model")
def inspect(model: str, contents: Contents, inputs: Inputs, reports: Verbosity) -> None:
    """Show the Cells of MODEL after conversion, with parameters and ops.

    MODEL is a model file or an ONNX file, as for `parity run`. If inputs() yields several, the first are used for the
    conversion: parity run judges that program on all of them.
    """
    from rich.console import Console

    from ..report import inspection

    if kind_of_path(model) is Kind.ONNX_FILE:
        require_onnx_file(model)
        from ...converter import from_onnx

        program = from_onnx(model, shapes=inputs.shapes)
    else:
        program = convert_model_file(model, inputs.seed, reports.verbose)
    if contents.ir:
        echo(str(program))
    else:
        inspection.render(program, Console())
