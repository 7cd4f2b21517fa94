"""`LossChange`: other losses that a candidate may compute, as changes of one side's calls of loss functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .calls import Change, LossCall, RecordedLoss, Surroundings
from .offsets import IGNORED, OFFSETS, with_offset

CLASSIFICATION = ("cross_entropy", "nll_loss")
REGRESSION = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
REDUCTIONS = ("mean", "sum", "batchmean")


@dataclass(frozen=True)
class LossChange:
    """A change of a loss, and what it says.

    Attributes:
        name: of what is changed: a setting, "offset", "function", "target" or "mean".
        before: its value before the change; None for arrays.
        after: its value after the change.
        words: what the loss is like before and after the change, as clauses about it.
        change: computes the changed loss.
    """

    name: str
    before: Any
    after: Any
    words: tuple[str, str]
    change: Change


def known_changes(loss: RecordedLoss) -> Iterator[LossChange]:
    """Yield the changes of a loss that people make by mistake, the most frequent first."""
    if loss.name in CLASSIFICATION:
        yield from _offsets(loss)
        yield from _ignored(loss)
        yield from _label_smoothing(loss)
    if loss.name in REGRESSION:
        yield from (_function(loss.name, name) for name in REGRESSION if name != loss.name)
    yield from _reductions(loss)
    for name in ("weight", "pos_weight"):
        if loss.settings.get(name) is not None:
            yield _setting(name, "given", None, (f"has {name}", f"has no {name}"))


def changes_to(loss: RecordedLoss, others: Sequence[RecordedLoss]) -> Iterator[LossChange]:
    """Yield the respects in which the other side's calls of loss functions differ from one's own.

    Args:
        loss: the first call of the side that is changed.
        others: the calls of the other side, in order.
    """
    other = others[0]
    if other.name != loss.name:
        yield _function(loss.name, other.name)
    else:
        for name, value in other.settings.items():
            before = loss.settings.get(name)
            if not _same(before, value):
                words = (f"has {name}={_short(before)}", f"has {name}={_short(value)}")
                if name == "ignore_index" and before is not None and IGNORED in (before, value):
                    words = _ignoring(before) if value == IGNORED else _ignoring(value)[::-1]
                yield _setting(name, before, value, words)
    if other.offset is not None and loss.offset is not None and other.offset != loss.offset:
        yield _offset(loss.offset, other.offset)
    elif other.target.shape == loss.target.shape and not torch.equal(other.target.double(), loss.target.double()):
        yield _targets(loss, others)


def _offsets(loss: RecordedLoss) -> Iterator[LossChange]:
    if loss.offset is not None:
        yield from (_offset(loss.offset, offset) for offset in OFFSETS if offset != loss.offset)


def _offset(before: int, after: int) -> LossChange:
    def compared(offset: int) -> str:
        label = (
            "its own label" if offset == 0 else f"the label at position t {'+' if offset > 0 else '-'} {abs(offset)}"
        )
        return f"compares output t with {label}"

    def change(call: LossCall, _: int, around: Surroundings) -> LossCall:
        return with_offset(call, around, after) or call

    return LossChange("offset", before, after, (compared(before), compared(after)), change)


def _ignored(loss: RecordedLoss) -> Iterator[LossChange]:
    """Yield losses in which ignored elements count, in the sum or in the mean; or in which further ones are ignored."""
    ignored = int(loss.settings.get("ignore_index", IGNORED))
    if bool(torch.any(loss.target == ignored)):
        if ignored >= 0:
            yield _setting("ignore_index", ignored, IGNORED, _ignoring(ignored))

        def mean_of_all(call: LossCall, _: int, __: Surroundings) -> torch.Tensor:
            return call.with_settings(reduction="none").run().mean()

        if loss.settings.get("reduction") == "mean":
            words = (
                "is divided by the number of elements that aren't ignored",
                "is divided by the number of all elements",
            )
            yield LossChange("mean", "kept", "all", words, mean_of_all)
    elif loss.target.numel() and not loss.target.is_floating_point():
        for index in _padding(loss.target):
            yield _setting("ignore_index", ignored, index, _ignoring(index)[::-1])


def _ignoring(index: int) -> tuple[str, str]:
    """What a loss does that ignores an index, and what one does that doesn't."""
    elements = f"the elements whose target is {index}"
    return f"ignores {elements} (ignore_index={index})", f"counts {elements}"


def _padding(target: torch.Tensor) -> list[int]:
    """The labels that may stand for padding: the last ones, and the most frequent one."""
    flat = target.reshape(-1)
    last = {int(x) for x in target.reshape(target.shape[0], -1)[:, -1]} if target.ndim > 1 else {int(flat[-1])}
    frequent = int(flat.mode().values)
    return [index for index in dict.fromkeys((0, frequent, *sorted(last)[:2])) if bool(torch.any(flat == index))]


def _label_smoothing(loss: RecordedLoss) -> Iterator[LossChange]:
    smoothing = loss.settings.get("label_smoothing")
    classes = loss.shape[1] if len(loss.shape) > 1 else loss.shape[0]
    if smoothing is None or classes < 2:
        return
    if smoothing == 0.0:
        for amount in (0.1, 0.05, 0.2, 0.01):
            yield _setting(
                "label_smoothing", smoothing, amount, ("has no label smoothing", f"has label_smoothing={amount}")
            )
        return
    yield _setting("label_smoothing", smoothing, 0.0, (f"has label_smoothing={smoothing:g}", "has no label smoothing"))
    # torch gives own / classes to each class; many papers give own / (classes - 1) to each of the other classes
    all_classes = f"spreads {smoothing:g} over all {classes} classes (torch's label_smoothing)"
    others = f"spreads {smoothing:g} over the {classes - 1} other classes"
    for after in (smoothing * classes / (classes - 1), smoothing * (classes - 1) / classes):
        words = (all_classes, others) if after > smoothing else (others, all_classes)
        yield _setting("label_smoothing", smoothing, after, words)


def _reductions(loss: RecordedLoss) -> Iterator[LossChange]:
    current = loss.settings.get("reduction")
    if current not in REDUCTIONS:
        return
    for reduction in REDUCTIONS:
        if reduction != current and (reduction != "batchmean" or loss.name == "kl_div"):
            yield _setting(
                "reduction", current, reduction, (f"has reduction={current!r}", f"has reduction={reduction!r}")
            )


def _setting(name: str, before: Any, after: Any, words: tuple[str, str]) -> LossChange:
    def change(call: LossCall, _: int, __: Surroundings) -> LossCall:
        value = after
        if isinstance(after, torch.Tensor) and after.is_floating_point():
            value = after.to(call.predictions.dtype)
        return call.with_settings(**{name: value})

    return LossChange(name, _plain(before), _plain(after), words, change)


def _function(before: str, after: str) -> LossChange:
    def change(call: LossCall, _: int, __: Surroundings) -> LossCall:
        settings = {"reduction": call.settings["reduction"]} if "reduction" in call.settings else {}
        return replace(call, name=after, settings=settings)

    return LossChange("function", before, after, (f"is {before}", f"is {after}"), change)


def _targets(loss: RecordedLoss, others: Sequence[RecordedLoss]) -> LossChange:
    def change(call: LossCall, number: int, _: Surroundings) -> LossCall:
        if number >= len(others) or others[number].target.shape != call.target.shape:
            return call
        return replace(call, target=others[number].target.to(call.target.dtype))

    targets, other = loss.target.reshape(-1), others[0].target.reshape(-1)
    differing = targets != other
    index = int(torch.nonzero(differing)[0])
    count = f"{int(differing.sum())} of {targets.numel()} targets"
    return LossChange(
        "target", None, None, (f"has target {targets[index].item():g} at element {index}",
                               f"has target {other[index].item():g} there, and differs in {count}"), change
    )  # fmt: skip


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        return value.shape == other.shape and torch.equal(value.double(), other.double())
    return value is other or (
        not isinstance(value, torch.Tensor) and not isinstance(other, torch.Tensor) and value == other
    )


def _plain(value: Any) -> Any:
    return None if isinstance(value, torch.Tensor) else value


def _short(value: Any) -> str:
    return f"a tensor of {list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
