"""`parity generate`."""

from __future__ import annotations

from typing import Any

import click

from ...runtime.errors import UsageError
from ..dtypes import WORKING_DTYPES
from ..inputs.model_file import ModelFile, load
from ..report.formats import FORMATS
from ..support.progress import TerminalProgress
from .command import EXIT_CODES, Command, common_options, quiet
from .outcome import finish, require_file, require_outputs


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option(
    "--tokens", type=click.IntRange(min=1), default=64, show_default=True, help="Number of tokens to generate."
)
@click.option(
    "--logprobs",
    metavar="FILE",
    help="Judge the log-probabilities of another engine too: a .npz file with tokens and logprobs, [batch, length].",
)
@click.option(
    "--dtype",
    type=click.Choice(list(WORKING_DTYPES)),
    default="float32",
    show_default=True,
    help="The dtype that rounding is judged in.",
)
@click.option("--json", "json_file", metavar="FILE", help=FORMATS["json"].help)
@click.option("--junit", "junit_file", metavar="FILE", help=FORMATS["junit"].help)
@click.option("--html", "html_file", metavar="FILE", help=FORMATS["html"].help)
@common_options
def generate(
    model: str,
    seed: int,
    verbose: bool,
    tokens: int,
    logprobs: str | None,
    dtype: str,
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
) -> None:
    """Judge whether MODEL computes the same with a cache, in chunks and with padding as on the whole sequence.

    MODEL is a model file, as for parity run; the first tensor of its inputs is the prompt, [batch, length], which is
    continued by the likeliest tokens. Models of transformers are called with past_key_values. For others, the file
    defines decode(module, tokens, state), which returns the outputs for the new tokens and the new state, or
    decode(module, tokens, state, mask), whose mask, [batch, length so far], is 0 where there is padding.

    If the first tensor is of floating-point numbers, [batch, length, ...], it is the whole sequence of a streaming
    model, and each way to cut it into chunks must give the same outputs and states.

    Where the likeliest token differs, the report says whether it is a tie within rounding.
    """
    files = {"json": json_file, "junit": junit_file, "html": html_file}
    require_outputs({f"--{name}": path for name, path in files.items()}, {"--logprobs": logprobs})
    if logprobs is not None:
        require_file(logprobs)
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = load(model, seed)
        from ..generation.check import check_generation
        from ..generation.recorded import read_log_probabilities

        recorded = None if logprobs is None else read_log_probabilities(logprobs)
        with quiet(verbose):
            report = check_generation(
                user_file.module,
                _prompt(user_file),
                decode=user_file.decode,
                tokens=tokens,
                recorded=recorded,
                dtype=dtype,
                seed=seed,
                model=user_file.name,
                progress=progress,
            )
    finish(report, verbose, files)


def _prompt(user_file: ModelFile) -> Any:
    """Return the first tensor of the inputs."""
    import torch

    values = [*user_file.args, *([user_file.kwargs["input_ids"]] if "input_ids" in user_file.kwargs else [])]
    found = [value for value in [*values, *user_file.kwargs.values()] if isinstance(value, torch.Tensor)]
    if not found or found[0].ndim < 2:
        shape = f"of the shape {list(found[0].shape)}" if found else "nothing"
        raise UsageError(
            f"{user_file.name}: needed a prompt, [batch, length], as the first tensor of inputs(), {shape}"
        )
    return found[0]
