"""Tensors of which a recording has a summary alone: what a summary says is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ....recorder import checksum, statistics
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype, is_floating
from ....runtime.visible import visible_name
from ...results.comparison import FAIL, PASS, Comparison
from ...sides.records import INPUT, Array, Key
from ...verdicts.judge import epsilon
from .index import Summary
from .recording import Boundary, RecordedRun
from .shards import part_of

EQUAL = 1e-9
"""How far numbers on equal tensors may differ, relative to the tensor's size: they are sums in another order."""


@dataclass(frozen=True)
class Tensor:
    """What is known of a tensor of one side: all of it, or a summary."""

    whole: Array | None
    summary: Summary | None

    @classmethod
    def of(cls, value: Array | Summary) -> Tensor:
        """Return what a value says."""
        return cls(None, value) if isinstance(value, Summary) else cls(value, None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.whole.shape if self.summary is None and self.whole is not None else self._summary.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""
        return self.whole.dtype if self.whole is not None else as_dtype(self._summary.dtype)

    @property
    def _summary(self) -> Summary:
        assert self.summary is not None
        return self.summary

    @cached_property
    def statistics(self) -> Mapping[str, float]:
        """Numbers on all its elements."""
        return statistics(self.whole) if self.whole is not None else self._summary.statistics

    @cached_property
    def sha256(self) -> str:
        """Checksum of its bytes; empty if unknown."""
        return checksum(np.ascontiguousarray(self.whole)) if self.whole is not None else self._summary.sha256

    @property
    def indices(self) -> set[int] | None:
        """The places of the elements that are known; None if all are."""
        return None if self.summary is None else set(self.summary.indices)

    def elements(self, places: Sequence[int]) -> Array:
        """Return the elements at places in the flat tensor."""
        if self.whole is not None:
            return self.whole.reshape(-1)[np.array(places, np.int64)]
        known = dict(zip(self._summary.indices, self._summary.values, strict=True))
        exact = self.dtype if self.dtype.kind in "iu" else np.float64
        return np.array([known[place] for place in places], exact).astype(self.dtype)


@dataclass(frozen=True)
class Summarized:
    """A tensor that isn't known whole on each side.

    Attributes:
        places: the elements that are known on each side, as places in the flat tensor.
        truth: the tensor in the reference's run that is the truth.
        working: the same in its run in the working dtype; None if it isn't in a recording.
        candidate: the candidate's tensor.
    """

    places: Sequence[int]
    truth: Tensor
    working: Tensor | None
    candidate: Tensor

    @property
    def _equal(self) -> float:
        """How far numbers on equal tensors may differ, relative to the norm; of other dtypes, one may be rounded."""
        dtypes = [tensor.dtype for tensor in (self.candidate, self.working or self.truth) if is_floating(tensor.dtype)]
        return max([EQUAL, *(epsilon(dtype.name) for dtype in dtypes if len(set(dtypes)) > 1)])

    @property
    def exact_difference(self) -> str:
        """How the candidate's tensor differs from the one that it should be equal to, in words; empty if it doesn't.

        Numbers on both are compared, and checksums, unless these may differ in the sign of a zero alone.
        """
        expected = self.working or self.truth
        if self.candidate.shape != expected.shape:
            return f"shape {list(self.candidate.shape)}, needed {list(expected.shape)}"
        statistics = expected.statistics
        scale = statistics["norm"] if np.isfinite(statistics["norm"]) else 0.0
        for name, number in self.candidate.statistics.items():
            if (
                name not in statistics
                or number == statistics[name]
                or (np.isnan(number) and np.isnan(statistics[name]))
            ):
                continue
            if not abs(number - statistics[name]) <= self._equal * scale:
                return f"{name} {number:.9g}, needed {statistics[name]:.9g}"
        same_form = self.candidate.dtype == expected.dtype and self.candidate.sha256 and expected.sha256
        if same_form and self.candidate.sha256 != expected.sha256 and not _may_be_equal(expected):
            return "the checksums differ, and with them some elements"
        return ""


def _may_be_equal(tensor: Tensor) -> bool:
    """Whether a tensor of other bytes may have equal elements: there are two zeros, and many NaN."""
    if not is_floating(tensor.dtype) or tensor.whole is None:
        return False
    return bool(((tensor.whole == 0) | np.isnan(tensor.whole)).any())


def use_samples(
    truth: RecordedRun, working: RecordedRun | None, run: RecordedRun
) -> tuple[list[RecordedRun], dict[Boundary, Summarized]]:
    """Return runs with the same elements of each tensor that one of them has in part, flat.

    Where both sides have something of a tensor, but no element in common, the runs have no element of it. What one
    side alone has stays there, with the elements that it has.

    Args:
        truth: the reference's run that is the truth.
        working: its run in the working dtype; None if it isn't a recording.
        run: the candidate's run.

    Returns:
        The runs, in their order, and what is known of the tensors that aren't whole.
    """
    runs = [recorded_run for recorded_run in (truth, working, run) if recorded_run is not None]
    copies = [_copy(recorded_run) for recorded_run in runs]
    summarized: dict[Boundary, Summarized] = {}
    for boundary in dict.fromkeys(boundary for recorded_run in runs for boundary in recorded_run.summaries):
        tensors = [_tensor(recorded_run, boundary) for recorded_run in runs]
        known = [tensor for tensor in tensors if tensor is not None]
        same_shape = len({tensor.shape for tensor in known}) == 1
        parts = [tensor.indices for tensor in known if tensor.indices is not None]
        places = sorted(set.intersection(*parts)) if same_shape else []
        for copy, tensor in zip(copies, tensors, strict=True):
            if tensor is not None:
                arrays, key = _place(copy, boundary)
                arrays[key] = tensor.elements(places)
        first, last = tensors[0], tensors[-1]
        if first is not None and last is not None:
            summarized[boundary] = Summarized(places, first, tensors[1] if len(tensors) == 3 else None, last)
    return copies, summarized


def require_same_summarized_inputs(summarized: Mapping[Boundary, Summarized], reference: str, candidate: str) -> None:
    """Raise `UsageError` if the inputs of the network, of which a summary alone is known, aren't the same."""
    for boundary, tensor in summarized.items():
        if not isinstance(boundary, Key) or (boundary.path, boundary.kind) != ("", INPUT):
            continue
        if difference := tensor.exact_difference:
            raise UsageError(
                f"the recordings have different inputs: {visible_name(boundary.slot)} has {difference}: in {candidate} "
                f"and in {reference}\n  what to do: record both on the same inputs"
            )


def with_summary(comparison: Comparison, summarized: Mapping[Boundary, Summarized]) -> Comparison:
    """Return the comparison of a parameter's elements with what the summary of the parameter says, if there is one."""
    tensor = summarized.get(("parameter", comparison.tensor))
    if tensor is None:
        return comparison
    difference = tensor.exact_difference if comparison.status == PASS else ""
    comparison = replace(comparison, shape=tensor.truth.shape)
    return replace(comparison, status=FAIL, reason=f"the values differ: {difference}") if difference else comparison


def in_words(summarized: Mapping[Boundary, Summarized]) -> str:
    """Return a remark on the tensors of which a summary alone is known."""
    if not summarized:
        return ""
    equal = sum(
        tensor.candidate.dtype == expected.dtype
        and bool(expected.sha256)
        and tensor.candidate.sha256 == expected.sha256
        for tensor in summarized.values()
        for expected in (tensor.working or tensor.truth,)
    )
    without = sum(not tensor.places for tensor in summarized.values())
    return (
        f"some elements alone were compared of {len(summarized)} tensors, which weren't recorded whole, and their "
        f"norms, means and extremes{f'; of {without} of these no element' if without else ''}"
        f"{f'; {equal} are equal by their checksums' if equal else ''}"
    )


def _copy(run: RecordedRun) -> RecordedRun:
    gradients, state = run.records.gradients, run.records.state
    records = replace(
        run.records,
        values=part_of(run.records.values, run.records.values),
        gradients=replace(gradients, parameters=part_of(gradients.parameters, gradients.parameters)),
        state=replace(state, updates=dict(state.updates), buffers=dict(state.buffers)),
    )
    return RecordedRun(records, part_of(run.parameters, run.parameters))


def _place(run: RecordedRun, boundary: Boundary) -> tuple[dict[Any, Any], Any]:
    """Return the dict in which the value of a boundary stands, and its key there."""
    if isinstance(boundary, Key):
        return run.records.values, boundary
    role, name = boundary
    return run.named[role], name


def _tensor(run: RecordedRun, boundary: Boundary) -> Tensor | None:
    if boundary in run.summaries:
        return Tensor.of(run.summaries[boundary])
    arrays, key = _place(run, boundary)
    value: Array | None = arrays.get(key)
    return None if value is None else Tensor.of(value)
