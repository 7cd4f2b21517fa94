"""Which token is chosen, and how likely each is: what sampling and reinforcement learning depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...results.comparison import json_value
from ...sides.records import Array


@dataclass(frozen=True)
class Likelihoods:
    """How far the probabilities of one side are from those of the reference in float64.

    Attributes:
        side: name of the side.
        difference: largest difference of log-probabilities.
        position: where that is, in the sequence.
        units: that difference, in units of the reference's own.
        divergence: largest Kullback-Leibler divergence of a position, in nats.
        choices: positions at which another token is the likeliest.
        ties: those of them where the margin is within the bar: rounding decides.
        margin: at the first of `choices`, how much less likely the other token is in float64, as a logit.
        bar: the largest difference of logits that rounding explains.
    """

    side: str
    difference: float
    position: int
    units: float
    divergence: float
    choices: tuple[int, ...] = ()
    ties: tuple[int, ...] = ()
    margin: float = 0.0
    bar: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {name: json_value(value) for name, value in asdict(self).items()}

    @property
    def lines(self) -> list[str]:
        """The numbers in words."""
        amount = f"largest difference of log-probabilities {self.difference:.2g}, at position {self.position}"
        words = [f"{self.side}: {amount} ({self.units:.2g}× torch's own rounding); KL at most {self.divergence:.2g}"]
        if self.choices:
            first = self.choices[0]
            kind = "a tie within rounding" if first in self.ties else "a fault, not a tie"
            words.append(
                f"{self.side}: the first other choice is at position {first}: {kind}, since the margin is "
                f"{self.margin:.2g} and rounding explains {self.bar:.2g}"
            )
        return words


def log_softmax(logits: Array) -> Array:
    """log(softmax(logits)) over the last axis, in float64."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def likelihoods(
    side: str, truth: Sequence[Array], working: Sequence[Array], candidate: Sequence[Array], bar: float
) -> Likelihoods:
    """Compare the probabilities of the next token, [length, vocabulary] for each sequence.

    Args:
        side: name of the side.
        truth: logits of the reference in float64.
        own: those of the reference in the working dtype.
        candidate: those of the side in the working dtype.
        bar: the largest difference of logits that rounding explains.
    """
    worst, position, divergence, reference = 0.0, 0, 0.0, 0.0
    choices: dict[int, float] = {}
    for true, working_logits, logits in zip(truth, working, candidate, strict=True):
        expected, actual = log_softmax(true), log_softmax(logits)
        differences = np.abs(actual - expected).max(-1)
        index = int(differences.argmax())
        if differences[index] > worst:
            worst, position = float(differences[index]), index
        reference = max(reference, float(np.abs(log_softmax(working_logits) - expected).max()))
        divergence = max(divergence, float((np.exp(expected) * (expected - actual)).sum(-1).max()))
        chosen, candidate_chosen = true.argmax(-1), logits.argmax(-1)
        for at in np.flatnonzero(chosen != candidate_chosen):
            margin = float(true[at, chosen[at]] - true[at, candidate_chosen[at]])
            choices[int(at)] = max(margin, choices.get(int(at), 0.0))
    order = sorted(choices)
    ties = tuple(at for at in order if choices[at] <= 2 * bar)
    units = worst / reference if reference else (0.0 if not worst else float("inf"))
    margin = choices[order[0]] if order else 0.0
    return Likelihoods(side, worst, position, units, max(divergence, 0.0), tuple(order), ties, margin, 2 * bar)
