"""`Treatment`: what is done to gradients between the backward pass and the optimizer, and how it is found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....sides.records import Array
from ....verdicts.deviations import size
from .numbers import plain_numbers
from .trajectory import Gradients, similar

NONE, NORM, VALUE, EACH = "", "norm", "value", "each"
CLIPS = (NONE, NORM, VALUE, EACH)
ADDED_TO_NORM = 1e-6  # by torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True)
class Treatment:
    """What is done to the sum of gradients before the optimizer gets it.

    Attributes:
        factor: the sum is multiplied by it: 1 divided by a loss scale, or by a number of batches.
        clip: `NORM` of all gradients together, `VALUE` of each element, the norm of `EACH` gradient, or `NONE`.
        limit: what is clipped to.
        clip_first: whether the gradients are clipped before they are multiplied.
        zeroed: whether they start at zero in each step; otherwise those of the step before are added.
    """

    factor: float = 1.0
    clip: str = NONE
    limit: float = np.inf
    clip_first: bool = False
    zeroed: bool = True

    def result(self, gradients: Gradients) -> Gradients:
        """Return what the optimizer gets."""
        if self.clip_first:
            return _times(clipped(gradients, self.clip, self.limit), self.factor)
        return clipped(_times(gradients, self.factor), self.clip, self.limit)

    def explains(self, sums: Sequence[Gradients], results: Sequence[Gradients], unit: float) -> bool:
        """Whether the optimizer got this in every step."""
        starts = sums if self.zeroed else carry_over(sums, results)
        return all(similar(self.result(start), actual, unit) for start, actual in zip(starts, results, strict=True))


def carry_over(sums: Sequence[Gradients], results: Sequence[Gradients]) -> list[Gradients]:
    """Return the sums of each step with what the optimizer got in the step before added to them."""
    before: Gradients = {}
    starts: list[Gradients] = []
    for step, result in zip(sums, results, strict=True):
        starts.append({name: gradient + before.get(name, 0.0) for name, gradient in step.items()})
        before = result
    return starts


def treatments(
    sums: Sequence[Gradients],
    results: Sequence[Gradients],
    like: Treatment,
    factor: float = 1.0,
    unit: float = 2.0**-52,
) -> Iterator[Treatment]:
    """Yield treatments that explain what an optimizer got, those most like another one first.

    Args:
        sums: the gradients before.
        results: what the optimizer got.
        like: the treatment that is expected.
        factor: the factor that is expected if every gradient is clipped, so that it has no effect.
        unit: spacing of the gradients' numbers at 1.
    """
    shared = [before.keys() & after.keys() for before, after in zip(sums, results, strict=True)]
    sums = [{name: step[name] for name in names} for step, names in zip(sums, shared, strict=True)]
    results = [{name: step[name] for name in names} for step, names in zip(results, shared, strict=True)]
    for proposal in _proposals(sums, results, like, factor):
        if proposal.explains(sums, results, unit):
            yield proposal


def _proposals(
    sums: Sequence[Gradients], results: Sequence[Gradients], like: Treatment, factor: float
) -> Iterator[Treatment]:
    yield like
    yield replace(like, zeroed=not like.zeroed)
    yield replace(like, clip_first=not like.clip_first)
    yield replace(like, clip=NONE, limit=np.inf)
    for clip in CLIPS[1:]:
        if np.isfinite(like.limit):
            yield replace(like, clip=clip)
    for zeroed in (like.zeroed, not like.zeroed):
        starts = sums if zeroed else carry_over(sums, results)
        for number in plain_numbers(_largest_factor(starts, results)):
            yield replace(like, factor=number, zeroed=zeroed)
        for clip in sorted(CLIPS[1:], key=lambda kind: kind != like.clip):
            for scale in dict.fromkeys((like.factor, factor, _largest_factor(starts, results))):
                limit = _limit([_times(step, scale) for step in starts], results, clip)
                for number in plain_numbers(limit):
                    yield Treatment(scale, clip, number, False, zeroed)
        for number in plain_numbers(_largest_factor(starts, results)):
            yield Treatment(number, zeroed=zeroed)


def _largest_factor(starts: Sequence[Gradients], results: Sequence[Gradients]) -> float:
    """The largest factor between gradients and results in any step, from all elements of the step that have it."""
    factors = []
    for before, after in zip(starts, results, strict=True):
        a, b = _flat(before), _flat(after)
        if not size(a):
            continue
        is_large = np.abs(a) > 1e-3 * size(a)
        ratios = b[is_large] / a[is_large]
        largest = ratios[np.argmax(np.abs(ratios))]
        same = np.abs(ratios - largest) <= 1e-6 * abs(largest)
        x, y = a[is_large][same], b[is_large][same]
        factors.append(float(x @ y / (x @ x)))
    return max(factors, key=abs, default=1.0)


def _limit(starts: Sequence[Gradients], results: Sequence[Gradients], clip: str) -> float:
    """The limit that the results show, where they differ from the gradients."""
    limits = []
    for before, after in zip(starts, results, strict=True):
        if clip == VALUE:
            limits.append(max(map(size, after.values()), default=0.0))
        elif clip == NORM:
            limits.append(_limit_of_norm(_flat(before), _flat(after)))
        else:
            limits += [_limit_of_norm(before[name].ravel(), after[name].ravel()) for name in before]
    return max(limits, default=0.0)


def _limit_of_norm(before: Array, after: Array) -> float:
    length, length_after = float(np.linalg.norm(before)), float(np.linalg.norm(after))
    return length_after * (length + ADDED_TO_NORM) / length if length and length_after < length else 0.0


def _flat(gradients: Gradients) -> Array:
    parts = [gradients[name].ravel() for name in sorted(gradients)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _times(gradients: Gradients, factor: float) -> Gradients:
    return {name: gradient * factor for name, gradient in gradients.items()}


def clipped(gradients: Gradients, clip: str, limit: float) -> Gradients:
    """Return gradients clipped as `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_` do."""
    if clip == VALUE:
        return {name: np.clip(gradient, -limit, limit) for name, gradient in gradients.items()}
    if clip == EACH:
        return {name: gradient * _norm_factor(gradient.ravel(), limit) for name, gradient in gradients.items()}
    if clip == NORM:
        return _times(gradients, _norm_factor(_flat(gradients), limit))
    return gradients


def _norm_factor(flat: Array, limit: float) -> float:
    return min(1.0, limit / (float(np.linalg.norm(flat)) + ADDED_TO_NORM))
