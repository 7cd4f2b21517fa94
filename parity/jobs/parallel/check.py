"""`check_parallel`: a network on several processes of this machine, compared with the same network on one."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

from ....runtime.errors import UsageError
from ...checking.recordings.against import compare_with_recording
from ...checking.recordings.judge import judge
from ...checking.recordings.recording import Recording, open_recording
from ...inputs.model_file import ModelFile
from ...options import OptionKeywords
from ...report.report import Report
from ...sides.records import Array
from ...support.progress import NoProgress, Progress
from ..recording.write import record
from ..training.loss_network import mean_square
from ..training.training_config import TrainingConfig
from .assemble import assemble
from .dropout import alike, dropouts
from .worker import RECORDED, Job, require_parallelize, work


def check_parallel(
    user_file: ModelFile,
    ranks: int,
    *,
    training: TrainingConfig | None = None,
    progress: Progress | None = None,
    options: OptionKeywords,
) -> Report:
    """Run a model file's network on several processes, and compare it with the network on one, Cell by Cell.

    Args:
        user_file: the model file, which defines `parallelize(module, mesh)`.
        ranks: number of processes.
        training: compare steps of training too; None for one call forward and backward.
        progress: receives the stages.
        options: fields of `Options`.

    Returns:
        The report. Its side is named after the number of processes.

    Raises:
        UsageError: the file has no `parallelize`, the batch can't be split, or a process fails.
    """
    stages = progress or NoProgress()
    require_parallelize(user_file)
    dtype = options.get("dtype", "float32")
    if dtype not in ("float32", "float64"):
        raise UsageError(f"--ranks compares in float32 or float64, given {dtype}")
    seed, train = options.get("seed", 0), bool(options.get("train")) or training is not None
    loss = user_file.loss or mean_square
    common = {**options, "loss": loss, "model": user_file.name, "train": train}
    user_file.module.train(train)
    dropping = dropouts(user_file.module) if train else {}
    for dropout in dropping.values():
        dropout.eval()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stages.stage(f"{ranks} processes", None)
        _launch(Job(user_file.name, seed, ranks, name, dtype, train, training))
        stages.stage("torch", None)
        recording = {key: value for key, value in common.items() if key in ("dtype", "seed", "loss", "model", "train")}
        alone = folder / "torch"
        single = [(user_file.args, user_file.kwargs)] * (1 if training is None else training.steps)
        record(
            user_file.module, user_file.args, alone, user_file.kwargs, training=training, more_inputs=single[1:],
            **recording,  # type: ignore[arg-type]
        )  # fmt: skip
        reference, together = open_recording(alone), folder / f"{ranks} ranks"
        splits = _was_split(reference, open_recording(folder / RECORDED / "rank-0"))
        differences = assemble(folder / RECORDED, ranks, reference, together, splits=splits)
        if training is not None:
            judging = {
                key: value for key, value in options.items() if key in ("rtol", "atol", "only", "skip", "strict")
            }
            report = judge(alone, together, progress=stages, model=user_file.name, **judging)  # type: ignore[arg-type]
        else:
            arguments = (user_file.module, together, user_file.args, user_file.kwargs)
            report = compare_with_recording(*arguments, progress=stages, **common)  # type: ignore[arg-type]
        for path, comparison in alike(sorted(folder.glob("dropped-*")), report.sides[0]) if dropping and splits else ():
            report.cells[path].comparisons.append(comparison)
        _explain(report, reference, differences, folder, ranks)
    if user_file.loss is None:
        report.notes.append("the loss is the mean of the squares of all outputs; define loss(outputs) for another")
    if dropping:
        report.notes.append("dropout was left out of what was compared, since each process draws its own numbers")
    report.notes.append(
        f"each process had a part of the batch: a loss that isn't a mean over the batch differs {ranks}-fold"
        if splits
        else "each process had all inputs"
    )
    return report


def _launch(job: Job) -> None:
    """Run the processes.

    Raises:
        UsageError: one fails.
    """
    try:
        spawn(work, (job,), nprocs=job.ranks)  # type: ignore[no-untyped-call]
    except (ProcessRaisedException, ProcessExitedException) as error:
        errors = sorted(Path(job.folder).glob("error-*"))
        if errors:
            raise UsageError(errors[0].read_text(encoding="utf-8")) from error
        last = [line for line in str(error).splitlines() if line.strip()][-1]
        raise UsageError(f"a process of the parallel model failed: {last}") from error


def _was_split(reference: Recording, part: Recording) -> bool:
    """Whether a process had a part of the inputs."""
    truth, candidate = (recording.run("float64").records for recording in (reference, part))
    return any(candidate.values[key].shape != truth.values[key].shape for key in truth.values
               if key in candidate.values and not key.path and key.kind == "input")  # fmt: skip


def _explain(report: Report, reference: Recording, differences: Collection[str], folder: Path, ranks: int) -> None:
    """Add to failing Cells what their gradients have in common, and which values the processes have differently."""
    failing = {
        comparison.tensor
        for path in report.failing
        for comparison in report.cells[path].failures
        if comparison.kind == "parameter gradient"
    }
    if failing:
        runs = [open_recording(folder / RECORDED / f"rank-{rank}").run("float64") for rank in range(ranks)]
        truth = reference.run("float64").records.gradients.parameters
        expected: dict[str, Array] = {}
        actual: dict[str, list[Array]] = {}
        for name in failing:
            by_run = [run.records.gradients.parameters.get(name) for run in runs]
            gradients, true = [gradient for gradient in by_run if gradient is not None], truth.get(name)
            if (
                true is not None
                and len(gradients) == ranks
                and all(gradient.shape == true.shape for gradient in gradients)
            ):
                expected[name], actual[name] = true, [np.asarray(gradient) for gradient in gradients]
        words = explain_gradients(expected, actual, ranks)
        for path in report.failing:
            if any(c.kind == "parameter gradient" for c in report.cells[path].failures):
                report.cells[path].explanations += words
    if differences:
        names = ", ".join(name or "(root)" for name in list(differences)[:4])
        more = ", ..." if len(differences) > 4 else ""
        report.notes.append(f"the processes have different values of what each has the whole of: {names}{more}")


CLOSE = 1e-6
"""The largest error, relative to the largest element, of a relation between gradients in float64."""


def explain_gradients(
    expected: Mapping[str, Array], actual: Mapping[str, Sequence[Array]], ranks: int
) -> tuple[str, ...]:
    """Return what holds for all gradients that differ, in words; nothing if nothing simple does.

    Args:
        expected: gradients on one process, in float64, by name of the parameter; those that differ alone.
        given: the gradients of each process, in float64.
        ranks: the number of processes.
    """
    names = [name for name in expected if name in actual]
    if not names:
        return ()

    def holds(combine: str, factor: float) -> bool:
        for name in names:
            total = np.mean([np.asarray(gradient, np.float64) for gradient in actual[name]], 0)
            value = total if combine == "mean" else np.asarray(actual[name][0], np.float64)
            scale = float(np.abs(expected[name]).max(initial=0.0)) * abs(factor)
            if float(np.abs(value - factor * expected[name]).max(initial=0.0)) > CLOSE * scale:
                return False
        return True

    alike = all(np.array_equal(actual[name][0], gradient) for name in names for gradient in actual[name][1:])
    if not alike:
        if holds("mean", 1.0):
            return ("the processes have different gradients, whose mean is right: they aren't reduced",)
        if holds("mean", 1.0 / ranks):
            return ("the processes have different gradients, whose sum is right: they aren't reduced",)
        return ("the processes have different gradients: they aren't reduced",)
    words = {
        float(
            ranks
        ): f"the gradients are {ranks} times what they must be: they are summed over {ranks} processes where "
        "their mean is needed, or reduced and scaled once too often",
        1.0 / ranks: f"the gradients are 1/{ranks} of what they must be: they are divided by the number of processes "
        "once too often",
    }
    return tuple(text for factor, text in words.items() if holds("first", factor))
