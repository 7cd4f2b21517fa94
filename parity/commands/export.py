"""`parity export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ...runtime.errors import UsageError
from ..options import OptionKeywords
from ..report.layout import echo
from ..support import files
from ..training.training_config import TrainingConfigKeywords
from .bundle_export import export_bundle, print_fallback, print_note
from .command import EXIT_CODES, Command, common_options, memory_option, probe_option
from .conversion import check_model_file, convert_model_file
from .outcome import file_of, require_file, require_outputs, require_parity
from .quantization_errors import parse_budget
from .quantized_export import export_quantized
from .training import CHECKED_STEPS, check_model_file_training, export_training, require_training_step, training_options

if TYPE_CHECKING:
    from ..deployment.sensitivity import Budget


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("-o", "--output", metavar="FILE", help="The ONNX file to write.")
@click.option(
    "--bundle",
    metavar="FOLDER",
    help="Write a new folder instead: the model, inputs and outputs of torch, a card, and programs in Python, "
    "JavaScript and C++ that say, where it runs, whether it is still the same network.",
)
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
    "--bf16",
    is_flag=True,
    help="Write it in bfloat16, as after module.bfloat16(), and compare with torch in bfloat16.",
)
@click.option(
    "--int8",
    is_flag=True,
    help="Write it with weights of 8 bits per channel: with --calibrate, activations have 8 bits too; otherwise they "
    "are quantized as they come, in products of matrices, lookups and LSTMs alone.",
)
@click.option(
    "--int4",
    is_flag=True,
    help="Write it with weights of 4 bits, in blocks of 32 with a scale each, in products of matrices; all else stays "
    "in float32. --calibrate gives inputs on which errors are measured.",
)
@click.option(
    "--calibrate",
    metavar="FILE",
    help="Inputs for --int8 (.npz, by input name), from which ranges are taken: of one call, or of several along an "
    "additional first axis.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also say what --int8 costs each Cell at the outputs, and in loss() of the model file, on --calibrate.",
)
@click.option(
    "--budget",
    metavar="ERROR",
    callback=parse_budget,
    help="Keep Cells in float32, with as few weights as are found, until an error holds: 'outputs 1%' of their norm, "
    "'loss 0.5%', or 'top1 0.2%' of rows whose largest element is another.",
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
@click.option(
    "--separate-state",
    is_flag=True,
    help="With --training-step, write the initial state to a .safetensors file beside it instead: ONNX Runtime in "
    "JavaScript takes no input that has a value in the model.",
)
@memory_option
@click.option("--html", metavar="FILE", help="Write the report on the comparison as an HTML page; it needs no network.")
@training_options
@common_options
def export(
    model: str,
    seed: int,
    verbose: bool,
    output: str | None,
    bundle: str | None,
    no_check: bool,
    no_grad: bool,
    probe: bool,
    opset: int | None,
    fp16: bool,
    bf16: bool,
    int8: bool,
    int4: bool,
    calibrate: str | None,
    sensitivity: bool,
    budget: Budget | None,
    dynamic: tuple[str, ...],
    external_data: bool,
    training_step: bool,
    separate_state: bool,
    memory: int | None,
    html: str | None,
    config: TrainingConfigKeywords,
) -> None:
    """Convert MODEL to ONNX, and write it if parity holds.

    MODEL is a model file, as for `parity run`. If parity fails, nothing is written. With --training-step, the loss is
    loss() of the model file, or else the mean of the squares of all floating-point outputs.
    """
    if (output is None) == (bundle is None):
        raise UsageError("give -o FILE, or --bundle FOLDER" + ("" if output is None else ", not both"))
    require_outputs({"--output": output, "--html": html}, {"MODEL": file_of(model), "--calibrate": calibrate})
    if fp16 + bf16 + int8 + int4 > 1:
        raise UsageError("--fp16, --bf16, --int8 and --int4 each say in what the file computes: give one of them")
    if calibrate is not None:
        if not int8 and not int4:
            raise UsageError("--calibrate gives the inputs that --int8 takes ranges from: give --int8 too")
        require_file(calibrate)
    if (sensitivity or budget is not None) and (calibrate is None or int4):
        what = "--sensitivity" if sensitivity else "--budget"
        raise UsageError(f"{what} measures errors on the inputs of --calibrate: give --int8 and --calibrate too")
    if no_check and html is not None:
        raise UsageError("--html shows the comparison, which --no-check leaves out: leave out one of them")
    if opset is not None:
        from ...runtime.lowering import opsets

        opsets.choose(opset)  # raises for an unknown opset, before the work starts
        if not no_check:
            opsets.require_loadable(opset)
    require_training_step(training_step)
    if separate_state and not training_step:
        raise UsageError("--separate-state is for the state of a training step: give --training-step too")
    if bundle is not None and (no_check or training_step):
        raise UsageError(
            "--bundle holds a model that was compared with torch: leave out --no-check and --training-step"
        )
    if bundle is not None and bf16:
        raise UsageError("--bundle can't be in bfloat16, which ONNX Runtime in JavaScript hasn't: leave out --bf16")
    if memory is not None and (bundle is not None or training_step or int8 or int4 or no_check):
        raise UsageError(
            "--memory judges a model in parts before it is written: leave out --bundle, --training-step, --int8, "
            "--int4 and --no-check"
        )
    if training_step:
        assert output is not None, "a bundle is refused"
        if not no_check:
            first_steps: TrainingConfigKeywords = {"steps": CHECKED_STEPS, **config}
            trained = check_model_file_training(model, seed, verbose, first_steps, {}, dynamic)
            require_parity(trained, verbose, output, html)
        export_training(model, seed, verbose, output, opset, dynamic, config, separate_state=separate_state)
        beside = [Path(output).with_suffix(suffix) for suffix in (".json", ".safetensors")[: 1 + separate_state]]
        echo(f"wrote {output} and {' and '.join(map(str, beside))}" + (", unchecked" if no_check else ""))
        return
    data: bool | Literal["auto"] = external_data or "auto"
    dtype = "float16" if fp16 else "bfloat16" if bf16 else "float32"
    options: OptionKeywords = {
        "seed": seed,
        "grads": not no_grad,
        "dtype": dtype,
        "train": False,
        "probe": probe,
    }
    if int8 or int4:
        export_quantized(
            model, output or bundle or "", calibrate, verbose, options, dynamic, opset, bits=4 if int4 else 8,
            check=not no_check, sensitivity=sensitivity, budget=budget, html=html, bundle=bundle is not None,
        )  # fmt: skip
        return
    if bundle is not None:
        export_bundle(model, bundle, verbose, options, dynamic, opset, external_data=data, html=html)
        return
    assert output is not None, "one of both is given"
    with files.atomic_model_path(output) as onnx_path:
        if no_check:
            from ...converter import to_onnx
            from ...runtime.lowering import opsets
            from ..sides.runtime_program import own_working_dtype, written_program

            captured = convert_model_file(model, seed, verbose, dynamic, dtype if fp16 or bf16 else None)
            program, notes = written_program(captured, own_working_dtype(captured))
            for note in notes:
                print_note(note)
            model_proto = to_onnx(program, onnx_path, opset=opset, external_data=data)
            echo(f"the ONNX model is of {opsets.describe(model_proto)}")
        else:
            report = check_model_file(
                model, verbose, options, dynamic, memory, save_onnx=onnx_path, opset=opset, external_data=data
            )
            require_parity(report, verbose, output, html)
        if memory is None:
            print_fallback(onnx_path)
    echo(f"wrote {output}" + (", unchecked" if no_check else ""))
