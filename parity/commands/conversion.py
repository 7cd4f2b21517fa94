"""Model files on the command line: reports on them, and their programs.

torch is imported only when one is loaded, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from ...runtime.errors import UsageError
from ..inputs.dynamic_axes import with_dynamic_axes
from ..inputs.model_file import Candidate, ModelFile, load, load_candidate
from ..jobs.training.training_config import TrainingConfig, TrainingConfigKeywords
from ..options import OptionKeywords
from ..report.layout import echo
from ..results.notes import warnings_as_notes
from ..sides.kinds import Kind, kind_of_path
from ..support.progress import Progress, ProgressDisplay
from .command import quiet

if TYPE_CHECKING:
    from ...runtime.ir.program import Program
    from ..checking.model_files import ConversionKeywords
    from ..report.report import Report
    from ..report.training_report import TrainingReport


@contextmanager
def loaded(
    model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), **keywords: Any
) -> Iterator[tuple[ModelFile, Progress]]:
    """Load a model file, and yield it with the progress of what is done with it, without torch's logs.

    Args:
        model: the file.
        seed: seed of torch's random numbers.
        verbose: leave torch's logs.
        dynamic: axes that vary, as for `--dynamic`.
        **keywords: as for `load`.
    """
    with ProgressDisplay() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed, **keywords), dynamic)
        with quiet(verbose):
            yield user_file, progress


def check_model_file(
    model: str,
    verbose: bool,
    options: OptionKeywords,
    dynamic: Sequence[str] = (),
    memory: int | None = None,
    **more: Unpack[ConversionKeywords],
) -> Report:
    """Return the report on a model file.

    With `memory`, or if the file's model is on the meta device, it is judged in parts that fit into that many bytes.
    """
    with loaded(model, options["seed"], verbose, dynamic, with_port=True) as (user_file, progress):
        if memory is None and user_file.mapped is None:
            from ..checking.model_files import judge_model_file

            return judge_model_file(user_file, progress, options, **more)
        report = _check_out_of_core(user_file, memory, options, progress, more)
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
    user_file: ModelFile, memory: int | None, options: OptionKeywords, progress: Progress, more: ConversionKeywords
) -> Report:
    """Return the report on a model file that is judged in parts, which may take most of the machine's memory."""
    of_whole = {"--round-trip": more.get("round_trip"), "cell": user_file.has_port, "recording": user_file.recording}
    if names := [name for name, value in of_whole.items() if value is not None and value is not False]:
        raise UsageError(
            f"a network in parts is compared with its conversions alone: leave out {', '.join(names)}, or --memory"
        )
    from ...runtime.memory import memory_size
    from ..jobs.out_of_core.check import check_out_of_core

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


def compare_with_recording(
    model: str, recording: str, names: str | None, verbose: bool, options: OptionKeywords
) -> Report:
    """Return the report on a recording compared with a model file, on its first inputs."""
    with loaded(model, options["seed"], verbose) as (user_file, progress):
        from ..checking.model_files import judge_by_recording

        return judge_by_recording(user_file, recording, names, progress, options)


def check_ranks(
    model: str, ranks: int, verbose: bool, options: OptionKeywords, config: TrainingConfigKeywords | None
) -> Report:
    """Return the report on a model file on several processes, compared with itself on one; of training too."""
    with loaded(model, options["seed"], verbose) as (user_file, progress):
        from ..jobs.parallel.check import check_parallel

        training = None if config is None else TrainingConfig(**config)
        return check_parallel(user_file, ranks, training=training, progress=progress, options=options)


def check_model_file_training(
    model: str,
    seed: int,
    verbose: bool,
    config: TrainingConfigKeywords,
    options: OptionKeywords,
    dynamic: Sequence[str] = (),
) -> TrainingReport:
    """Return the report on training a model file."""
    with loaded(model, seed, verbose, dynamic) as (user_file, progress):
        from ..jobs.training.check import check_training

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


def compare_with_model_file(
    reference: str,
    candidate: str,
    verbose: bool,
    options: OptionKeywords,
    load_weights: bool | str = False,
    write_map: str | None = None,
) -> Report:
    """Return the report on a model file, or an ONNX file, compared with a model file, on the inputs of that."""
    with ProgressDisplay() as progress:
        progress.stage("load", None)
        user_file, other = load(reference, options["seed"]), Candidate(candidate)
        if kind_of_path(candidate) is Kind.MODEL_FILE:
            other = load_candidate(candidate, options["seed"])
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
    with (
        loaded(model, seed, verbose, dynamic, on_meta=True) as (user_file, progress),
        warnings_as_notes() as notes,
    ):
        from ...converter import from_torch

        progress.stage("capture", None)
        arguments = user_file.module, user_file.args, user_file.kwargs
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
