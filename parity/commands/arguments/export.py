"""The options of `parity export`, and all of them together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from ...options import OptionKeywords
from .declaring import ArgumentGroup, option
from .groups import INPUTS, JUDGE, REPORTS, ReportVerbosity, Seed, probe_option
from .training import WrittenTraining

if TYPE_CHECKING:
    from ...jobs.deployment.sensitivity import Budget

_BUDGET = re.compile(r"(outputs|loss|top1)[ =]([0-9]+(?:\.[0-9]+)?)%")


def _parse_budget(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Budget | None:
    """Parse `loss 0.5%`."""
    if text is None:
        return None
    from ...jobs.deployment.sensitivity import Budget

    match = _BUDGET.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"needed 'outputs', 'loss' or 'top1' and a share: 'loss 0.5%'; given {text!r}")
    return Budget(match[1], float(match[2]) / 100)


@dataclass(frozen=True)
class Target(ArgumentGroup):
    """What is written."""

    title = "Write"
    output: str | None = option("-o", "--output", metavar="FILE", help="The ONNX file to write.")
    bundle: str | None = option(
        "--bundle",
        metavar="FOLDER",
        help=(
            "Write a new folder instead: the model, torch's inputs and outputs, a model card, and programs in "
            "Python, JavaScript and C++ that check on the target whether it is still the same network."
        ),
    )
    opset: int | None = option(
        "--opset",
        type=int,
        metavar="N",
        help="Opset version, from 17 to the newest that ONNX Runtime loads (with --no-check, that onnx knows). "
        "Default: the lowest that represents the model without loss.",
    )
    external_data: bool = option(
        "--external-data",
        is_flag=True,
        help="Write the weights to FILE.data (FILE.<digits>.data where that is taken), as is always done above 2 GB.",
    )

    @property
    def path(self) -> str:
        """The file or folder."""
        return self.output or self.bundle or ""


@dataclass(frozen=True)
class Checking(ArgumentGroup):
    """How what is written is compared with torch."""

    title = JUDGE
    no_check: bool = option("--no-check", is_flag=True, help="Write it without comparing it with torch.")
    no_grad: bool = option("--no-grad", is_flag=True, help="Compare outputs only.")
    probe: bool = probe_option(default=True)


@dataclass(frozen=True)
class DynamicAxes(ArgumentGroup):
    """What may vary."""

    title = INPUTS
    dynamic: tuple[str, ...] = option(
        "--dynamic",
        multiple=True,
        metavar="NAME:AXIS=SYMBOL",
        help="Let this axis of an argument of forward vary (x:0=batch); axes with the same SYMBOL have the same size. "
        "May be repeated. For a MODEL without dynamic_shapes.",
    )


@dataclass(frozen=True)
class ExportedInputs(DynamicAxes, Seed):
    """What a model is run on, and what may vary."""


@dataclass(frozen=True)
class Precision(ArgumentGroup):
    """In what the file computes."""

    title = "Fewer bits"
    fp16: bool = option(
        "--fp16",
        is_flag=True,
        help="Write it in half precision: parameters, inputs and outputs are float16, as after module.half(), and are "
        "compared with torch in float16.",
    )
    bf16: bool = option(
        "--bf16",
        is_flag=True,
        help="Write it in bfloat16, as after module.bfloat16(), and compare with torch in bfloat16.",
    )
    int8: bool = option(
        "--int8",
        is_flag=True,
        help=(
            "Write it with weights of 8 bits per channel: with --calibrate, activations have 8 bits too; "
            "otherwise they are quantized when the file runs, and only in matrix products, lookups and LSTMs."
        ),
    )
    int4: bool = option(
        "--int4",
        is_flag=True,
        help="Write it with weights of 4 bits, in blocks of 32 with a scale each, in products of matrices; all else "
        "stays in float32. --calibrate gives inputs on which errors are measured.",
    )
    calibrate: str | None = option(
        "--calibrate",
        metavar="FILE",
        help="Inputs for --int8 (.npz, by input name), from which ranges are taken: of one call, or of several along "
        "an additional first axis.",
    )
    budget: Budget | None = option(
        "--budget",
        metavar="ERROR",
        callback=_parse_budget,
        help="Keep Cells in float32, with as few weights as possible, until the error is at most 'outputs 1%' of their "
        "norm, 'loss 0.5%', or 'top1 0.2%' of rows whose largest element is another.",
    )
    sensitivity: bool = option(
        "--sensitivity",
        is_flag=True,
        help=(
            "Also measure how much --int8 in each Cell changes the outputs and the model file's loss(), on the "
            "inputs of --calibrate."
        ),
    )

    @property
    def bits(self) -> int | None:
        """Bits of quantized weights; None for a file that isn't quantized."""
        return 8 if self.int8 else 4 if self.int4 else None

    @property
    def dtype(self) -> str:
        """The dtype of the file; that of what is quantized."""
        return "float16" if self.fp16 else "bfloat16" if self.bf16 else "float32"


@dataclass(frozen=True)
class ExportPage(ArgumentGroup):
    """The page on the comparison."""

    title = REPORTS
    html: str | None = option(
        "--html", metavar="FILE", help="Write the report on the comparison as an HTML page; it needs no network."
    )


@dataclass(frozen=True)
class ExportReports(ExportPage, ReportVerbosity):
    """What is said of the comparison."""


@dataclass(frozen=True)
class Export:
    """What a command line of `parity export` asks for.

    Attributes:
        model: the model file.
        target: what is written.
        checking: how that is compared with torch.
        inputs: the seed, and axes that vary.
        precision: in what the file computes.
        training: the step of training, if that is written.
        reports: what is said of the comparison.
        memory: bytes in which the model is judged, in parts; None for no limit.
    """

    model: str
    target: Target
    checking: Checking
    inputs: ExportedInputs
    precision: Precision
    training: WrittenTraining
    reports: ExportReports
    memory: int | None

    @property
    def options(self) -> OptionKeywords:
        """The options of the comparison with torch."""
        return {
            "seed": self.inputs.seed,
            "grads": not self.checking.no_grad,
            "dtype": self.precision.dtype,
            "train": False,
            "probe": self.checking.probe,
        }

    @property
    def external_data(self) -> bool | Literal["auto"]:
        """Whether weights are written to a file of their own."""
        return self.target.external_data or "auto"
