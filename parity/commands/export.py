"""`parity export`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from ...runtime.errors import UsageError
from ..options import OptionKeywords
from ..report.layout import echo
from ..support import files
from ..training.training_config import TrainingConfigKeywords
from .command import EXIT_CODES, Command, common_options, probe_option
from .conversion import check_model_file, convert_model_file
from .outcome import file_of, require_outputs, require_parity
from .training import CHECKED_STEPS, check_model_file_training, export_training, require_training_step, training_options


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("-o", "--output", required=True, metavar="FILE", help="The ONNX file to write.")
@click.option("--no-check", is_flag=True, help="Write it without comparing it with torch.")
@click.option("--no-grad", is_flag=True, help="Compare outputs only.")
@probe_option(default=True)
@click.option(
    "--opset",
    type=int,
    help="Opset version, from 17 to the newest that ONNX Runtime loads (with --no-check, that onnx knows). Default: "
    "the lowest that represents the model without loss.",
)
@click.option(
    "--fp16",
    is_flag=True,
    help="Write it in half precision: parameters, inputs and outputs are float16, as after module.half(), and are "
    "compared with torch in float16.",
)
@click.option(
    "--dynamic",
    multiple=True,
    metavar="NAME:AXIS=SYMBOL",
    help="Let this axis of an argument of forward vary (x:0=batch); axes with the same SYMBOL have the same size. "
    "May be repeated. For a MODEL without dynamic_shapes.",
)
@click.option(
    "--external-data",
    is_flag=True,
    help="Write the weights to FILE.data (FILE.<digits>.data where that is taken), as is always done above 2 GB.",
)
@click.option(
    "--training-step",
    is_flag=True,
    help="Write a step of training instead, with its optimizer and state, and a JSON file that describes it "
    "(docs/train_without_torch.md).",
)
@click.option("--html", metavar="FILE", help="Write the report on the comparison as an HTML page; it needs no network.")
@training_options
@common_options
def export(
    model: str,
    seed: int,
    verbose: bool,
    output: str,
    no_check: bool,
    no_grad: bool,
    probe: bool,
    opset: int | None,
    fp16: bool,
    dynamic: tuple[str, ...],
    external_data: bool,
    training_step: bool,
    html: str | None,
    config: TrainingConfigKeywords,
) -> None:
    """Convert MODEL to ONNX, and write it if parity holds.

    MODEL is a model file, as for `parity run`. If parity fails, nothing is written. With --training-step, the loss is
    loss() of the model file, or else the mean of the squares of all floating-point outputs.
    """
    require_outputs({"--output": output, "--html": html}, {"MODEL": file_of(model)})
    if no_check and html is not None:
        raise UsageError("--html shows the comparison, which --no-check leaves out: leave out one of them")
    if opset is not None:
        from ...runtime.lowering import opsets

        opsets.choose(opset)  # raises for an unknown opset, before the work starts
        if not no_check:
            opsets.require_loadable(opset)
    require_training_step(training_step)
    if training_step:
        if not no_check:
            first_steps: TrainingConfigKeywords = {"steps": CHECKED_STEPS, **config}
            trained = check_model_file_training(model, seed, verbose, first_steps, {}, dynamic)
            require_parity(trained, verbose, output, html)
        export_training(model, seed, verbose, output, opset, dynamic, config)
        json_path = Path(output).with_suffix(".json")
        echo(f"wrote {output} and {json_path}" + (", unchecked" if no_check else ""))
        return
    data: bool | Literal["auto"] = external_data or "auto"
    with files.atomic_model_path(output) as onnx_path:
        if no_check:
            from ...converter import to_onnx
            from ...runtime.lowering import opsets

            program = convert_model_file(model, seed, verbose, dynamic, "float16" if fp16 else None)
            model_proto = to_onnx(program, onnx_path, opset=opset, external_data=data)
            echo(f"the ONNX model is of {opsets.describe(model_proto)}")
        else:
            dtype = "float16" if fp16 else "float32"
            options: OptionKeywords = {
                "seed": seed,
                "grads": not no_grad,
                "dtype": dtype,
                "train": False,
                "probe": probe,
            }
            report = check_model_file(
                model, verbose, options, dynamic, save_onnx=onnx_path, opset=opset, external_data=data
            )
            require_parity(report, verbose, output, html)
    echo(f"wrote {output}" + (", unchecked" if no_check else ""))
