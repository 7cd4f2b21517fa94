"""The options of training, and the three ways to ask for it."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ...jobs.training.training_config import DYNAMIC, OPTIMIZERS, TrainingConfigKeywords
from .declaring import ArgumentGroup, option

TITLE = "Training"


def _parse_loss_scale(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | str | None:
    """Parse a number of at least 1, or "dynamic"."""
    if text is None or text == DYNAMIC:
        return text
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not scale >= 1:
        raise click.BadParameter(f"{text!r} is neither a number of at least 1 nor '{DYNAMIC}'.", ctx, parameter)
    return scale


@dataclass(frozen=True)
class Training(ArgumentGroup):
    """How a network is trained."""

    title = TITLE
    optimizer: str = option(
        "--optimizer",
        type=click.Choice(list(OPTIMIZERS), case_sensitive=False),
        default="adamw",
        show_default=True,
        help="Optimizer of torch.optim; momentum and nesterov are SGD with momentum 0.9.",
    )
    lr: float = option(
        "--lr",
        type=click.FloatRange(min=0),
        metavar="NUMBER",
        default=1e-3,
        show_default=True,
        help="Learning rate.",
    )
    weight_decay: float | None = option(
        "--weight-decay",
        type=click.FloatRange(min=0),
        metavar="NUMBER",
        help="Weight decay. Default: the optimizer's own (0.01 for adamw, else 0).",
    )
    loss_scale: float | str | None = option(
        "--loss-scale",
        callback=_parse_loss_scale,
        metavar="NUMBER|dynamic",
        help="Scale the loss, and skip updates that overflow; dynamic: like torch's GradScaler.",
    )
    clip_norm: float | None = option(
        "--clip-norm",
        type=click.FloatRange(min=0, min_open=True),
        metavar="NUMBER",
        help="Clip gradients to this total norm.",
    )
    accumulate: int = option(
        "--accumulate",
        type=click.IntRange(min=1),
        metavar="N",
        default=1,
        show_default=True,
        help="Batches per step, whose gradients are averaged.",
    )
    frozen: tuple[str, ...] = option(
        "--freeze",
        multiple=True,
        metavar="GLOB",
        help="Don't train parameters whose name matches; may be repeated.",
    )

    def config(self, steps: int | None) -> TrainingConfigKeywords:
        """Return the fields of `TrainingConfig`; without a number of steps, for None."""
        config: TrainingConfigKeywords = {
            "optimizer": self.optimizer,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "loss_scale": self.loss_scale,
            "clip_norm": self.clip_norm,
            "accumulate": self.accumulate,
            "frozen": self.frozen,
        }
        if steps is not None:
            config["steps"] = steps
        return config


@dataclass(frozen=True)
class ComparedSteps(ArgumentGroup):
    """The number of steps that are compared."""

    title = TITLE
    note = (
        "With --train-steps, losses, gradients, overflow decisions, clipped gradients, optimizer state, parameters and "
        "buffers are compared. The loss is loss() of the model file, or else the mean of the squares of all "
        "floating-point outputs. The first batches are inputs(); the others are derived from them. With --dtype "
        "float16 or bfloat16, torch trains under autocast."
    )
    steps: int | None = option(
        "--train-steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="Compare N steps of training instead: torch (autocast, GradScaler, torch.optim), the interpreter and the "
        "compiled step.",
    )


@dataclass(frozen=True)
class ComparedTraining(ComparedSteps, Training):
    """Training that is compared."""


@dataclass(frozen=True)
class RecordedSteps(ArgumentGroup):
    """The number of steps that are recorded."""

    title = TITLE
    note = (
        "With --steps, each step of training is recorded as one call is, and the parameters before it. The loss is "
        "loss() of the model file, or else the mean of the squares of all floating-point outputs."
    )
    steps: int | None = option(
        "--steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="Record N steps of training, in train mode; on inputs() first, and then on batches derived from them.",
    )


@dataclass(frozen=True)
class RecordedTraining(RecordedSteps, Training):
    """Training that is recorded."""


@dataclass(frozen=True)
class WrittenStep(ArgumentGroup):
    """Whether a step of training is written."""

    title = TITLE
    note = (
        "With --training-step, the loss is loss() of the model file, or else the mean of the squares of all "
        "floating-point outputs."
    )
    training_step: bool = option(
        "--training-step",
        is_flag=True,
        help="Write a step of training instead, with its optimizer and state, and a JSON file that describes it "
        "(docs/train_without_torch.md).",
    )
    separate_state: bool = option(
        "--separate-state",
        is_flag=True,
        help="With --training-step, write the initial state to a .safetensors file beside it instead: ONNX Runtime in "
        "JavaScript takes no input that has a value in the model.",
    )


@dataclass(frozen=True)
class WrittenTraining(WrittenStep, Training):
    """A step of training that is written."""
