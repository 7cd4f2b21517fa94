"""Which label each of a network's outputs is compared with: its own, or the one after it, as in language models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from .calls import LossCall, Surroundings

OFFSETS = (0, 1, 2, -1)
"""How many labels after an output its label may be."""
IGNORED = -100
"""The target that torch's losses ignore by default."""


def offset_of(call: LossCall, around: Surroundings) -> int | None:
    """Return how many labels after an output, along the sequence, its label is; None if that isn't known.

    Both are recognized by their values. Labels may be replaced by negative numbers, which stand for ignored elements.
    """
    for offset in OFFSETS:
        if any(_is_offset(call, outputs, labels, offset) for outputs, labels in _pairs(around)):
            return offset
    return None


def with_offset(call: LossCall, around: Surroundings, offset: int) -> LossCall | None:
    """Return a call that compares each output with the label so many after it; None if it isn't known how."""
    before = offset_of(call, around)
    if before is None:
        return None
    for outputs, labels in _pairs(around):
        if _is_offset(call, outputs, labels, before):
            predictions, _ = _shifted(outputs, labels, offset)
            targets = _ignored_as_before(call, outputs, labels, before)
            _, target = _shifted(outputs, targets, offset)
            return replace(call, predictions=_rows(predictions), target=target.reshape(-1).to(call.target.dtype))
    return None


def _pairs(around: Surroundings) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield outputs [batch, length, classes] with labels [batch, length]; those of a micro-batch are a part of some."""
    for outputs in around.outputs:
        for labels in around.labels:
            if outputs.ndim != 3 or labels.ndim != 2 or labels.shape[1] != outputs.shape[1] or labels.shape[1] < 3:
                continue
            count = outputs.shape[0]
            if count and labels.shape[0] % count == 0:
                yield from ((outputs, labels[start : start + count]) for start in range(0, labels.shape[0], count))


def _shifted(outputs: torch.Tensor, labels: torch.Tensor, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    length = labels.shape[1]
    if offset < 0:
        return outputs[:, -offset:], labels[:, : length + offset]
    return outputs[:, : length - offset], labels[:, offset:]


def _padded(labels: torch.Tensor, offset: int) -> torch.Tensor:
    """The labels shifted by an offset, of the same length, with ignored ones at the end."""
    missing = labels.new_full((labels.shape[0], offset), IGNORED)
    return torch.cat([labels[:, offset:], missing], dim=1)


def _is_offset(call: LossCall, outputs: torch.Tensor, labels: torch.Tensor, offset: int) -> bool:
    if call.predictions.ndim < 2:
        return False
    rows, target = _rows_of_call(call), call.target.reshape(-1)
    predictions, shifted = _shifted(outputs, labels, offset)
    pairs = [(predictions, shifted)]
    if offset > 0:
        pairs.append((outputs, _padded(labels, offset)))
    return any(
        _rows(p).shape == rows.shape
        and s.numel() == target.numel()
        and bool(torch.all((s.reshape(-1) == target) | (target < 0)))
        and torch.equal(_rows(p), rows)
        for p, s in pairs
    )


def _ignored_as_before(call: LossCall, outputs: torch.Tensor, labels: torch.Tensor, offset: int) -> torch.Tensor:
    """The labels, with negative numbers where the call's targets have them."""
    _, shifted = _shifted(outputs, labels, offset)
    target = call.target.reshape(labels.shape[0], -1)[:, : shifted.shape[1]]
    start = max(offset, 0)
    result = labels.clone()
    result[:, start : start + target.shape[1]] = torch.where(target < 0, target, shifted)
    return result


def _rows(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.reshape(-1, outputs.shape[-1])


def _rows_of_call(call: LossCall) -> torch.Tensor:
    """The predictions with classes last, where torch takes them as the second axis."""
    return _rows(call.predictions.movedim(1, -1))
