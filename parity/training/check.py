"""`check_training`: a module trained by torch, by the interpreter and compiled, compared step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.export_errors import require_ready
from ...converter.capture.wrappers import unwrap_arguments
from ...converter.exclusive import one_at_a_time
from ...runtime.errors import ConversionError, UsageError
from ...runtime.ir.program import Program
from ..checking.engine import as_arguments
from ..inputs.sizes import described, other_sizes, resized
from ..options import Options, from_keywords
from ..report.training_report import TrainingReport
from ..results.eval_mode import eval_mode_notes
from ..results.notes import warnings_as_notes
from ..sides.names import COMPILED, INTERPRETER
from ..support.progress import NoProgress, Progress
from ..verdicts.deviations import size
from .batches import arranged, arrays_of, example_batches, first_batches
from .loss_network import Loss, loss_program
from .program_steps import ProgramSteps
from .quantities import Training
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

    All begin with the module's weights and get the same batches and random draws. The first batches are the example
    inputs and `more_inputs`; the others are made of these in turn: each floating-point number is shrunk by a factor
    drawn from [1/2, 1), so that zeros, signs and bounds stay, and integers are as they are. Where axes may vary, a step
    more is made at each of some other sizes. The module is left as it was.

    Args:
        module: the reference.
        args: positional example inputs: a tuple; one tensor will do, and so will a dict of keyword inputs.
        kwargs: keyword example inputs.
        loss: from the module's result to a scalar; None for the mean of squares of all floating-point outputs.
        dynamic_shapes: axes that may vary, as for `converter.from_torch`.
        more_inputs: positional and keyword inputs of further batches, as far as the steps take them.
        dtype: "float32" or "float64"; "float16" or "bfloat16" is what torch's autocast computes in, with parameters in
            float32.
        rtol: in place of the computed bar.
        atol: in place of the computed bar.
        seed: of torch's random numbers and of the batches.
        provider: of ONNX Runtime, "cpu" or "cuda".
        model: what to call it in the report.
        progress: told of stages.
        **config: how it is trained: fields of `TrainingConfig`.

    Returns:
        The report.

    Raises:
        UsageError: an argument is wrong, the inputs don't fit the module, there is no finite loss or no gradient, or
            there is a loss scale and a complex parameter is trained.
        ConversionError: the module and its loss can't be converted.
    """
    chosen = from_keywords(TrainingConfig, check_training, config)
    options = Options(dtype=dtype, rtol=rtol, atol=atol, seed=seed, provider=provider)
    dtype = options.dtype
    require_ready(module)
    _require_scalable(module, chosen)
    shown = progress or NoProgress()
    args, keywords = as_arguments(args, kwargs)
    shown.stage("capture", None)
    with warnings_as_notes() as notes:
        program, refused = _captured(module, args, keywords, dynamic_shapes, loss, dtype)
    given, left_over = first_batches((args, keywords), (as_arguments(*one) for one in more_inputs), chosen.batches)
    given[1:] = [arranged(program, given[0], batch, number) for number, batch in enumerate(given[1:], 2)]
    batches = example_batches(given, chosen.batches, seed)
    steps = chosen.steps

    def try_out(batch: Batch) -> None:
        once = replace(chosen, steps=1, accumulate=1, loss_scale=None)
        _require_finite(TorchSteps(module, loss, [batch], once, dtype, seed).run("float64"))

    elsewhere, others_refused = _at_other_sizes(program, (args, keywords), dynamic_shapes, try_out)
    chosen = replace(chosen, steps=steps + len(elsewhere))
    batches += [batch for batch in elsewhere.values() for _ in range(chosen.accumulate)]
    arrays = [arrays_of(batch) for batch in batches]
    sides = [ProgramSteps(n, program, arrays, chosen, dtype, provider) for n in (INTERPRETER, COMPILED)]
    reference = TorchSteps(module, loss, batches, chosen, dtype, seed)
    unscaled = replace(chosen, loss_scale=1.0)
    shown.stage("torch", None)
    truth = reference.run("float64")
    if chosen.loss_scale is None:
        _require_finite(truth)
    report = TrainingReport(
        model or type(module).__name__, [side.name for side in sides], options.dtype, chosen.steps, str(chosen)
    )
    report.notes += eval_mode_notes(module, True) + notes + refused + others_refused
    report.notes += _of_several(given, left_over, chosen)
    if elsewhere:
        places = [f"step {number} at {label}" for number, label in enumerate(elsewhere, steps + 1)]
        report.notes.append(f"made at other sizes than those of the example inputs: {', '.join(places)}")
    if dtype == "float64":
        report.notes.append("compiled was compared in float32: ONNX Runtime has kernels in float64 for few operators")

    @functools.cache
    def noise(check: str, in_dtype: str) -> TrainingNoise:
        # a scale is no part of what is computed, and in float64 nothing overflows by it
        scaled = check == "rounding" or chosen.loss_scale is None
        torch_ = reference if scaled else TorchSteps(module, loss, batches, unscaled, dtype, seed)
        first = torch_.run(in_dtype, truth.draws)
        there = truth
        if first.overflowed != truth.overflowed:
            left_out = [step for step, out in enumerate(first.overflowed) if out]
            there = torch_.run("float64", truth.draws, left_out=left_out)
        return TrainingNoise(
            lambda run_dtype, jitter, units: torch_.run(run_dtype, truth.draws, jitter, units=units),
            there,
            in_dtype,
            first,
        )

    for side in sides:
        shown.stage(side.name, None)
        judge_training_side(report, side, truth, noise, lambda run: _problems(truth, run), options.rtol, options.atol)
    if not report.problems and not report.failures:
        report.notes += _overflows(noise(*sides[1].checks[0]).first)
    return report


def _of_several(given: list[Batch], left_over: bool, config: TrainingConfig) -> Iterator[str]:
    """A note on which batches are the inputs, where there are several."""
    if left_over:
        yield (
            f"of the inputs, the first {len(given)} were trained on, one a batch: more steps (--train-steps) take more"
        )
    elif len(given) > 1:
        yield f"trained on all {len(given)} inputs, one a batch; the other batches, if any, are made of them"


def _require_scalable(module: torch.nn.Module, config: TrainingConfig) -> None:
    """Raise `UsageError` for a loss scale with complex gradients, which torch's `GradScaler` doesn't unscale."""
    trained = ((n, p) for n, p in module.named_parameters() if p.requires_grad and not config.is_frozen(n))
    found = [name for name, parameter in trained if parameter.is_complex()]
    if config.loss_scale is not None and found:
        raise UsageError(
            f"torch's GradScaler has no loss scale for complex parameters: {', '.join(found)}\n"
            "  what to do: train without a loss scale, or freeze them"
        )


def _captured(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    loss: Loss | None,
    dtype: str,
) -> tuple[Program, list[str]]:
    """The program of the module and its loss; of fixed sizes, and a note, where in training those can't vary."""
    try:
        return loss_program(module, args, kwargs, loss=loss, dynamic_shapes=dynamic_shapes, dtype=dtype), []
    except ConversionError as error:
        if dynamic_shapes is None:
            raise
        # its own error, where sizes aren't what is wrong
        program = loss_program(module, args, kwargs, loss=loss, dtype=dtype)
        said = " ".join(line.strip() for line in str(error).splitlines()[:2])
        return program, [f"not compared at other sizes, for which the model with its loss can't be captured: {said}"]


def _at_other_sizes(
    program: Program, example: Batch, dynamic_shapes: Any, try_out: Callable[[Batch], None]
) -> tuple[dict[str, Batch], list[str]]:
    """Batches of other sizes, if any are open, by what they are called; and notes on those that torch refuses."""
    found: dict[str, Batch] = {}
    notes: list[str] = []
    tensors = [leaf for leaf in pytree.tree_leaves(example) if isinstance(leaf, torch.Tensor)]
    for sizes in other_sizes(program, tensors, dynamic_shapes):
        if 1 in sizes.values():  # where gradients vanish (of attention to one key), rounding is all that Adam sees
            continue
        batch = resized(program, *example, sizes)
        try:
            try_out(batch)
        except UsageError as error:
            notes.append(f"not compared at {described(sizes)}: {error}".partition("\n")[0])
        else:
            found[described(sizes)] = batch
    return found, notes


def _require_finite(truth: Training) -> None:
    for number, step in enumerate(truth.steps, 1):
        for quantity, array in step.items():
            if quantity.kind == "loss" and size(array) != abs(float(array)):
                raise UsageError(
                    f"{quantity.name} of step {number} is {float(array)} in torch, in float64: there is nothing to "
                    "compare; give inputs, a loss(outputs) or a learning rate with which it is finite"
                )


def _problems(truth: Training, run: Training) -> Iterator[str]:
    """What differs in more than numbers."""
    for name in sorted(truth.trained.keys() | run.trained.keys()):
        there, here = truth.trained.get(name), run.trained.get(name)
        if here != there:
            words = {True: "trained", False: "frozen", None: "missing"}
            yield f"{name}: {words[here]} here, {words[there]} in torch"
    for step, out in enumerate(truth.overflowed):  # of a step that was left out, torch tells no gradients
        if not out:
            for quantity in sorted(run.steps[step].keys() ^ truth.steps[step].keys()):
                yield f"{quantity.kind} {quantity.name}: only {'here' if quantity in run.steps[step] else 'in torch'}"
            break


def _overflows(run: Training) -> Iterator[str]:
    steps = [str(number) for number, out in enumerate(run.overflowed, 1) if out]
    if steps:
        yield (
            f"the update of step {', '.join(steps)} was left out on every side, as a gradient wasn't finite: its "
            "gradients were not compared"
        )
