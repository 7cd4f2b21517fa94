"""`parity generate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from ...runtime.errors import UsageError
from ..inputs.model_file import ModelFile
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import JudgedDtype, Reports, Seed
from .command import command
from .conversion import loaded
from .outcome import finish, require_outputs
from .targets import require_file


@dataclass(frozen=True)
class Generation(ArgumentGroup):
    """What is generated."""

    title = "Generate"
    tokens: int = option(
        "--tokens",
        type=click.IntRange(min=1),
        metavar="N",
        default=64,
        show_default=True,
        help="Number of tokens to generate.",
    )
    logprobs: str | None = option(
        "--logprobs",
        metavar="FILE",
        help="Judge the log-probabilities of another engine too: a .npz file with tokens and logprobs, [batch, "
        "length].",
    )


@command("generate")
@click.argument("model")
def generate(model: str, generation: Generation, judging: JudgedDtype, inputs: Seed, reports: Reports) -> None:
    """Check decoding with a cache, in chunks and with padding.

    MODEL must compute the same with a cache, in chunks and with padding as on the whole sequence. It is a model file,
    as for parity run; the first tensor of its inputs is the prompt, [batch, length], which is continued by the
    likeliest tokens. Models of transformers are called with past_key_values. For others, the file defines
    decode(module, tokens, state), which returns the outputs for the new tokens and the new state, or decode(module,
    tokens, state, mask), whose mask, [batch, length so far], is 0 where there is padding.

    If the first tensor is of floating-point numbers, [batch, length, ...], it is the whole sequence of a streaming
    model, and each way to cut it into chunks must give the same outputs and states.

    Where the likeliest token differs, the report says whether it is a tie within rounding.
    """
    logprobs = generation.logprobs
    require_outputs(reports.files_by_option, {"--logprobs": logprobs})
    if logprobs is not None:
        require_file(logprobs)
    with loaded(model, inputs.seed, reports.verbose) as (user_file, progress):
        from ..jobs.generation.check import check_generation
        from ..jobs.generation.recorded import read_log_probabilities

        report = check_generation(
            user_file.module,
            _prompt(user_file),
            decode=user_file.decode,
            tokens=generation.tokens,
            recorded=None if logprobs is None else read_log_probabilities(logprobs),
            dtype=judging.dtype,
            seed=inputs.seed,
            model=user_file.name,
            progress=progress,
        )
    finish(report, reports.verbose, reports.files)


def _prompt(user_file: ModelFile) -> Any:
    """Return the first tensor of the inputs."""
    import torch

    values = [*user_file.args, *([user_file.kwargs["input_ids"]] if "input_ids" in user_file.kwargs else [])]
    tensors = [value for value in [*values, *user_file.kwargs.values()] if isinstance(value, torch.Tensor)]
    if not tensors or tensors[0].ndim < 2:
        shape = f"of the shape {list(tensors[0].shape)}" if tensors else "nothing"
        raise UsageError(
            f"{user_file.name}: needed a prompt, [batch, length], as the first tensor of inputs(), {shape}"
        )
    return tensors[0]
