"""The comparison of a side's records with the reference's, Cell by Cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from ...runtime.ir.types import is_floating
from ..pairing.structures import match_results
from ..results.cell_report import is_inside
from ..results.comparison import FAIL, NOT_COMPARED, PASS, Comparison
from ..sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, ParameterInfo, Records
from ..sides.resolution import Resolution
from ..verdicts.deviations import error, size
from ..verdicts.error_maps import error_map
from ..verdicts.judge import ROUNDING_FACTOR, Tolerance, epsilon, judge
from ..verdicts.python_values import judge_values
from .noise import Noise, NoiseKey

NO_GRADIENT = "no gradient arrives"
EQUIVALENT_DTYPES = frozenset({("int64", "int32")})
"""Pairs of dtypes, of torch's outputs and a port's, that count as equal: MindSpore computes indices in int32."""


@dataclass
class Comparer:
    """Compares one side with the reference, in one way of feeding.

    Attributes:
        side: name of the side.
        feeding: "isolated" or "end to end".
        truth: records of the reference in float64.
        noise: the reference's error in the working dtype.
        tolerance: the bars.
        owners: path of the Cell that owns each parameter and buffer, by qualified name.
        grads: whether gradients are compared.
        natural: whether the network runs in its own dtype, so that the floating-point dtypes of outputs must match.
        is_port: whether the side is a port, whose outputs may have other dtypes by `EQUIVALENT_DTYPES`.
        only: whether the side's outputs are judged by this comparison alone, without a run in float64 or per Cell.
    """

    side: str
    feeding: str
    truth: Records
    noise: Noise
    tolerance: Tolerance
    owners: Mapping[str, str]
    grads: bool
    natural: bool = False
    is_port: bool = False
    only: bool = False
    _judged: dict[tuple[Any, ...], tuple[dict[str, Any], Any]] = field(default_factory=dict)

    def compare(self, check: str, candidate: Records) -> list[tuple[str, Comparison]]:
        """Return all comparisons of a run of the side, as (Cell path, comparison)."""
        self._judged.clear()
        result: list[tuple[str, Comparison]] = [
            *self._call_mismatches(check, candidate),
            *self._compare_python_values(check, candidate),
        ]
        if candidate.raising_cells and self.feeding != "isolated":
            return result  # there are no outputs
        wrong_shape: set[str] = set(candidate.raising_cells)
        for key, truth in self.truth.values.items():
            if _is_inside_any(key.path, candidate.raising_cells) or (
                key.kind == OUTPUT and key.path in candidate.raising_cells
            ):
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
                *self._compare_gradients(check, INPUT_GRADIENT, candidate),
                *self._compare_gradients(check, OUTPUT_GRADIENT, candidate),
                *self._compare_parameter_gradients(check, candidate),
            ]
            # the gradients of an output of the wrong shape mean nothing, and the Cell has failed already
            result += [(path, comparison) for path, comparison in gradients if path not in wrong_shape]
        return result

    def _call_mismatches(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Yield a failure for each call that differs in more than numbers."""
        for mismatch in candidate.mismatches:
            fields = {"status": FAIL, "reason": mismatch.reason}
            comparison = self._make_comparison(
                check, mismatch.kind, mismatch.tensor, mismatch.call, fields, mismatch.source
            )
            yield mismatch.path, comparison

    def _is_compared(self, key: Key) -> bool:
        return self.feeding == "isolated" or key.path == ""

    def _compare_boundary(
        self, check: str, kind: str, key: Key, truth: Array, candidate: Records, group_size: float = 0.0
    ) -> Comparison:
        value = candidate.values.get(key)
        name = key.slot if kind in ("output", "input gradient") else f"{key.path} {key.slot}"
        if value is None:
            reason = f"nothing was recorded here on the {self.side} side: the Cell or this output has no counterpart"
            return self._make_comparison(check, kind, name, key.call, {"status": NOT_COMPARED, "reason": reason})
        reference = self.noise.first.values.get(key, truth)
        fields = self._judge(check, key, value, truth, reference, group_size)
        if check == "rounding" and key in candidate.resolutions and np.isfinite(fields.get("error", np.inf)):
            fields |= self._judge_by_resolution(candidate.resolutions[key], value, truth, reference, fields)
        if kind == "output" and fields["status"] == PASS and not self._is_allowed_dtype(key, value, reference, check):
            reason = f"dtype {value.dtype.name}, needed {reference.dtype.name}"
            fields |= {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf, "index": None}
        if kind == "output" and self.only and fields["status"] == PASS and self._is_ill_conditioned(key, truth, fields):
            fields |= {
                "status": NOT_COMPARED,
                "reason": f"too ill-conditioned to be judged: the largest element is {size(truth):.3g}, "
                f"the rounding error of the reference itself {fields['reference_error']:.3g}",
            }
        return self._make_comparison(check, kind, name, key.call, fields, candidate.sources.get(key, ""))

    def _is_ill_conditioned(self, key: Key, truth: Array, fields: Mapping[str, Any]) -> bool:
        """Whether both sides' errors exceed the output itself, by more than rounding of the inputs explains."""
        noise, error = fields.get("reference_error", 0.0), fields.get("error", 0.0)
        if self.tolerance.overridden or not is_floating(truth.dtype) or min(noise, error) <= size(truth):
            return False
        input_sizes = [size(x) for k, x in self.truth.values.items() if k[:2] == key[:2] and k.kind == INPUT]
        return bool(noise > ROUNDING_FACTOR * self.tolerance.unit * max(input_sizes, default=1.0))

    def _judge_by_resolution(
        self, resolution: Resolution, value: Array, truth: Array, reference: Array, fields: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of the verdict that change because of the kernel's resolution."""
        off, of_reference = (
            np.abs(array.astype(np.float64) - truth.astype(np.float64)) for array in (value, reference)
        )
        unit = epsilon(value.dtype.name)
        right = None
        if not self.tolerance.overridden:
            fine = ROUNDING_FACTOR * unit * size(truth)
            right = resolution.verdict(off, of_reference, fields["bar"], fine, unit)
        if right is None or right == (fields["status"] == PASS):
            return {}
        if right:
            return {"status": PASS, "reason": "", "ratio": fields["allowed"]}
        return {"status": FAIL, "reason": "differs by more than a few single steps of its quantizer"}

    def _is_allowed_dtype(self, key: Key, value: Array, reference: Array, check: str) -> bool:
        """Whether an output with the right numbers may have its dtype; inside a port, any dtype is allowed."""
        dtypes = reference.dtype.name, value.dtype.name
        if value.dtype == reference.dtype or (self.is_port and (key.path or dtypes in EQUIVALENT_DTYPES)):
            return True
        return is_floating(value.dtype) and is_floating(reference.dtype) and not (self.natural and check == "rounding")

    def _compare_python_values(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Yield a failure for each returned value of the root that isn't a tensor and differs."""
        truth_result, result, working_result = self.truth.result, candidate.result, self.noise.first.result
        if truth_result is None or result is None or working_result is None:
            return
        working_values = {where: value for where, _, value in match_results(truth_result, working_result).values}
        for where, truth, given in match_results(truth_result, result, is_port=self.is_port).values:
            fields = judge_values(check, given, truth, working_values.get(where, truth), self.tolerance)
            if fields["status"] != PASS:
                yield "", self._make_comparison(check, "output", where or "result", 0, fields)

    def _judge(
        self, check: str, key: NoiseKey, value: Array, truth: Array, reference: Array, group_size: float = 0.0
    ) -> dict[str, Any]:
        noise, bound = self.noise.error(key, check), self.noise.bound(key, check)
        arrays = value, truth, reference, bound
        case = (*map(id, arrays), check, noise, group_size)
        if case not in self._judged:  # values at several boundaries may be one array
            judged = judge(check, value, truth, reference, noise, self.tolerance, group_size, bound)
            self._judged[case] = judged, arrays  # alive, so that no other array has the same id
        fields = dict(self._judged[case][0])
        if fields["status"] == FAIL and value.shape == truth.shape:
            shown = truth if check == "meaning" else reference
            fields["error_map"] = error_map(value, truth, shown, fields.get("bar", 0.0), fields.get("index"))
        if _is_nan(truth) and fields["status"] == PASS:
            return fields | {"status": NOT_COMPARED, "reason": "NaN in the reference, in every element"}
        return fields

    def _is_untracked(self, gradient: Key, records: Records) -> bool:
        """Whether a side computes no gradient of this input."""
        return gradient._replace(kind=INPUT) in records.untracked

    def _caller(self, key: Key) -> str:
        """Path of the Cell that made the call."""
        return self._callers.get((key.path, key.call), "")

    @cached_property
    def _callers(self) -> dict[tuple[str, int], str]:
        calls = self.truth.calls
        return {(call.path, call.index): calls[call.parent].path for call in calls if call.parent is not None}

    def _compare_gradients(self, check: str, boundary: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Compare gradients at boundaries: the Cell computes those of its inputs, its caller those of its outputs."""
        for key in [k for k in {**self.truth.values, **candidate.values} if k.kind == boundary]:
            own = boundary == INPUT_GRADIENT
            if not (self._is_compared(key) if own else key.path and self.feeding == "isolated"):
                continue
            if _is_unknown(key.path, candidate) or _is_inside_any(key.path, candidate.opaque):
                continue
            kind, path = ("input gradient", key.path) if own else ("passed gradient", self._caller(key))
            if own and key.path and self._is_untracked(key, self.truth):
                continue  # the reference computes none
            if own and key.path and self._is_untracked(key, candidate):  # its caller detached it
                kind, path, own = "passed gradient", self._caller(key), False
            truth, value = self.truth.values.get(key), candidate.values.get(key)
            if value is None and candidate.broken:
                continue
            group = self._group_size(key.path, key.call)
            if truth is not None and value is not None:
                compared = self._compare_boundary(check, kind, key, truth, candidate, group)
                if compared.status == PASS or value.any() or not truth.any():
                    yield path, compared
                    continue
                value = None  # nothing but the zero that every boundary is fed
            name = key.slot if own else f"{key.path} {key.slot}"
            yield path, self._make_comparison(check, kind, name, key.call, self._judge_one_sided(truth, value))

    def _compare_parameter_gradients(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        reference = self.noise.first.parameter_gradients
        for name in dict.fromkeys([*self.truth.parameter_gradients, *candidate.parameter_gradients]):
            path = self.owners.get(name, "")
            if _is_unknown(path, candidate):
                continue
            if _is_inside_any(path, candidate.opaque):  # a custom backward computes it
                path = next(outer for outer in candidate.opaque if is_inside(path, outer))
            triple = (
                self.truth.parameter_gradients.get(name),
                candidate.parameter_gradients.get(name),
                reference.get(name),
            )
            holders = [holder for shared, holder in self.truth.shares if shared == name]
            if self.feeding == "isolated" and holders:
                for holder in holders:
                    share = (name, holder)
                    sides = (self.truth.shares[share], candidate.shares.get(share), self.noise.first.shares.get(share))
                    yield from self._compare_parameter_gradient(check, name, share, holder, sides, candidate.broken)
                path = _common_ancestor(holders)
                records = (self.truth, candidate, self.noise.first)
                triple = tuple(_without_shares(t, r, name) for t, r in zip(triple, records, strict=True))  # type: ignore[assignment]
            yield from self._compare_parameter_gradient(
                check, name, ("parameter", name), path, triple, candidate.broken
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
            fields = self._judge(check, key, value, truth, working, self._group_size(path, None))
        else:
            fields = self._judge_one_sided(truth, value)
        yield path, self._make_comparison(check, "parameter gradient", name, 0, fields)

    def _compare_updates(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        for name in dict.fromkeys([*self.truth.updates, *candidate.updates]):
            if _is_unknown(self.owners.get(name, ""), candidate):
                continue
            # writing a buffer's old value back is the same as not writing to it
            truth, value = (r.updates.get(name, r.buffers.get(name)) for r in (self.truth, candidate))
            if truth is None or value is None:
                fields = {
                    "status": FAIL,
                    "reason": f"updated on the {'other' if truth is None else 'reference'} side only",
                }
            else:
                first = self.noise.first
                reference = first.updates.get(name, first.buffers.get(name, truth))
                fields = self._judge(check, ("update", name), value, truth, reference)
            yield self.owners.get(name, ""), self._make_comparison(check, "buffer update", name, 0, fields)

    def _judge_one_sided(self, truth: Array | None, value: Array | None) -> dict[str, Any]:
        """Judge a gradient that only one side has: the missing one counts as zeros."""
        present = truth if truth is not None else value
        assert present is not None
        if size(present) == 0.0:
            return {"status": PASS, "shape": tuple(present.shape), "dtype": present.dtype.name}
        where = "the reference has one" if truth is not None else "the reference has none"
        reason = f"{NO_GRADIENT}, {where}" if truth is not None else f"a gradient arrives, {where}"
        return {"status": FAIL, "reason": reason, "shape": tuple(present.shape), "dtype": present.dtype.name}

    def _group_size(self, path: str, index: int | None) -> float:
        """The largest gradient element at the boundary of a Cell, or of the Cell that calls it.

        A Cell's gradient may be the small difference of its caller's large gradients: for example, those of the keys of
        an attention whose weights are concentrated on one position.
        """
        return self._group_sizes.get((path, index), 0.0)

    @cached_property
    def _group_sizes(self) -> dict[tuple[str, int | None], float]:
        """The largest elements by (path, call index), and by (path, None) over all calls."""
        own: dict[tuple[str, int], float] = {}
        for key, value in self.truth.values.items():
            if key.kind in (INPUT_GRADIENT, OUTPUT_GRADIENT):
                own[key.path, key.call] = max(own.get((key.path, key.call), 0.0), size(value))
        sizes: dict[tuple[str, int | None], float] = {}
        for call in self.truth.calls:
            calling = self.truth.calls[call.parent] if call.parent is not None else call
            largest = max(own.get((c.path, c.index), 0.0) for c in (call, calling))
            for entry in ((call.path, call.index), (call.path, None)):
                sizes[entry] = max(sizes.get(entry, 0.0), largest)
        return sizes

    def _make_comparison(
        self, check: str, kind: str, tensor: str, call: int, fields: dict[str, Any], source: str = ""
    ) -> Comparison:
        return Comparison(self.side, check, self.feeding, kind, tensor, call, source=source, **fields)


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
        return f"shape {list(other.data.shape)}, needed {list(reference.data.shape)}"
    if reference.trainable != other.trainable:
        frozen, trained = (side, "reference") if reference.trainable else ("reference", side)
        return f"frozen on the {frozen} side, trained on the {trained} side"
    worst, _ = error(other.data, reference.data)
    return f"the values differ, by up to {worst:.3g}" if worst > 0 else ""


def _is_nan(array: Array) -> bool:
    """Whether all elements are NaN."""
    return bool(array.size and is_floating(array.dtype) and np.isnan(array.flat[0]) and np.isnan(array).all())


def _is_unknown(path: str, candidate: Records) -> bool:
    """Whether the Cell, or one that contains it, raised an exception on that side: nothing is known of it."""
    return path in candidate.raising_cells or _is_inside_any(path, candidate.raising_cells)


def _is_inside_any(path: str, ancestors: Collection[str]) -> bool:
    return any(is_inside(path, ancestor) for ancestor in ancestors)


def _without_shares(total: Array | None, records: Records, name: str) -> Array | None:
    """The gradient of a shared parameter that remains after subtracting the shares of the Cells that hold it."""
    if total is None:
        return None
    return total - sum(share for (shared, _), share in records.shares.items() if shared == name)


def _common_ancestor(paths: list[str]) -> str:
    """Path of the innermost Cell that contains all of `paths`."""
    parts = [path.split(".")[:-1] for path in paths]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return ".".join(names[0] for names in common)
