"""Model files on the command line: reports on them, and their programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from ...runtime.errors import UsageError
from ..inputs.dynamic_axes import with_dynamic_axes
from ..inputs.model_file import ModelFile, load, load_candidate
from ..jobs.training.training_config import TrainingConfig, TrainingConfigKeywords
from ..options import OptionKeywords
from ..report.layout import echo
from ..results.notes import warnings_as_notes
from ..support.progress import Progress, TerminalProgress
from .command import quiet

if TYPE_CHECKING:
    from ...runtime.ir.program import Program
    from ..report.report import Report
    from ..report.training_report import TrainingReport


class ConversionKeywords(TypedDict, total=False):
    """Keyword-only parameters of `parity.check` for the conversions."""

    save_onnx: Path | None
    opset: int | None
    external_data: bool | Literal["auto"]
    round_trip: bool


def check_model_file(
    model: str,
    verbose: bool,
    options: OptionKeywords,
    dynamic: Sequence[str] = (),
    memory: int | None = None,
    **more: Unpack[ConversionKeywords],
) -> Report:
    """Return the report on a model file; torch is imported only here, so that `--help` is quick.

    With `memory`, or if the file's model is on the meta device, it is judged in parts that fit into that many bytes.
    """
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, options["seed"], with_port=True), dynamic)
        if memory is None and user_file.mapped is None:
            return check_loaded(user_file, verbose, options, progress, **more)
        report = _check_out_of_core(user_file, memory, verbose, options, progress, more)
    save_onnx = more.get("save_onnx")
    if save_onnx is not None:
        from ...converter import to_onnx
        from ...runtime.lowering import opsets
        from ..sides.runtime_program import written_program

        captured = convert_model_file(model, options["seed"], verbose, dynamic, options["dtype"])
        program, notes = written_program(captured, options["dtype"])
        report.notes += notes
        external_data = more.get("external_data", "auto")
        model_proto = to_onnx(program, save_onnx, opset=more.get("opset"), external_data=external_data)
        report.notes.append(f"the ONNX model is of {opsets.describe(model_proto)}")
        if any(note.startswith("judged in ") for note in report.notes):
            report.notes.append("the ONNX model was written from the whole network, and wasn't run as a whole")
    return report


def _check_out_of_core(
    user_file: ModelFile,
    memory: int | None,
    verbose: bool,
    options: OptionKeywords,
    progress: Progress,
    more: ConversionKeywords,
) -> Report:
    """Return the report on a model file that is judged in parts, which may take most of the machine's memory."""
    of_whole = {"--round-trip": more.get("round_trip"), "cell": user_file.has_port, "recording": user_file.recording}
    if names := [name for name, value in of_whole.items() if value is not None and value is not False]:
        raise UsageError(
            f"a network in parts is compared with its conversions alone: leave out {', '.join(names)}, or --memory"
        )
    from ...runtime.memory import memory_size
    from ..jobs.out_of_core.check import check_out_of_core

    with quiet(verbose):
        report = check_out_of_core(
            user_file.module,
            user_file.args,
            user_file.kwargs,
            memory=memory if memory is not None else memory_size() * 3 // 4,
            weights=user_file.mapped,
            more_inputs=user_file.more_inputs,
            progress=progress,
            **(options | {"loss": user_file.loss, "model": user_file.name}),
        )
    if user_file.dynamic_shapes is not None:
        report.notes.append("dynamic_shapes: compared at the sizes of the inputs alone, as it is judged in parts")
    return report


def check_loaded(
    user_file: ModelFile,
    verbose: bool,
    options: OptionKeywords,
    progress: Progress,
    **more: Unpack[ConversionKeywords],
) -> Report:
    """Return the report on a model file that was loaded."""
    if user_file.recording is not None and "opset" not in more:  # it isn't exported
        if more.get("round_trip") or more.get("save_onnx") is not None:
            raise UsageError(
                f"{user_file.name} names a recording, with which it is compared: leave out what is for ONNX"
            )
        return _compare(user_file, user_file.recording, user_file.names, verbose, options, progress)
    from ..checking.engine import check

    with quiet(verbose):
        report = check(
            user_file.module,
            user_file.args,
            user_file.kwargs,
            dynamic_shapes=user_file.dynamic_shapes,
            cell=user_file.cell,
            cells=user_file.cells,
            weights=user_file.weights,
            more_inputs=user_file.more_inputs,
            progress=progress,
            **more,
            **(options | {"loss": user_file.loss, "model": user_file.name}),
        )
    report.notes += user_file.notes
    return report


def compare_with_onnx(reference: str, onnx_file: str, verbose: bool, options: OptionKeywords) -> Report:
    """Return the report on an ONNX file compared with a model file."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = load(reference, options["seed"])
        from ..checking.engine import compare

        with quiet(verbose):
            return compare(
                user_file.module,
                onnx_file,
                user_file.args,
                user_file.kwargs,
                more_inputs=user_file.more_inputs,
                progress=progress,
                **(options | {"loss": user_file.loss}),
            )


def compare_with_recording(
    model: str, recording: str, names: str | None, verbose: bool, options: OptionKeywords
) -> Report:
    """Return the report on a recording compared with a model file, on its first inputs."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        return _compare(load(model, options["seed"]), recording, names, verbose, options, progress)


def _compare(
    user_file: ModelFile,
    recording: str | Path,
    names: str | Path | None,
    verbose: bool,
    options: OptionKeywords,
    progress: Progress,
) -> Report:
    from ..checking.recordings.against import compare_with_recording as compare

    with quiet(verbose):
        return compare(
            user_file.module,
            recording,
            user_file.args,
            user_file.kwargs,
            names=names,
            progress=progress,
            **(options | {"model": user_file.name}),
        )


def check_ranks(
    model: str, ranks: int, verbose: bool, options: OptionKeywords, config: TrainingConfigKeywords | None
) -> Report:
    """Return the report on a model file on several processes, compared with itself on one; of training too."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = load(model, options["seed"])
        from ..jobs.parallel.check import check_parallel

        training = None if config is None else TrainingConfig(**config)
        with quiet(verbose):
            return check_parallel(user_file, ranks, training=training, progress=progress, options=options)


def check_model_file_training(
    model: str,
    seed: int,
    verbose: bool,
    config: TrainingConfigKeywords,
    options: OptionKeywords,
    dynamic: Sequence[str] = (),
) -> TrainingReport:
    """Return the report on training a model file; torch is imported only here, so that `--help` is quick."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from ..jobs.training.check import check_training

        with quiet(verbose):
            report = check_training(
                user_file.module,
                user_file.args,
                user_file.kwargs,
                loss=user_file.loss,
                dynamic_shapes=user_file.dynamic_shapes,
                more_inputs=user_file.more_inputs,
                dtype=options.get("dtype", "float32"),
                rtol=options.get("rtol"),
                atol=options.get("atol"),
                provider=options.get("provider", "cpu"),
                model=user_file.name,
                seed=seed,
                progress=progress,
                **config,
            )
    if user_file.has_port:
        report.notes.append("the port was not trained: parity.assert_training_parity compares it with its own script")
    return report


def compare_model_files(
    reference: str,
    candidate: str,
    verbose: bool,
    options: OptionKeywords,
    load_weights: bool | str = False,
    write_map: str | None = None,
) -> Report:
    """Return the report on the network of a model file compared with that of another one, on its inputs."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file, other = load(reference, options["seed"]), load_candidate(candidate, options["seed"])
        from ..checking.engine import compare

        with quiet(verbose):
            return compare(
                user_file.module,
                other.network,
                user_file.args,
                user_file.kwargs,
                cells=other.cells,
                weights=other.weights,
                load_weights=load_weights,
                write_map=write_map,
                more_inputs=user_file.more_inputs,
                progress=progress,
                **(options | {"loss": user_file.loss}),
            )


def convert_model_file(
    model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), dtype: str | None = None
) -> Program:
    """Return the program of a model file, captured on the first of its inputs, in its own dtypes or in `dtype`.

    Notes on the conversion are printed on stderr.
    """
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed, on_meta=True), dynamic)
        from ...converter import from_torch

        progress.stage("capture", None)
        arguments = user_file.module, user_file.args, user_file.kwargs
        with quiet(verbose), warnings_as_notes() as notes:
            if dtype is None:
                program = from_torch(
                    *arguments, dynamic_shapes=user_file.dynamic_shapes, copy=False, checkpoint=user_file.checkpoint
                )
            else:
                from ..sides.torch_program import capture_program

                program = capture_program(
                    *arguments, user_file.dynamic_shapes, dtype, train=False, checkpoint=user_file.checkpoint
                )
    for note in notes:
        echo(f"note: {note}", err=True)
    return program
