"""The groups of options that commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from ...dtypes import WORKING_DTYPES
from ...options import OptionKeywords
from ...report.formats import FORMATS
from .declaring import ArgumentGroup, option
from .parsing import parse_shapes, parse_size

JUDGE, INPUTS, WHERE, REPORTS, LIMITS = "Judge", "Inputs", "Where it runs", "Reports", "Limits"
"""Titles of several groups."""

Shapes = Mapping[str, tuple[int, ...] | None]
"""Shapes by the names of inputs; None for an optional input that is left out."""

_AT_LEAST_0 = click.FloatRange(min=0)
_DTYPE: dict[str, Any] = {"type": click.Choice(list(WORKING_DTYPES)), "default": "float32", "show_default": True}


# --- Judge ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JudgedDtype(ArgumentGroup):
    """The dtype of a comparison."""

    title = JUDGE
    dtype: str = option("--dtype", help="The dtype that rounding is judged in.", **_DTYPE)


@dataclass(frozen=True)
class Selection(ArgumentGroup):
    """Which Cells are judged."""

    title = JUDGE
    only: tuple[str, ...] = option(
        "--only", multiple=True, metavar="GLOB", help="Judge only Cells whose path matches; may be repeated."
    )
    skip: tuple[str, ...] = option(
        "--skip", multiple=True, metavar="GLOB", help="Leave out Cells whose path matches; may be repeated."
    )


@dataclass(frozen=True)
class Tolerances(ArgumentGroup):
    """By what is judged."""

    title = JUDGE
    no_grad: bool = option("--no-grad", is_flag=True, help="Compare outputs only.")
    rtol: float | None = option(
        "--rtol", type=_AT_LEAST_0, metavar="NUMBER", help="Relative tolerance, instead of the computed bar."
    )
    atol: float | None = option(
        "--atol", type=_AT_LEAST_0, metavar="NUMBER", help="Absolute tolerance, instead of the computed bar."
    )


def probe_option(*, default: bool | None) -> Any:
    """Declare `--probe`; without a default, what is compared decides."""
    return option(
        "--probe/--no-probe",
        default=default,
        help="If everything agrees, compare on further inputs too, derived from the given ones: other values, "
        "masks, sizes, and calls in a row. It takes about as long again, or up to 10 s. Default: --probe"
        + (" where two networks are compared." if default is None else "."),
    )


@dataclass(frozen=True)
class Judging(JudgedDtype, Tolerances, Selection):
    """How two networks are judged that run here."""

    probe: bool | None = probe_option(default=None)
    strict: bool = option("--strict", is_flag=True, help="Fail also if the sides are divided into Cells differently.")
    fail_fast: bool = option("--fail-fast", is_flag=True, help="Stop at the first failing Cell.")

    def keywords(self, seed: int, provider: str, diagnose_seconds: float | None) -> OptionKeywords:
        """Return the fields of `Options`; ONNX Runtime's provider is chosen, before a model is loaded."""
        if provider != "cpu":
            from ....runtime.compiled.session import choose_provider

            choose_provider(provider)
        keywords: OptionKeywords = {
            "seed": seed,
            "grads": not self.no_grad,
            "dtype": self.dtype,
            "rtol": self.rtol,
            "atol": self.atol,
            "only": self.only,
            "skip": self.skip,
            "fail_fast": self.fail_fast,
            "diagnose_seconds": diagnose_seconds,
            "provider": provider,
            "strict": self.strict,
        }
        if self.probe is not None:
            keywords["probe"] = self.probe
        return keywords


# --- Inputs, and how a model is run ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seed(ArgumentGroup):
    """The seed."""

    title = INPUTS
    seed: int = option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of random numbers, set before a model is loaded.",
    )


@dataclass(frozen=True)
class InputShapes(ArgumentGroup):
    """Shapes of the inputs of an ONNX file."""

    title = INPUTS
    shapes: Shapes = option(
        "--shape",
        multiple=True,
        metavar="NAME=SIZES",
        callback=parse_shapes,
        help="Shape of an input of an ONNX file: x=1,3,96,128; for an item of a sequence, s[0]=2,3. x=none omits an "
        "optional input. May be repeated.",
    )


@dataclass(frozen=True)
class InputArrays(ArgumentGroup):
    """Inputs of an ONNX file."""

    title = INPUTS
    inputs: str | None = option("--inputs", metavar="FILE", help="Arrays by input name (.npz), for ONNX files.")


@dataclass(frozen=True)
class Inputs(InputArrays, InputShapes, Seed):
    """What networks are run on; a model file defines its inputs itself."""


TRAIN_OR_EVAL = (
    "Run in train mode (batch statistics, dropout, buffer updates), or with all parts in eval mode. Default: "
    "eval mode; a model with parts in both modes keeps them."
)


@dataclass(frozen=True)
class Mode(ArgumentGroup):
    """The mode of a comparison."""

    title = JUDGE
    train: bool | None = option("--train/--eval", default=None, help=TRAIN_OR_EVAL)


@dataclass(frozen=True)
class Run(ArgumentGroup):
    """How a model is run that isn't compared."""

    title = "Run"
    train: bool | None = option("--train/--eval", default=None, help=TRAIN_OR_EVAL)
    dtype: str = option("--dtype", help="The dtype that the network computes in.", **_DTYPE)
    no_grad: bool = option("--no-grad", is_flag=True, help="Run the forward pass only.")


@dataclass(frozen=True)
class Provider(ArgumentGroup):
    """Where ONNX Runtime runs."""

    title = WHERE
    provider: str = option(
        "--provider",
        metavar="NAME",
        default="cpu",
        show_default=True,
        help="ONNX Runtime's execution provider: cpu, cuda, tensorrt, openvino, or any other that the installed one "
        "has.",
    )


# --- Reports -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verbosity(ArgumentGroup):
    """How much is printed."""

    title = REPORTS
    verbose: bool = option(
        "-v", "--verbose", is_flag=True, help="Show every Cell, every failing check, and tracebacks."
    )


@dataclass(frozen=True)
class ReportVerbosity(Verbosity):
    """How much of a report is printed."""

    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print only the verdict and the first cause.")


@dataclass(frozen=True)
class ReportFiles(ArgumentGroup):
    """Files of the report: an option for each of `FORMATS`."""

    title = REPORTS
    html_file: str | None = option("--html", metavar="FILE", help=FORMATS["html"].help)
    json_file: str | None = option("--json", metavar="FILE", help=FORMATS["json"].help)
    junit_file: str | None = option("--junit", metavar="FILE", help=FORMATS["junit"].help)

    @property
    def files(self) -> dict[str, str | None]:
        """Paths by format; None for formats that aren't asked for."""
        return {"html": self.html_file, "json": self.json_file, "junit": self.junit_file}

    @property
    def files_by_option(self) -> dict[str, str | None]:
        """Paths by option."""
        return {f"--{name}": path for name, path in self.files.items()}


@dataclass(frozen=True)
class Reports(ReportFiles, ReportVerbosity):
    """Where a report is shown."""


@dataclass(frozen=True)
class Reproduction(ArgumentGroup):
    """Scripts for failures."""

    title = REPORTS
    repro: str | None = option(
        "--repro",
        metavar="DIR",
        help="Write a minimal script for each failure, with its tensors and a README, to this new folder.",
    )


@dataclass(frozen=True)
class ReportsOnFailures(ReportFiles, Reproduction, ReportVerbosity):
    """Where a report is shown whose failures can be reproduced."""


# --- Limits --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CauseSearch(ArgumentGroup):
    """The limit of the search for causes."""

    title = LIMITS
    diagnose_seconds: float | None = option(
        "--diagnose-seconds",
        type=_AT_LEAST_0,
        metavar="SECONDS",
        help=(
            "Stop looking for the causes of failures after this time; 0 looks for none. The report says if the "
            "search was stopped. Default: 600 s."
        ),
    )


@dataclass(frozen=True)
class Memory(ArgumentGroup):
    """The limit of memory."""

    title = LIMITS
    memory: int | None = option(
        "--memory",
        metavar="SIZE",
        callback=parse_size,
        help="Judge a model that is larger than this (8GB) in parts, one after another, so that the process takes no "
        "more; its weights may stay in safetensors files, which the file names as checkpoint (docs/howto/large.md).",
    )


@dataclass(frozen=True)
class Timeout(ArgumentGroup):
    """The limit of time, which every command has."""

    title = LIMITS
    timeout: float | None = option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Stop the command after this time.",
    )


@dataclass(frozen=True)
class Colors(ArgumentGroup):
    """Whether the terminal shows colors, which every command asks."""

    title = REPORTS
    color: str | None = option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        help="Print in color. Default: auto, which asks the terminal, NO_COLOR and FORCE_COLOR.",
    )
