"""Placing a difference between two ways to decode: the first Cell that computes another value, in the order of the run.

A Cell whose value differs because it isn't given the state that it returned before is right, and its caller is wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from ....converter.capture.cell_hooks import watch
from ....runtime.programs.call import as_array
from ...results.cell_report import CellReport
from ...results.comparison import FAIL, Comparison
from ...sides.records import INPUT, Array
from ...verdicts.deviations import reference_error
from ...verdicts.judge import Tolerance, judge
from .decoder import Decoder, cast, in_chunks
from .modes import Mode
from .passing import Passage, Passed, aligned, wrongly_passed
from .states import tensors


def judge_values(dtype: str, check: str, value: Array, truth: Array, working: Array) -> dict[str, Any]:
    """Return the fields of a comparison of a value with the truth; `working` is the reference in the working dtype."""
    noise = reference_error(working, truth) if working.shape == truth.shape else 0.0
    return judge(check, value, truth, working, noise, Tolerance(dtype))


@dataclass
class Placing:
    """Compares what the Cells compute, position by position.

    Attributes:
        decoder: the network.
        dtype: working dtype.
        wholes: the sequences, of which each row is a row of the reference.
        truth: the reference's outputs for each row, in float64.
        run: runs a mode in a dtype, and returns its outputs for each sequence and the last state.
        passages: what crosses boundaries in one call on whole sequences, by their number and dtype.
    """

    decoder: Decoder
    dtype: str
    wholes: list[torch.Tensor]
    truth: list[Array]
    run: Callable[[Mode, str], tuple[list[Array], object]]
    passages: dict[tuple[int, str], Passage] = field(default_factory=dict)

    def comparisons(
        self, mode: Mode, comparisons: list[Comparison], cells: dict[str, CellReport]
    ) -> Iterator[tuple[str, Comparison]]:
        """Yield the comparisons of what the Cells compute at one position: the first that differs, or the last.

        All ran on values of their own, so the first difference, in the order of the run, is where the fault is.
        """
        check, dtype, number, column = self._first_difference(mode, comparisons)
        row, padding = mode.rows[number]
        ends = list(accumulate(mode.sizes))
        chunk = bisect_right(ends, column + padding)  # the number of the chunk that has the position
        which = 0 if row < len(self.wholes[0]) else 1
        row %= len(self.wholes[which])
        true_passage, own_passage = (
            replace(self._whole_passage(self.wholes[which], which, precision), row=row, position=column)
            for precision in ("float64", self.dtype)
        )
        position = column + padding - (ends[chunk] - mode.sizes[chunk])
        before, state, step = self._two_steps(mode, chunk, dtype, number, position)
        working_values = {key: value for key, value, _ in aligned(own_passage, step)}
        for path, name in true_passage.classes.items():
            cells.setdefault(path, CellReport(path, name))
        values = list(aligned(true_passage, step))
        feeding = "isolated"
        for key, truth, value in values:
            if not key.path or key not in working_values:
                continue
            passed = key.kind == INPUT
            path = true_passage.callers[key.path, key.call] if passed else key.path
            kind, tensor = ("passed value", f"{key.path} {key.slot}") if passed else ("output", key.slot)
            fields = judge_values(self.dtype, check, value, truth, working_values[key])
            comparison = Comparison(mode.name, check, feeding, kind, tensor, key.call, **fields)
            if comparison.status == FAIL:
                comparison = replace(comparison, reason=f"{comparison.reason}, from position {column} on")
                if feeding == "isolated" and before is not None:
                    call = 0 if passed else key.call
                    wrong = wrongly_passed(path, call, before, step, tensors(state), {key for key, *_ in values})
                    if wrong is not None:
                        yield wrong.caller, _of_state(self.dtype, mode.name, check, wrong)
                        comparison = replace(comparison, feeding="end to end")
                feeding = "end to end"  # what comes later may differ because of this
            yield path, comparison

    def _two_steps(
        self, mode: Mode, chunk: int, dtype: str, row: int, position: int
    ) -> tuple[Passage | None, object, Passage]:
        """Return what crosses boundaries in the step before, if there is one, the state after that, and in this step.

        Args:
            mode: the way to compute the sequences.
            chunk: number of the step.
            dtype: dtype of the run.
            row: the row of the batch that is looked at.
            position: the position in the step that is looked at.
        """
        ends = [0, *accumulate(mode.sizes)]
        tokens = cast(mode.tokens, dtype, self.dtype)
        before, state = None, None

        def take(number: int) -> Passage:
            nonlocal state
            start, end = ends[number : number + 2]
            passage = Passage(end - start, row, len(mode.tokens), position)
            with watch(self.decoder.module, passage):
                mask = None if mode.mask is None else mode.mask[:, :end]
                _, state = self.decoder.step(tokens[:, start:end], state, mask)
            return passage

        with self.decoder.running(dtype, self.dtype):
            if chunk > 1:
                cut = ends[chunk - 1]
                mask = None if mode.mask is None else mode.mask[:, :cut]
                _, state = in_chunks(self.decoder, tokens[:, :cut], mode.sizes[: chunk - 1], mask)
            if chunk:
                before = take(chunk - 1)
            between = state
            return before, between, take(chunk)

    def _whole_passage(self, tokens: torch.Tensor, which: int, dtype: str) -> Passage:
        """Return what crosses boundaries in one call on whole sequences, which is the same for all modes."""
        if (which, dtype) not in self.passages:
            passage = Passage(tokens.shape[1], 0, len(tokens), 0)
            with self.decoder.running(dtype, self.dtype), watch(self.decoder.module, passage):
                self.decoder.whole(cast(tokens, dtype, self.dtype))
            self.passages[which, dtype] = passage
        return self.passages[which, dtype]

    def _first_difference(self, mode: Mode, comparisons: list[Comparison]) -> tuple[str, str, int, int]:
        """Return the check and dtype in which a mode differs, the sequence, and its first position that does.

        Where nothing differs, this is the last position.
        """
        for check, dtype in (("meaning", "float64"), ("rounding", self.dtype)):
            failing = [
                comparison for comparison in comparisons if comparison.check == check and comparison.status == FAIL
            ]
            if failing and failing[0].index is not None:
                number = failing[0].input - 1
                row, _ = mode.rows[number]
                logits, _ = self.run(mode, dtype)
                errors = np.abs(logits[number].astype(np.float64) - self.truth[row])
                over = errors.reshape(len(errors), -1).max(-1) > failing[0].bar
                column = int(np.flatnonzero(over)[0]) if over.any() else int(failing[0].index[0])
                return check, dtype, number, column
        return "meaning", "float64", 0, len(self.truth[mode.rows[0][0]]) - 1


def _of_state(dtype: str, side: str, check: str, wrong: Passed) -> Comparison:
    """Return the failure of a Cell that doesn't pass on the state of a Cell inside."""
    tensor, returned = f"{wrong.path} {wrong.slot}", as_array(wrong.returned)
    location = (side, check, "isolated", "passed value", tensor, wrong.call)
    if wrong.input is None:
        reason = f"{wrong.path} returned this state in the step before, and isn't given it"
        return Comparison(*location, FAIL, reason, returned.dtype.name, returned.shape)
    fields = judge_values(dtype, "meaning", as_array(wrong.input), returned, returned)
    reason = f"it isn't the state that {wrong.path} returned in the step before"
    return Comparison(*location, **{**fields, "status": FAIL, "reason": reason})
