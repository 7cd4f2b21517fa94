"""`parity run`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..options import OptionKeywords
from ..sides.kinds import Kind, file_of, kind_of_path
from ..support import files
from ..support.progress import ProgressDisplay
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import (
    CauseSearch,
    Inputs,
    Judging,
    Memory,
    Mode,
    Provider,
    ReportsOnFailures,
)
from .arguments.training import ComparedTraining
from .command import command
from .conversion import check_model_file, check_model_file_training, check_ranks, compare_with_recording
from .outcome import finish, require_outputs
from .targets import require_onnx_file

if TYPE_CHECKING:
    from ..report.base import BaseReport


@dataclass(frozen=True)
class Counterpart(ArgumentGroup):
    """What a model is compared with, besides its conversions."""

    title = "Compare with"
    note = (
        "Without these options, MODEL is compared with its conversions. With --against, each of its modules is run on "
        "the inputs that were recorded elsewhere, so each Cell is judged alone."
    )
    against: str | None = option(
        "--against",
        metavar="FOLDER",
        help="Compare with this recording instead, of the same network on the same inputs in another framework or "
        "release (parity record, docs/recordings.md).",
    )
    names: str | None = option(
        "--map", metavar="FILE", help="TOML file that pairs the Cells of that recording with those of MODEL."
    )
    round_trip: bool = option(
        "--round-trip", is_flag=True, help="Also judge the conversions converted back to torch modules."
    )


@dataclass(frozen=True)
class Processes(Provider):
    """Where the sides run."""

    note = (
        "With --ranks, the model is compared with itself on several processes: DistributedDataParallel, fully_shard, "
        "tensor parallel, or code of your own. If each process gets a part of the batch, and torch's classes "
        "don't show that, define splits_batch = True in the file. --train-steps compares steps of training too."
    )
    ranks: int | None = option(
        "--ranks",
        type=click.IntRange(min=2),
        metavar="N",
        help=(
            "Compare with N processes on this machine, over which the file's parallelize(module, mesh) "
            "distributes the model."
        ),
    )


@dataclass(frozen=True)
class Results(ReportsOnFailures):
    """What is written."""

    onnx_file: str | None = option(
        "--save-onnx", metavar="FILE", help="Keep the ONNX model that was judged, whatever the verdict."
    )


@dataclass(frozen=True)
class Limits(CauseSearch, Memory):
    """The limits of a comparison."""


@command("run")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
def run(
    models: tuple[str, ...],
    mode: Mode,
    judging: Judging,
    inputs: Inputs,
    counterpart: Counterpart,
    training: ComparedTraining,
    processes: Processes,
    results: Results,
    limits: Limits,
) -> None:
    """Compare MODEL in torch with its conversions, Cell by Cell.

    MODEL is path/model.py, path/model.py:factory or package.module:factory. The file defines model(), which returns
    an nn.Module, and inputs(), which returns a tuple of arguments or a dict of keyword arguments, or yields several of
    them. It may also define loss(outputs), dynamic_shapes, and cell(), the port of the model, which is judged too
    (cells and weights define the mapping of its Cells and Parameters). With checkpoint, safetensors files, model() may
    return a module on the meta device.

    A model of a library needs no file: timm:resnet18, 'hf:BertModel?hidden_size=128' (a class of transformers, with
    other settings), hf:FOLDER (a config.json, and weights in safetensors files if there are any). Weights are random
    otherwise, nothing is downloaded, and the inputs follow from the library's description.

    MODEL may also be a program of torch.export (.pt2), which is judged on its example inputs; nothing in the file is
    run. Or it is an ONNX file: then the interpreter, torch and ONNX Runtime are compared on it, with the arrays of
    --inputs, or with generated inputs, whose shapes --shape sets. A file that can't be read as a program is compared as
    a whole, without its Cells.

    Several MODELs are judged one after another. The exit code is 1 if parity fails in one of them, or else that of the
    first that couldn't be judged. --html then takes a folder, for a page on each and an overview, index.html.
    """
    options = judging.keywords(inputs.seed, processes.provider, limits.diagnose_seconds)

    def judge(model: str) -> BaseReport:
        """Return the report on one MODEL."""
        if kind_of_path(model) is Kind.ONNX_FILE:
            return _check_onnx(model, inputs, options)
        of_model: OptionKeywords = {**options, "train": mode.train}
        config = training.config(training.steps)
        if processes.ranks is not None:
            steps = None if training.steps is None else config
            return check_ranks(model, processes.ranks, results.verbose, of_model, steps)
        if training.steps is not None:
            return check_model_file_training(model, inputs.seed, results.verbose, config, options)
        if counterpart.against is not None:
            return compare_with_recording(model, counterpart.against, counterpart.names, results.verbose, of_model)
        with files.atomic_model_path(results.onnx_file) if results.onnx_file else nullcontext() as onnx_path:
            return check_model_file(
                model, results.verbose, of_model, memory=limits.memory, round_trip=counterpart.round_trip,
                save_onnx=onnx_path,
            )  # fmt: skip

    if len(models) > 1:
        from .several import judge_several

        judge_several(models, judge, results.verbose, results.html_file)
    (model,) = models
    outputs = results.files_by_option | {"--save-onnx": results.onnx_file}
    require_outputs(outputs, {"MODEL": file_of(model), "--inputs": inputs.inputs}, results.repro)
    finish(judge(model), results.verbose, results.files, results.repro)


def _check_onnx(model: str, inputs: Inputs, options: OptionKeywords) -> BaseReport:
    """Return the report on an ONNX file."""
    require_onnx_file(model)
    from ..checking.onnx_files.check import check_onnx

    of_file: OptionKeywords = {**options, "model": model}
    with ProgressDisplay() as progress:
        return check_onnx(model, inputs=inputs.inputs, shapes=inputs.shapes, progress=progress, **of_file)
