"""The comparison of a side's records with the reference's, Cell by Cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from ..causes.array_relations import common_rows, relation
from ..correspondence.same_inputs import groups_of_inputs
from ..correspondence.structures import match_results
from ..results.cell_report import is_inside
from ..results.comparison import FAIL, NOT_COMPARED, PASS, Comparison
from ..sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from ..sides.side import ParameterInfo
from ..verdicts.deviations import error, size
from ..verdicts.python_values import judge_values
from .noise import Noise, NoiseKey
from .value_judge import ValueJudge

CellComparisons = list[tuple[str, Comparison]]
"""Comparisons, each with the path of the Cell that it judges."""
NO_GRADIENT = "no gradient arrives"
MAX_RELATED = 2**24
"""Elements of the largest parameter whose relation to the reference's is looked for."""


@dataclass
class Comparer:
    """Compares one side with the reference, in one way of feeding.

    Attributes:
        side: name of the side.
        feeding: "isolated" or "end to end".
        values: judges each value by the reference's.
        owners: path of the Cell that owns each parameter and buffer, by qualified name.
        grads: whether gradients are compared.
    """

    side: str
    feeding: str
    values: ValueJudge
    owners: Mapping[str, str]
    grads: bool

    @property
    def truth(self) -> Records:
        """Records of the reference in float64."""
        return self.values.truth

    @property
    def noise(self) -> Noise:
        """The reference's error in the working dtype."""
        return self.values.noise

    def compare(self, check: str, candidate: Records) -> list[tuple[str, Comparison]]:
        """Return all comparisons of a run of the side, as (Cell path, comparison)."""
        self.values.forget()
        result: list[tuple[str, Comparison]] = [
            *self._call_mismatches(check, candidate),
            *self._compare_python_values(check, candidate),
        ]
        if candidate.faults.raising and self.feeding != "isolated":
            return result  # there are no outputs
        wrong_shape: set[str] = set(candidate.faults.raising)
        for key, truth in self.truth.values.items():
            if _is_inside_any(key.path, candidate.faults.raising) or (
                key.kind == OUTPUT and key.path in candidate.faults.raising
            ):
                continue
            if key.kind == OUTPUT and (key.path, key.slot) in candidate.boundaries.unreturned:
                continue
            if key.kind == OUTPUT and self._is_compared(key):
                result.append((key.path, self._compare_boundary(check, "output", key, truth, candidate)))
                if candidate.values.get(key, truth).shape != truth.shape:
                    wrong_shape.add(key.path)
            elif key.kind == INPUT and key.path and self.feeding == "isolated":
                # the value at a Cell's input was computed by the Cell that calls it
                result.append((self._caller(key), self._compare_boundary(check, "passed value", key, truth, candidate)))
        result += self._compare_updates(check, candidate)
        if self.grads:
            gradients = [
                *self._compare_input_gradients(check, candidate),
                *self._compare_gradients(check, OUTPUT_GRADIENT, candidate),
                *self._compare_parameter_gradients(check, candidate),
            ]
            # the gradients of an output of the wrong shape mean nothing, and the Cell has failed already
            result += [(path, comparison) for path, comparison in gradients if path not in wrong_shape]
        return result

    def _call_mismatches(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Yield a failure for each call that differs in more than numbers."""
        for mismatch in candidate.faults.mismatches:
            fields = {"status": FAIL, "reason": mismatch.reason}
            comparison = self._make_comparison(
                check, mismatch.kind, mismatch.tensor, mismatch.call, fields, mismatch.source
            )
            yield mismatch.path, comparison

    def _is_compared(self, key: Key) -> bool:
        return self.feeding == "isolated" or key.path == ""

    def _compare_boundary(self, check: str, kind: str, key: Key, truth: Array, candidate: Records) -> Comparison:
        value = candidate.values.get(key)
        name = key.slot if kind in ("output", "input gradient") else f"{key.path} {key.slot}"
        if value is not None:
            fields = self.values.at_boundary(check, key, value, truth, candidate.boundaries.resolutions.get(key))
        elif key in self.values.passed:
            fields = self.values.passed[key]
        else:
            reason = f"nothing was recorded here on the {self.side} side: the Cell or this output has no counterpart"
            return self._make_comparison(check, kind, name, key.call, {"status": NOT_COMPARED, "reason": reason})
        return self._make_comparison(check, kind, name, key.call, fields, candidate.boundaries.sources.get(key, ""))

    def _compare_python_values(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Yield a failure for each returned value of the root that isn't a tensor and differs."""
        truth_result, result, working_result = self.truth.result, candidate.result, self.noise.first.result
        if truth_result is None or result is None or working_result is None:
            return
        working_values = {where: value for where, _, value in match_results(truth_result, working_result).values}
        for where, truth, given in match_results(truth_result, result, is_port=self.values.is_port).values:
            fields = judge_values(check, given, truth, working_values.get(where, truth), self.values.tolerance)
            if fields["status"] != PASS:
                yield "", self._make_comparison(check, "output", where or "result", 0, fields)

    def _is_untracked(self, gradient: Key, records: Records) -> bool:
        """Whether a side computes no gradient of this input."""
        return gradient._replace(kind=INPUT) in records.boundaries.untracked

    def _caller(self, key: Key) -> str:
        """Path of the Cell that made the call."""
        return self._callers.get((key.path, key.call), "")

    @cached_property
    def _callers(self) -> dict[tuple[str, int], str]:
        calls = self.truth.calls
        return {(call.path, call.index): calls[call.parent].path for call in calls if call.parent is not None}

    def _compare_input_gradients(self, check: str, candidate: Records) -> list[tuple[str, Comparison]]:
        """Compare gradients of inputs; of those that are one tensor, the sum decides if the parts differ.

        The root's inputs are a user's, who may give others next time: each has its own gradient.
        """
        result = list(self._compare_gradients(check, INPUT_GRADIENT, candidate))
        groups = groups_of_inputs([(records.slots, records.boundaries.same) for records in (self.truth, candidate)])
        for path, call, slots in groups:
            if not path:
                continue
            keys = [Key(path, call, INPUT_GRADIENT, slot) for slot in slots]
            of_parts = [(where, c) for where, c in result if (where, c.call) == (path, call) and c.tensor in slots]
            if not any(c.kind == "input gradient" and c.status == FAIL for _, c in of_parts):
                continue
            sides = [_sum(records, keys) for records in (self.truth, candidate, self.noise.first)]
            if sides[0] is None or sides[1] is None:
                continue
            working = sides[0] if sides[2] is None else sides[2]
            fields = self.values.of(check, keys[0], sides[1], sides[0], working, self.values.group_size(path, call))
            if fields["status"] == PASS:
                whole = path, self._make_comparison(check, "input gradient", " = ".join(slots), call, fields)
                result = [pair for pair in result if pair not in of_parts] + [whole]
        return result

    def _compare_gradients(self, check: str, boundary: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Compare gradients at boundaries: the Cell computes those of its inputs, its caller those of its outputs."""
        for key in [k for k in {**self.truth.values, **candidate.values} if k.kind == boundary]:
            own = boundary == INPUT_GRADIENT
            if not (self._is_compared(key) if own else key.path and self.feeding == "isolated"):
                continue
            if _is_unknown(key.path, candidate) or _is_inside_any(key.path, candidate.gradients.opaque):
                continue
            kind, path = ("input gradient", key.path) if own else ("passed gradient", self._caller(key))
            if own and key.path and self._is_untracked(key, self.truth):
                continue  # the reference computes none
            if own and key.path and self._is_untracked(key, candidate):  # its caller detached it
                kind, path, own = "passed gradient", self._caller(key), False
            truth, value = self.truth.values.get(key), candidate.values.get(key)
            has_passed = value is None and key in self.values.passed
            if value is None and candidate.faults.broken and not has_passed:
                continue
            if truth is not None and (value is not None or has_passed):
                compared = self._compare_boundary(check, kind, key, truth, candidate)
                if compared.status == PASS or not key.path or value is None or value.any() or not truth.any():
                    yield path, compared
                    continue
                value = None  # nothing but the zero that every boundary inside is fed
            name = key.slot if own else f"{key.path} {key.slot}"
            yield path, self._make_comparison(check, kind, name, key.call, self._judge_one_sided(truth, value))

    def _compare_parameter_gradients(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        reference = self.noise.first.gradients.parameters
        for name in dict.fromkeys([*self.truth.gradients.parameters, *candidate.gradients.parameters]):
            path = self.owners.get(name, "")
            if _is_unknown(path, candidate):
                continue
            if _is_inside_any(path, candidate.gradients.opaque):  # a custom backward computes it
                path = next(outer for outer in candidate.gradients.opaque if is_inside(path, outer))
            triple = (
                self.truth.gradients.parameters.get(name),
                candidate.gradients.parameters.get(name),
                reference.get(name),
            )
            holders = [holder for shared, holder in self.truth.gradients.shares if shared == name]
            if self.feeding == "isolated" and holders:
                for holder in holders:
                    share = (name, holder)
                    sides = (
                        self.truth.gradients.shares[share],
                        candidate.gradients.shares.get(share),
                        self.noise.first.gradients.shares.get(share),
                    )
                    yield from self._compare_parameter_gradient(
                        check, name, share, holder, sides, candidate.faults.broken
                    )
                path = _common_ancestor(holders)
                records = (self.truth, candidate, self.noise.first)
                # what the code around the holders has as a parameter on one side, it uses as theirs on the other
                around = path if path not in holders else None
                triple = tuple(_without_shares(t, r, name, around) for t, r in zip(triple, records, strict=True))  # type: ignore[assignment]
            yield from self._compare_parameter_gradient(
                check, name, ("parameter", name), path, triple, candidate.faults.broken
            )

    def _compare_parameter_gradient(
        self,
        check: str,
        name: str,
        key: NoiseKey,
        path: str,
        sides: tuple[Array | None, Array | None, Array | None],
        broken: bool,
    ) -> Iterator[tuple[str, Comparison]]:
        truth, value, reference = sides
        if (truth is None and value is None) or (value is None and broken):
            return
        if truth is not None and value is not None:
            working = truth if reference is None else reference
            fields = self.values.of(check, key, value, truth, working, self.values.group_size(path, None))
        else:
            fields = self._judge_one_sided(truth, value)
        yield path, self._make_comparison(check, "parameter gradient", name, 0, fields)

    def _compare_updates(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        for name in dict.fromkeys([*self.truth.state.updates, *candidate.state.updates]):
            if _is_unknown(self.owners.get(name, ""), candidate):
                continue
            # writing a buffer's old value back is the same as not writing to it
            truth, value = (r.state.updates.get(name, r.state.buffers.get(name)) for r in (self.truth, candidate))
            if truth is None or value is None:
                fields = {
                    "status": FAIL,
                    "reason": f"updated on the {'other' if truth is None else 'reference'} side only",
                }
            else:
                first = self.noise.first
                reference = first.state.updates.get(name, first.state.buffers.get(name, truth))
                fields = self.values.of(check, ("update", name), value, truth, reference)
            yield self.owners.get(name, ""), self._make_comparison(check, "buffer update", name, 0, fields)

    def _judge_one_sided(self, truth: Array | None, value: Array | None) -> dict[str, Any]:
        """Judge a gradient that only one side has: the missing one counts as zeros."""
        present = truth if truth is not None else value
        assert present is not None
        if size(present) == 0.0:
            return {"status": PASS, "shape": tuple(present.shape), "dtype": present.dtype.name}
        where = "the reference has one" if truth is not None else "the reference has none"
        reason = f"{NO_GRADIENT}, {where}" if truth is not None else f"a gradient arrives, {where}"
        fields = {"status": FAIL, "reason": reason, "shape": tuple(present.shape), "dtype": present.dtype.name}
        return fields | {"error": size(present), "ratio": np.inf}

    def _make_comparison(
        self, check: str, kind: str, tensor: str, call: int, fields: dict[str, Any], source: str = ""
    ) -> Comparison:
        return Comparison(self.side, check, self.feeding, kind, tensor, call, source=source, **fields)


def _sum(records: Records, keys: Iterable[Key]) -> Array | None:
    """Return the sum of gradients, of those that have arrived; None if none has, or their shapes differ."""
    arrays = [records.values[key] for key in keys if key in records.values]
    if not arrays or any(array.shape != arrays[0].shape for array in arrays):
        return None
    return np.asarray(sum(arrays[1:], start=arrays[0]))


def fails(comparisons: Iterable[tuple[str, Comparison]]) -> bool:
    """Whether any of these comparisons, as (Cell path, comparison), is a failure."""
    return any(c.status == FAIL for _, c in comparisons)


def compare_parameters(
    side: str, reference: Mapping[str, ParameterInfo], other: Mapping[str, ParameterInfo], owners: Mapping[str, str]
) -> list[tuple[str, Comparison]]:
    """Compare both sides' parameters: names, shapes, values and whether they are trained."""
    result: list[tuple[str, Comparison]] = []
    for name in dict.fromkeys([*reference, *other]):
        reason = _parameter_difference(side, reference.get(name), other.get(name))
        shape = tuple((reference.get(name) or other[name]).data.shape)
        status = FAIL if reason else PASS
        comparison = Comparison(side, "meaning", "isolated", "parameter", name, 0, status, reason, shape=shape)
        result.append((owners.get(name, ""), comparison))
    return result


def _parameter_difference(side: str, reference: ParameterInfo | None, other: ParameterInfo | None) -> str:
    if reference is None or other is None:
        return f"only the {'reference' if other is None else side} side has this parameter"
    if reference.data.shape != other.data.shape:
        common = common_rows(reference.data, other.data)
        shapes = f"shape {list(other.data.shape)}, needed {list(reference.data.shape)}"
        return f"{shapes}; it {common} in weights=" if common else shapes
    if reference.trainable != other.trainable:
        frozen, trained = (side, "reference") if reference.trainable else ("reference", side)
        return f"frozen on the {frozen} side, trained on the {trained} side"
    worst, _ = error(other.data, reference.data)
    if not worst > 0:
        return ""
    how = relation(reference.data, other.data) if reference.data.size <= MAX_RELATED else ""
    return f"the values differ, by up to {worst:.3g}{how and f': that of {side} {how}'}"


def _is_unknown(path: str, candidate: Records) -> bool:
    """Whether the Cell, or one that contains it, raised an exception on that side: nothing is known of it."""
    raising = candidate.faults.raising
    return bool(raising) and (path in raising or _is_inside_any(path, raising))


def _is_inside_any(path: str, ancestors: Collection[str]) -> bool:
    return any(is_inside(path, ancestor) for ancestor in ancestors)


def _without_shares(total: Array | None, records: Records, name: str, around: str | None) -> Array | None:
    """The gradient of a shared parameter that remains after subtracting the shares of all Cells but `around`."""
    if total is None:
        return None
    return total - sum(
        share for (shared, path), share in records.gradients.shares.items() if shared == name and path != around
    )


def _common_ancestor(paths: list[str]) -> str:
    """Path of the innermost Cell that contains all of `paths`."""
    parts = [path.split(".")[:-1] for path in paths]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return ".".join(names[0] for names in common)
