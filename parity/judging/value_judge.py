"""`ValueJudge`: the verdict on each value of a run; those at boundaries of inner Cells may be judged as they appear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...runtime.ir.types import is_floating
from ..results.comparison import FAIL, NOT_KNOWN, PASS
from ..sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from ..sides.resolution import Resolution
from ..sides.run import Run
from ..verdicts.deviations import size
from ..verdicts.error_maps import error_map
from ..verdicts.judge import ROUNDING_FACTOR, Tolerance, epsilon, judge
from .noise import Noise, NoiseKey
from .rounding_bounds.cell_bounds import Bound

EQUIVALENT_DTYPES = frozenset({("int64", "int32")})
"""Pairs of dtypes, of torch's outputs and a port's, that count as equal: MindSpore computes indices in int32."""
LARGE = 2**26
"""Bytes of the values inside a network, in float64, from which on those that pass aren't kept."""
NO_DIGITS = (
    "too ill-conditioned to be judged: rounding may cost this computation more than half of its digits, on any side"
)
MAX_REMEMBERED = 8
"""Verdicts to keep, with their arrays, for values that may cross the next boundaries too."""


@dataclass
class ValueJudge:
    """Judges the values of one side by the reference's, in one way of feeding.

    Attributes:
        truth: records of the reference in float64.
        noise: the reference's error in the working dtype.
        tolerance: the bars.
        natural: whether the network runs in its own dtype, so that the floating-point dtypes of outputs must match.
        is_port: whether the side is a port, whose outputs may have other dtypes by `EQUIVALENT_DTYPES`.
        only: whether the side's outputs are judged by this comparison alone, without a run in float64 or per Cell.
        passed: what `passes` found, by boundary.
    """

    truth: Records
    noise: Noise
    tolerance: Tolerance
    natural: bool = False
    is_port: bool = False
    only: bool = False
    passed: dict[Key, dict[str, Any]] = field(default_factory=dict)
    _judged: dict[tuple[Any, ...], tuple[dict[str, Any], Any]] = field(default_factory=dict)

    def dropping(self, run: Run, check: str) -> Run:
        """Return a run that keeps no values inside a large network that pass: all are needed only if any fails."""
        size_of = {id(array): array.nbytes for array in self.truth.values.values()}
        if run.feed is None or sum(size_of.values()) <= LARGE:
            return run
        return replace(run, wanted=replace(run.wanted, passes=partial(self.passes, check)))

    def passes(self, check: str, key: Key, value: Array) -> bool:
        """Judge the value at the boundary of an inner Cell; whether it passes, so that it needn't be kept."""
        truth = self.truth.values.get(key)
        if truth is None or not key.path:
            return False
        fields = self.at_boundary(check, key, value, truth)
        if len(self._judged) > MAX_REMEMBERED:
            self._judged.clear()
        if fields["status"] == PASS:
            self.passed[key] = fields
        return key in self.passed

    def at_boundary(
        self, check: str, key: Key, value: Array, truth: Array, resolution: Resolution | None = None
    ) -> dict[str, Any]:
        """Return the fields of the comparison of a value at a boundary.

        Args:
            check: "meaning" or "rounding".
            key: the boundary.
            value: the value of the side under test.
            truth: the reference's in float64.
            resolution: resolution of the kernel that computed the value, if known.
        """
        reference = self.noise.first.values.get(key, truth)
        is_gradient = key.kind in (INPUT_GRADIENT, OUTPUT_GRADIENT)
        group_size = self.group_size(key.path, key.call) if is_gradient else 0.0
        fields = self.of(check, key, value, truth, reference, group_size)
        if check == "rounding" and resolution is not None and np.isfinite(fields.get("error", np.inf)):
            fields |= self._by_resolution(resolution, value, truth, reference, fields)
        if key.kind != OUTPUT or fields["status"] != PASS:
            return fields
        if not self._is_allowed_dtype(key, value, reference, check):
            reason = f"dtype {value.dtype.name}, needed {reference.dtype.name}"
            return fields | {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf, "index": None}
        if self.only and self._is_ill_conditioned(key, truth, fields):
            return fields | {
                "status": NOT_KNOWN,
                "reason": f"too ill-conditioned to be judged: the largest element is {size(truth):.3g}, "
                f"the rounding error of the reference itself {fields['reference_error']:.3g}",
            }
        return fields

    def of(
        self, check: str, key: NoiseKey, value: Array, truth: Array, reference: Array, group_size: float = 0.0
    ) -> dict[str, Any]:
        """Return the fields of the comparison of a value: by its numbers and shape alone; see `judge`."""
        noise, bound = self.noise.error(key, check), self._bound(key, check)
        arrays = value, truth, reference, bound
        case = (*map(id, arrays), check, noise, group_size)
        if case not in self._judged:  # values at several boundaries may be one array
            fixed = check, value, truth, reference, noise, self.tolerance, group_size
            judged = judge(*fixed, None if bound is None else bound.proved)
            if bound is not None and judged["status"] == FAIL and judge(*fixed, bound.possible)["status"] == PASS:
                judged |= {"status": NOT_KNOWN, "reason": NO_DIGITS}
            self._judged[case] = judged, arrays  # alive, so that no other array has the same id
        fields = dict(self._judged[case][0])
        if fields["status"] == FAIL and value.shape == truth.shape:
            shown = truth if check == "meaning" else reference
            fields["error_map"] = error_map(value, truth, shown, fields.get("bar", 0.0), fields.get("index"))
        if fields["status"] == PASS and _is_nan(truth):
            return fields | {"status": NOT_KNOWN, "reason": "NaN in the reference, in every element"}
        return fields

    def _bound(self, key: NoiseKey, check: str) -> Bound | None:
        """Return the rounding error that each element of a value may have; None if unknown."""
        return self.noise.bound(key, check)

    def forget(self) -> None:
        """Forget the verdicts on arrays, since the reference's errors may have been measured again."""
        self._judged.clear()

    def group_size(self, path: str, index: int | None) -> float:
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

    def _by_resolution(
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

    def _is_ill_conditioned(self, key: Key, truth: Array, fields: Mapping[str, Any]) -> bool:
        """Whether both sides' errors exceed the output itself, by more than rounding of the inputs explains."""
        noise, error = fields.get("reference_error", 0.0), fields.get("error", 0.0)
        if self.tolerance.overridden or not is_floating(truth.dtype) or min(noise, error) <= size(truth):
            return False
        input_sizes = [size(x) for k, x in self.truth.values.items() if k[:2] == key[:2] and k.kind == INPUT]
        return bool(noise > ROUNDING_FACTOR * self.tolerance.unit * max(input_sizes, default=1.0))

    def _is_allowed_dtype(self, key: Key, value: Array, reference: Array, check: str) -> bool:
        """Whether an output with the right numbers may have its dtype; inside a port, any dtype is allowed."""
        dtypes = reference.dtype.name, value.dtype.name
        if value.dtype == reference.dtype or (self.is_port and (key.path or dtypes in EQUIVALENT_DTYPES)):
            return True
        return is_floating(value.dtype) and is_floating(reference.dtype) and not (self.natural and check == "rounding")


def _is_nan(array: Array) -> bool:
    """Whether all elements are NaN."""
    return bool(array.size and is_floating(array.dtype) and np.isnan(array.flat[0]) and np.isnan(array).all())
