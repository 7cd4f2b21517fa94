"""The ways to compute one sequence: with a cache, token by token, in chunks, and in a batch with padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

CACHED, SINGLE, CHUNKS, PADDED = "cached", "token by token", "in chunks", "padded"


@dataclass(frozen=True)
class Mode:
    """A way to compute sequences step by step.

    Attributes:
        name: name of the side in the report.
        tokens: the sequences that it is given, [batch, length, ...].
        sizes: lengths of the chunks.
        mask: [batch, length], 0 where there is padding; None if there is none.
        rows: for each sequence, the row of the reference that it is compared with, and the amount of padding before it.
    """

    name: str
    tokens: torch.Tensor
    sizes: Sequence[int]
    mask: torch.Tensor | None
    rows: Sequence[tuple[int, int]]


def step_modes(tokens: torch.Tensor, prompt: int, seed: int) -> Iterator[Mode]:
    """Yield the modes without padding.

    Args:
        tokens: the sequences, [batch, length, ...].
        prompt: length of the part that is given at once before decoding.
        seed: seed of the sizes of chunks.
    """
    length = tokens.shape[1]
    rows = [(row, 0) for row in range(len(tokens))]
    random = np.random.default_rng(seed)
    chunks: list[int] = []
    while (rest := length - sum(chunks)) > 0:
        chunks.append(min(rest, int(random.integers(1, 6))))
    yield Mode(CACHED, tokens, [prompt, *[1] * (length - prompt)], None, rows)
    yield Mode(SINGLE, tokens, [1] * length, None, rows)
    yield Mode(CHUNKS, tokens, chunks, None, rows)


def padded_mode(tokens: torch.Tensor, shorter: torch.Tensor, prompt: int) -> Mode:
    """Return the mode in which sequences are computed together with shorter ones, which are padded on the left.

    Args:
        tokens: the sequences, [batch, length]; rows 0 to batch - 1 of the reference.
        shorter: the same without some tokens at the start; the rows of the reference after those.
        prompt: length of the prompt in `tokens`.
    """
    padding = tokens.shape[1] - shorter.shape[1]
    filler = torch.zeros(len(shorter), padding, dtype=tokens.dtype)
    together = torch.cat([tokens, torch.cat([filler, shorter], 1)])
    mask = torch.ones(together.shape, dtype=torch.int64)
    mask[len(tokens) :, :padding] = 0
    rows = [(row, 0) for row in range(len(tokens))] + [(len(tokens) + row, padding) for row in range(len(shorter))]
    return Mode(PADDED, together, [prompt, *[1] * (tokens.shape[1] - prompt)], mask, rows)
