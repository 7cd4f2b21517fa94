"""`parity run`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...runtime.errors import UsageError
from ..options import OptionKeywords
from ..support import files
from ..support.progress import TerminalProgress
from ..training.training_config import TrainingConfigKeywords
from .command import EXIT_CODES, Command, JudgingOptions, judging_options, memory_option, options_of_all
from .conversion import check_model_file, check_ranks, compare_with_recording
from .outcome import file_of, finish, require_file, require_outputs
from .training import check_model_file_training, require_steps, steps_option, training_options

if TYPE_CHECKING:
    from ..report.base import BaseReport


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option(
    "--train/--eval",
    default=None,
    help="Compare in train mode (batch statistics, dropout, buffer updates), or with all parts in eval mode; by "
    "default in eval mode, but a model with parts in both modes as it is.",
)
@click.option(
    "--against",
    metavar="FOLDER",
    help="Compare with this recording instead, of the same network elsewhere (parity record, docs/recordings.md).",
)
@click.option("--map", "names", metavar="FILE", help="TOML file that says which Cell of that recording is which.")
@click.option(
    "--ranks",
    type=click.IntRange(min=2),
    metavar="N",
    help="Compare with N processes on this machine, on which parallelize(module, mesh) of the file puts the model.",
)
@click.option("--round-trip", is_flag=True, help="Also judge the conversions converted back to torch modules.")
@click.option(
    "--save-onnx", "onnx_file", metavar="FILE", help="Keep the ONNX model that was judged, whatever the verdict."
)
@memory_option
@steps_option
@training_options
@judging_options
@options_of_all
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
def run(
    models: tuple[str, ...],
    seed: int,
    verbose: bool,
    onnx_file: str | None,
    train: bool | None,
    against: str | None,
    names: str | None,
    ranks: int | None,
    round_trip: bool,
    memory: int | None,
    steps: int | None,
    config: TrainingConfigKeywords,
    judging: JudgingOptions,
) -> None:
    """Compare MODEL in torch with its conversions, Cell by Cell.

    MODEL is path/model.py, path/model.py:factory or package.module:factory. The file defines model(), which returns
    an nn.Module, and inputs(), which returns a tuple of arguments or a dict of keyword arguments, or yields several of
    them. It may also define loss(outputs), dynamic_shapes, and cell(), the port of the model, which is judged too
    (cells and weights define the mapping of its Cells and Parameters). With checkpoint, safetensors files, model() may
    return a module on the meta device.

    MODEL may also be a program of torch.export (.pt2), which is judged on its example inputs; nothing in the file is
    run. Or it is an ONNX file: then the interpreter, torch and ONNX Runtime are compared on it, with the arrays of
    --inputs, or with generated inputs, whose shapes --shape sets. A file that can't be read as a program is compared as
    a whole, without its Cells.

    With --against, MODEL is compared with a recording of the same network, made on the same inputs in another framework
    or release. Each of its modules is run on the inputs that were recorded there, so each Cell is judged alone.

    With --ranks, the model is compared with itself on several processes: DistributedDataParallel, fully_shard, tensor
    parallel, or code of your own. Where each process is to get a part of the batch, which isn't known from classes of
    torch, the file says splits_batch = True. --train-steps compares steps of training too.

    With --train-steps, steps of training are compared: losses, gradients, overflow decisions, clipped gradients,
    optimizer state, parameters and buffers. The loss is loss() of the model file, or else the mean of the squares of
    all floating-point outputs. The first batches are inputs(); the others are derived from them. With --dtype float16
    or bfloat16, torch trains under autocast.

    Several MODELs are judged one after another. The exit code is 1 if parity fails in one of them, or else that of the
    first in which it isn't shown. --html then takes a folder, for a page on each and an overview, index.html.
    """

    def judge(model: str) -> BaseReport:
        """Return the report on one MODEL."""
        if names is not None and against is None:
            raise UsageError("--map is for a recording: give --against too")
        require_steps(model, steps)
        of_whole = ranks, against, round_trip, steps
        if memory is not None and (Path(model).suffix == ".onnx" or any(of_whole)):
            raise UsageError(
                "--memory judges a torch model in parts: leave out what needs it as a whole (--ranks, --against, "
                "--round-trip, --train-steps)"
            )
        if ranks is not None:
            if against is not None or round_trip or onnx_file is not None or Path(model).suffix == ".onnx":
                raise UsageError("--ranks compares a model file with itself: leave out --against and what is for ONNX")
            return check_ranks(model, ranks, verbose, judging.options | {"seed": seed, "train": train}, steps, config)
        if steps is not None:
            if against is not None:
                raise UsageError("--against compares calls, not training steps: leave out --train-steps")
            return check_model_file_training(model, seed, verbose, {**config, "steps": steps}, judging.options)
        options: OptionKeywords = {**judging.options, "seed": seed}
        if Path(model).suffix == ".onnx":
            if train is not None or round_trip or onnx_file is not None:
                raise UsageError(
                    "--train, --eval, --round-trip and --save-onnx are for torch models, not for an ONNX file"
                )
            if against is not None:
                raise UsageError("--against is for torch models, not for an ONNX file")
            require_file(model)
            from ..onnx_files.check import check_onnx

            options["model"] = model
            with TerminalProgress() as progress:
                return check_onnx(model, inputs=judging.inputs, shapes=judging.shapes, progress=progress, **options)
        if judging.inputs_option is not None:
            raise UsageError(f"{judging.inputs_option} is for ONNX files: a model file defines inputs() itself")
        options["train"] = train
        if against is not None:
            if round_trip or onnx_file is not None:
                raise UsageError("--against compares with a recording alone: leave out --round-trip and --save-onnx")
            return compare_with_recording(model, against, names, verbose, options)
        with files.atomic_model_path(onnx_file) if onnx_file else nullcontext() as onnx_path:
            return check_model_file(model, verbose, options, memory=memory, round_trip=round_trip, save_onnx=onnx_path)

    outputs = {**{f"--{name}": path for name, path in judging.files.items()}, "--save-onnx": onnx_file}
    if len(models) > 1:
        folder = outputs.pop("--html")
        of_one = [option for option, path in {**outputs, "--repro": judging.repro}.items() if path is not None]
        if judging.inputs_option is not None:
            of_one.append(judging.inputs_option)
        if of_one:
            raise UsageError(f"{', '.join(of_one)}: for one MODEL, given {len(models)}; run them one by one")
        from .several import judge_several

        judge_several(models, judge, verbose, folder)
    (model,) = models
    require_outputs(outputs, {"MODEL": file_of(model), "--inputs": judging.inputs}, judging.repro)
    finish(judge(model), verbose, judging.files, judging.repro)
