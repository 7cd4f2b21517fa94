"""`LogProbabilities`: what another engine computed for each token, as it reports it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from ....runtime.errors import UsageError
from ...results.comparison import Comparison
from ...sides.records import Array
from ...verdicts.deviations import reference_error
from ...verdicts.judge import Tolerance, judge
from .choices import log_softmax

RECORDED = "recorded"


@dataclass(frozen=True)
class LogProbabilities:
    """Sequences, and the logarithm of the probability of each token after those before it.

    Attributes:
        tokens: int64[batch, length], prompts included.
        values: [batch, length]; NaN where it isn't known, as for the first token.
    """

    tokens: torch.Tensor
    values: Array

    def compare(
        self, truth: Sequence[Array], working_logits: Sequence[Array], tolerance: Tolerance
    ) -> Iterator[Comparison]:
        """Yield the comparison of each sequence with logits [length, vocabulary] in float64 and the working dtype."""
        for number, values in enumerate(self.values):
            after = self.tokens[number].numpy()[1:, None]
            expected, working = (
                np.take_along_axis(log_softmax(rows[number])[:-1], after, -1)[:, 0] for rows in (truth, working_logits)
            )
            finite = np.isfinite(values[1:])
            expected, working, candidate = expected[finite], working[finite], values[1:][finite]
            # a sequence has a few values alone: the error that the reference may make is that of any log-probability
            noise = reference_error(log_softmax(working_logits[number]), log_softmax(truth[number]))
            fields = judge("rounding", candidate, expected, working, noise, tolerance)
            yield Comparison(
                RECORDED, "rounding", "end to end", "output", "log-probabilities", 0, input=number + 1, **fields
            )


def read_log_probabilities(path: str | PathLike[str]) -> LogProbabilities:
    """Read a `.npz` file with `tokens` and `logprobs`.

    Raises:
        UsageError: there is none, or its arrays don't fit together.
    """
    if not Path(path).is_file():
        raise UsageError(f"no such file: {path}")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("tokens", "logprobs") if name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} isn't a .npz file of arrays: {error}") from error
    if len(arrays) < 2:
        raise UsageError(f"{path}: needed the arrays tokens and logprobs, given {', '.join(arrays) or 'neither'}")
    tokens, values = arrays["tokens"], arrays["logprobs"]
    fit = tokens.ndim == 2 and values.shape == tokens.shape and len(tokens) > 0 and tokens.shape[1] > 1
    if not fit or tokens.dtype.kind not in "iu" or values.dtype.kind != "f":
        raise UsageError(
            f"{path}: needed tokens of integers and logprobs of floating-point numbers, both [batch, length] with two "
            f"tokens or more, given {tokens.dtype}{list(tokens.shape)} and {values.dtype}{list(values.shape)}"
        )
    return LogProbabilities(torch.from_numpy(tokens.astype(np.int64)), values)
