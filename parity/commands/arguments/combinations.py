"""Which options can't be combined, and which need another one: a table.

A row holds for every command that has its options. Besides options, it names circumstances (`CIRCUMSTANCES`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from ...sides.kinds import Kind, kind_of_path

_TRAINING = (
    "--optimizer", "--lr", "--weight-decay", "--loss-scale", "--clip-norm", "--accumulate", "--freeze",
)  # fmt: skip


@dataclass(frozen=True)
class Excludes:
    """None of `options` is given together with another one of `others`.

    Attributes:
        options: options, or circumstances.
        others: options, or circumstances; the same ones if only one of them may be given.
        reason: why, as a clause that follows a colon.
    """

    options: tuple[str, ...]
    others: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Needs:
    """Where one of `options` is given, one of `others` is given, too; attributes as of `Excludes`."""

    options: tuple[str, ...]
    others: tuple[str, ...]
    reason: str


_PRECISIONS = ("--fp16", "--bf16", "--int8", "--int4")
_REPORTS = ("--html", "--json", "--junit")
_NOT_OF_PROPOSALS = (
    "--map", "--only", "--skip", "--no-grad", "--rtol", "--atol", "--diagnose-seconds", *_REPORTS, "--repro",
)  # fmt: skip
_NOT_OF_STEPS = (
    "--train", "--eval", "--round-trip", "--save-onnx", "--only", "--skip", "--fail-fast", "--diagnose-seconds",
    "--strict", "--probe", "--no-probe", "--no-grad", "--repro",
)  # fmt: skip
_OF_JUDGING_MODELS = (
    "--output", "--workers", "--ray", "--case-seconds", "--case-memory", "--rerun", "--changed-since", *_REPORTS,
)  # fmt: skip

COMBINATIONS: tuple[Excludes | Needs, ...] = (
    Excludes(("--quiet",), ("--verbose",), "the one prints the verdict alone, the other everything"),
    # What is compared
    Needs(("--inputs", "--shape"), ("an ONNX file",), "a model file defines inputs() itself"),
    Excludes(("--inputs",), ("--shape",), "its arrays have shapes already"),
    Needs(
        ("--train", "--eval", "--round-trip", "--save-onnx", "--against", "--ranks", "--train-steps", "--memory"),
        ("a model file",),
        "there is no torch module in an ONNX file",
    ),
    Excludes(("--load-weights", "--write-map"), ("an ONNX file",), "a file has its own weights"),
    Excludes(("--load-weights",), ("--map",), "the map says where the weights belong"),
    Needs(("--write-map",), ("--load-weights",), "it writes what is found"),
    Needs(("--map",), ("--against",), "it says which Cell of the recording is which"),
    Excludes(("--against",), ("--round-trip", "--save-onnx"), "the recording is compared instead of conversions"),
    Excludes(("--against",), ("--train-steps",), "calls are compared with a recording, and not steps"),
    Excludes(
        ("--ranks",),
        ("--against", "--round-trip", "--save-onnx"),
        "on several processes, a model is compared with itself",
    ),
    Excludes(
        ("--memory",),
        ("--ranks", "--against", "--round-trip", "--train-steps"),
        "a model in parts is never run as a whole",
    ),
    Excludes(
        ("--json", "--junit", "--save-onnx", "--repro", "--inputs", "--shape"),
        ("several MODELs",),
        "each is for one MODEL, so run them one by one",
    ),
    # How it is judged
    Excludes(("--repro",), ("--diagnose-seconds 0",), "it reproduces causes, which aren't looked for then"),
    Excludes(("--propose-map",), _NOT_OF_PROPOSALS, "it writes a map, and nothing is judged"),
    # Training
    Needs(_TRAINING, ("--train-steps", "--steps", "--training-step"), "otherwise nothing is trained"),
    Excludes(("--train-steps",), _NOT_OF_STEPS, "whole steps of training are compared"),
    Needs(("--separate-state",), ("--training-step",), "it writes the state of a training step"),
    Excludes(
        ("--training-step",),
        (*_PRECISIONS, "--external-data"),
        "a training step keeps its state in float32 in one file",
    ),
    Excludes(
        ("--training-step",),
        ("--no-grad", "--probe", "--no-probe"),
        "whole steps of training are compared",
    ),
    # What is exported
    Needs(("parity export",), ("--output", "--bundle"), "it writes a file or a folder"),
    Excludes(("--output",), ("--bundle",), "a bundle is a folder, which has the file in it"),
    Excludes(_PRECISIONS, _PRECISIONS, "each chooses the number format of the file"),
    Needs(("--calibrate",), ("--int8", "--int4"), "the ranges of quantized values are taken from its inputs"),
    Needs(("--sensitivity", "--budget"), ("--calibrate",), "errors are measured on its inputs"),
    Excludes(("--sensitivity", "--budget"), ("--int4",), "the errors of Cells are measured in 8 bits"),
    Excludes(
        ("--external-data",), ("--int8", "--int4"), "the weights of a quantized file are in it, as long as they fit"
    ),
    Excludes(("--no-check",), ("--html",), "the page shows the comparison, which is left out"),
    Excludes(("--bundle",), ("--no-check", "--training-step"), "a bundle has a model that was compared with torch"),
    Excludes(("--bundle",), ("--bf16",), "ONNX Runtime in JavaScript hasn't bfloat16"),
    Excludes(
        ("--memory",),
        ("--bundle", "--training-step", "--int8", "--int4", "--no-check"),
        "a model is judged in parts, and written as one float file",
    ),
    # Sweeps
    Excludes(("--ray",), ("--workers",), "Ray says how many run at a time"),
    Excludes(("--rerun",), ("--changed-since",), "both say what to judge again"),
    Excludes(("--compare",), _OF_JUDGING_MODELS, "two files of results are read, and nothing is judged"),
)


@dataclass(frozen=True)
class Circumstance:
    """What a row names besides options.

    Attributes:
        commands: names of the commands in which it may be.
        holds: whether it holds, for each MODEL to which that applies.
    """

    commands: frozenset[str]
    holds: Callable[[click.Context], Sequence[bool]]


def _targets(ctx: click.Context) -> Sequence[str]:
    """Return the MODELs, or the REFERENCE."""
    if "models" in ctx.params:
        models: Sequence[str] = ctx.params["models"]
        return models
    return [ctx.params["model" if "model" in ctx.params else "reference"]]


def _are_onnx_files(ctx: click.Context) -> list[bool]:
    return [
        kind_of_path(target) is Kind.ONNX_FILE and (target.endswith(".onnx") or os.path.exists(target))
        for target in _targets(ctx)
    ]  # what has another name and isn't there is refused as such


CIRCUMSTANCES = {
    "an ONNX file": Circumstance(frozenset({"run", "compare", "inspect"}), _are_onnx_files),
    "a model file": Circumstance(frozenset({"run"}), lambda ctx: [not is_onnx for is_onnx in _are_onnx_files(ctx)]),
    "several MODELs": Circumstance(frozenset({"run"}), lambda ctx: [len(_targets(ctx)) > 1]),
    "--diagnose-seconds 0": Circumstance(
        frozenset({"run", "compare", "judge", "upgrade"}), lambda ctx: [ctx.params["diagnose_seconds"] == 0]
    ),
    "parity export": Circumstance(frozenset({"export"}), lambda ctx: [True]),
}
