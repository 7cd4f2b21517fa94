"""`check_training`: a module trained by torch, by the interpreter and compiled, compared step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch.utils import _pytree as pytree

from ....converter.capture.export_errors import require_ready
from ....converter.capture.wrappers import unwrap_arguments
from ....converter.exclusive import one_at_a_time
from ....runtime.errors import ConversionError, UsageError
from ....runtime.ir.program import Program
from ...inputs.arguments import as_arguments
from ...inputs.sizes import format_sizes, other_sizes, resize
from ...options import Options, from_keywords
from ...report.training_report import TrainingReport
from ...results.comparison import Comparison
from ...results.conditions import Conditions
from ...results.modes import mode_notes
from ...results.notes import warnings_as_notes
from ...sides.names import COMPILED, INTERPRETER
from ...sides.opening import require_module
from ...support.progress import NoProgress, Progress
from ...verdicts.deviations import size
from ...verdicts.judge import epsilon
from .batches import arrays_of, example_batches, first_batches, reorder_batch
from .loss_network import Loss, loss_program
from .program_steps import ProgramSteps
from .proofs import Proofs, budget_of_training, prove, trajectory_of_config
from .quantities import TrainingRecord
from .torch_steps import Batch, TorchSteps
from .training_config import TrainingConfig, TrainingConfigKeywords
from .trial import TrainingNoise, judge_training_side


@one_at_a_time
@unwrap_arguments
def check_training(
    module: torch.nn.Module,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | None = None,
    dynamic_shapes: Any = None,
    more_inputs: Iterable[Batch] = (),
    dtype: str = "float32",
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    provider: str = "cpu",
    model: str = "",
    progress: Progress | None = None,
    **config: Unpack[TrainingConfigKeywords],
) -> TrainingReport:
    """Train a module on torch, in the interpreter and compiled, and compare every step.

    All sides start with the module's weights and get the same batches and random draws. The first batches are the
    example inputs and `more_inputs`; the others are derived from these in turn: each floating-point number is
    multiplied by a random factor from [1/2, 1), which keeps zeros, signs and bounds, and integers stay unchanged. If
    axes may vary, one more step is made at each of a few other sizes. The module is left unchanged.

    Args:
        module: the reference.
        args: positional example inputs: a tuple, a single tensor, or a dict of keyword inputs.
        kwargs: keyword example inputs.
        loss: maps the module's result to a scalar; None for the mean of squares of all floating-point outputs.
        dynamic_shapes: axes that may vary, as for `converter.from_torch`.
        more_inputs: positional and keyword inputs of further batches, as many as the steps need.
        dtype: "float32" or "float64"; or "float16" or "bfloat16" for torch's autocast, with parameters in float32.
        rtol: relative tolerance instead of the computed bar.
        atol: absolute tolerance instead of the computed bar.
        seed: seed of torch's random numbers and of the batches.
        provider: ONNX Runtime's execution provider, by its name in `runtime.providers`.
        model: name for the report.
        progress: receives the stages of the run.
        **config: fields of `TrainingConfig`.

    Returns:
        The report.

    Raises:
        UsageError: an argument is wrong, the inputs don't fit the module, there is no finite loss or no gradient, or a
            complex parameter is trained with a loss scale.
        ConversionError: the module and its loss can't be converted.
    """
    chosen = from_keywords(TrainingConfig, check_training, config)
    options = Options(dtype=dtype, rtol=rtol, atol=atol, seed=seed, provider=provider)
    dtype = options.dtype
    require_module(module, "is trained")
    require_ready(module)
    _require_scalable(module, chosen)
    stages = progress or NoProgress()
    args, keywords = as_arguments(args, kwargs)
    stages.stage("capture", None)
    with warnings_as_notes() as notes:
        program, capture_notes = _capture_loss(module, args, keywords, dynamic_shapes, loss, dtype)
    inputs, has_more = first_batches((args, keywords), (as_arguments(*batch) for batch in more_inputs), chosen.batches)
    inputs[1:] = [reorder_batch(program, inputs[0], batch, number) for number, batch in enumerate(inputs[1:], 2)]
    batches = example_batches(inputs, chosen.batches, seed)
    steps = chosen.steps

    def try_out(batch: Batch) -> None:
        once = replace(chosen, steps=1, accumulate=1, loss_scale=None)
        _require_finite(TorchSteps(module, loss, [batch], once, dtype, seed).run("float64"))

    elsewhere, size_notes = _at_other_sizes(program, (args, keywords), dynamic_shapes, try_out)
    chosen = replace(chosen, steps=steps + len(elsewhere))
    batches += [batch for batch in elsewhere.values() for _ in range(chosen.accumulate)]
    arrays = [arrays_of(batch) for batch in batches]
    sides = [ProgramSteps(n, program, arrays, chosen, dtype, provider) for n in (INTERPRETER, COMPILED)]
    reference = TorchSteps(module, loss, batches, chosen, dtype, seed)
    unscaled = replace(chosen, loss_scale=1.0)
    stages.stage("torch", None)
    truth = reference.run("float64")
    if chosen.loss_scale is None:
        _require_finite(truth)
    report = TrainingReport(
        model or type(module).__name__, [side.name for side in sides], options.dtype, chosen.steps, str(chosen)
    )
    report.conditions = Conditions(options)
    report.notes += mode_notes(module, True) + notes + capture_notes + size_notes
    report.notes += _input_notes(inputs, has_more, chosen)
    if elsewhere:
        places = [f"step {number} at {label}" for number, label in enumerate(elsewhere, steps + 1)]
        report.notes.append(f"made at other sizes than those of the example inputs: {', '.join(places)}")
    if dtype == "float64":
        report.notes.append("compiled was compared in float32: ONNX Runtime has kernels in float64 for few operators")

    @functools.cache
    def noise(check: str, in_dtype: str) -> TrainingNoise:
        # a scale doesn't change the result, and in float64 it causes no overflow
        scaled = check == "rounding" or chosen.loss_scale is None
        torch_ = reference if scaled else TorchSteps(module, loss, batches, unscaled, dtype, seed)
        first = torch_.run(in_dtype, truth.draws)
        unscaled_truth = truth
        if first.overflowed != truth.overflowed:
            skipped = [step for step, out in enumerate(first.overflowed) if out]
            unscaled_truth = torch_.run("float64", truth.draws, skipped=skipped)
        return TrainingNoise(
            lambda run_dtype, jitter, units: torch_.run(run_dtype, truth.draws, jitter, units=units),
            unscaled_truth,
            in_dtype,
            first,
        )

    def proofs(run: TrainingRecord, in_dtype: str, comparisons: Sequence[Comparison]) -> Proofs:
        unit = epsilon("float64" if in_dtype == "float64" else "float32")
        trajectory = trajectory_of_config(run, truth, chosen, comparisons, unit)
        # the gradients of the networks were compared already, so that what isn't explained isn't theirs
        if trajectory is None:
            return Proofs()
        budget = budget_of_training()
        causes = prove(trajectory, budget).causes
        return Proofs(causes, explanations=[budget.note] if budget.limit else [])

    for side in sides:
        stages.stage(side.name, None)
        judge_training_side(
            report, side, truth, noise, lambda run: _problems(truth, run), proofs, options.rtol, options.atol
        )
    if not report.problems and not report.failures:
        report.notes += _overflows(noise(*sides[1].checks[0]).first)
    return report


def _input_notes(inputs: list[Batch], has_more: bool, config: TrainingConfig) -> Iterator[str]:
    """Yield a note on how the inputs are used as batches, if there are several."""
    if has_more:
        yield (
            f"only the first {len(inputs)} inputs were trained on, one per batch: more steps (--train-steps) use more"
        )
    elif len(inputs) > 1:
        yield f"trained on all {len(inputs)} inputs, one per batch; any other batches are derived from them"


def _require_scalable(module: torch.nn.Module, config: TrainingConfig) -> None:
    """Raise `UsageError` for a loss scale with complex gradients, which torch's `GradScaler` doesn't unscale."""
    trained = ((n, p) for n, p in module.named_parameters() if p.requires_grad and not config.is_frozen(n))
    complex_names = [name for name, parameter in trained if parameter.is_complex()]
    if config.loss_scale is not None and complex_names:
        raise UsageError(
            f"torch's GradScaler has no loss scale for complex parameters: {', '.join(complex_names)}\n"
            "  what to do: train without a loss scale, or freeze them"
        )


def _capture_loss(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    loss: Loss | None,
    dtype: str,
) -> tuple[Program, list[str]]:
    """Return the program of the module and its loss; with fixed sizes, and a note, if sizes can't vary in training."""
    try:
        return loss_program(module, args, kwargs, loss=loss, dynamic_shapes=dynamic_shapes, dtype=dtype), []
    except ConversionError as error:
        if dynamic_shapes is None:
            raise
        # raises its own error if sizes aren't the problem
        program = loss_program(module, args, kwargs, loss=loss, dtype=dtype)
        message = " ".join(line.strip() for line in str(error).splitlines()[:2])
        return program, [f"not compared at other sizes, for which the model with its loss can't be captured: {message}"]


def _at_other_sizes(
    program: Program, example: Batch, dynamic_shapes: Any, try_out: Callable[[Batch], None]
) -> tuple[dict[str, Batch], list[str]]:
    """Return batches of other sizes by label, if any axes are dynamic; and notes on those that torch refuses."""
    batches: dict[str, Batch] = {}
    notes: list[str] = []
    tensors = [leaf for leaf in pytree.tree_leaves(example) if isinstance(leaf, torch.Tensor)]
    for sizes in other_sizes(program, tensors, dynamic_shapes):
        if 1 in sizes.values():  # where gradients vanish (attention to one key), Adam sees nothing but rounding
            continue
        batch = resize(program, *example, sizes)
        try:
            try_out(batch)
        except UsageError as error:
            notes.append(f"not compared at {format_sizes(sizes)}: {error}".partition("\n")[0])
        else:
            batches[format_sizes(sizes)] = batch
    return batches, notes


def _require_finite(truth: TrainingRecord) -> None:
    for number, step in enumerate(truth.steps, 1):
        for quantity, array in step.items():
            if quantity.kind == "loss" and size(array) != abs(float(array)):
                raise UsageError(
                    f"{quantity.name} of step {number} is {float(array)} in torch, in float64: there is nothing to "
                    "compare; give inputs, a loss(outputs) or a learning rate with which it is finite"
                )


def _problems(truth: TrainingRecord, run: TrainingRecord) -> Iterator[str]:
    """Yield the differences other than in numbers."""
    for name in sorted(truth.trained.keys() | run.trained.keys()):
        reference, candidate = truth.trained.get(name), run.trained.get(name)
        if candidate != reference:
            words = {True: "trained", False: "frozen", None: "missing"}
            yield f"{name}: {words[candidate]} in the candidate, {words[reference]} in the reference"
    for step, out in enumerate(truth.overflowed):  # torch has no gradients of a step that was skipped
        if not out:
            for quantity in sorted(run.steps[step].keys() ^ truth.steps[step].keys()):
                side = "candidate" if quantity in run.steps[step] else "reference"
                yield f"{quantity.kind} {quantity.name}: only in the {side}"
            break


def _overflows(run: TrainingRecord) -> Iterator[str]:
    steps = [str(number) for number, out in enumerate(run.overflowed, 1) if out]
    if steps:
        yield (
            f"the update of step {', '.join(steps)} was skipped on every side because a gradient wasn't finite: its "
            "gradients were not compared"
        )
