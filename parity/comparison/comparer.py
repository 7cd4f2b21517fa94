"""Records of a reference and of another side, compared Cell by Cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from ...runtime.ir.types import is_floating
from ..pairing.structures import matched
from ..results.cell_report import is_inside
from ..results.comparison import FAIL, NOT_COMPARED, PASS, Comparison
from ..sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, ParameterInfo, Records
from ..sides.resolution import Resolution
from ..verdicts.deviations import error, size
from ..verdicts.judge import ROUNDING_FACTOR, Tolerance, epsilon, judge
from ..verdicts.python_values import judge_values
from .noise import Noise

NOTHING_ARRIVES = "no gradient arrives"
OTHER_BY_RULE = frozenset({("int64", "int32")})
"""Dtypes of torch's outputs, and of a port's, that are as good: MindSpore computes indices in int32."""


@dataclass
class Comparer:
    """Compares one side with the reference, in one way of feeding.

    Attributes:
        side: name of the side.
        feeding: "isolated" or "end to end".
        truth: the reference in float64.
        noise: the reference in the working dtype.
        tolerance: the bars.
        owners: path of the Cell that answers for each parameter and buffer, by qualified name.
        grads: whether gradients are compared.
        natural: whether outputs have the floating-point dtypes that the network gives them: it runs in its own dtype.
        is_port: whether the side is a port, whose outputs may have other dtypes by `OTHER_BY_RULE`.
        only: whether nothing else tells of the side's outputs: no run in float64, nor of each Cell.
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

    def compare(self, check: str, candidate: Records) -> list[tuple[str, Comparison]]:
        """All comparisons of a run of the side: (Cell path, comparison)."""
        found: list[tuple[str, Comparison]] = [*self._mismatches(check, candidate), *self._values(check, candidate)]
        if candidate.raised and self.feeding != "isolated":
            return found  # nothing came out
        misshapen: set[str] = set(candidate.raised)
        for key, truth in self.truth.values.items():
            if _is_inside_any(key.path, candidate.raised) or (key.kind == OUTPUT and key.path in candidate.raised):
                continue
            if key.kind == OUTPUT and self._concerns(key):
                found.append((key.path, self._boundary(check, "output", key, truth, candidate)))
                if candidate.values.get(key, truth).shape != truth.shape:
                    misshapen.add(key.path)
            elif key.kind == INPUT and key.path and self.feeding == "isolated":
                # what arrives at a Cell's input was made by the code of the Cell that calls it
                found.append((self._caller(key), self._boundary(check, "passed value", key, truth, candidate)))
        found += self._updates(check, candidate)
        if self.grads:
            gradients = [
                *self._gradients(check, INPUT_GRADIENT, candidate),
                *self._gradients(check, OUTPUT_GRADIENT, candidate),
                *self._parameter_gradients(check, candidate),
            ]
            # behind an output of the wrong shape no meaningful gradient comes back: the Cell has failed already
            found += [(path, comparison) for path, comparison in gradients if path not in misshapen]
        return found

    def _mismatches(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """Calls that differ in more than numbers."""
        for mismatch in candidate.mismatches:
            fields = {"status": FAIL, "reason": mismatch.reason}
            found = self._comparison(check, mismatch.kind, mismatch.tensor, mismatch.call, fields, mismatch.source)
            yield mismatch.path, found

    def _concerns(self, key: Key) -> bool:
        return self.feeding == "isolated" or key.path == ""

    def _boundary(
        self, check: str, kind: str, key: Key, truth: Array, candidate: Records, group_size: float = 0.0
    ) -> Comparison:
        value = candidate.values.get(key)
        name = key.slot if kind in ("output", "input gradient") else f"{key.path} {key.slot}"
        if value is None:
            reason = f"nothing was recorded here on the {self.side} side: the Cell or this output has no counterpart"
            return self._comparison(check, kind, name, key.call, {"status": NOT_COMPARED, "reason": reason})
        reference = self.noise.first.values.get(key, truth)
        fields = self._judged(check, value, truth, reference, self.noise.error(key, check), group_size)
        if check == "rounding" and key in candidate.resolutions and np.isfinite(fields.get("error", np.inf)):
            fields |= self._resolved(candidate.resolutions[key], value, truth, reference, fields)
        if kind == "output" and fields["status"] == PASS and not self._may_be(key, value, reference, check):
            reason = f"dtype {value.dtype.name}, needed {reference.dtype.name}"
            fields |= {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf, "index": None}
        if kind == "output" and self.only and fields["status"] == PASS and self._is_lost(key, truth, fields):
            fields |= {
                "status": NOT_COMPARED,
                "reason": f"too ill-conditioned to be judged: the largest element is {size(truth):.3g}, "
                f"the rounding error of the reference itself {fields['reference_error']:.3g}",
            }
        return self._comparison(check, kind, name, key.call, fields, candidate.sources.get(key, ""))

    def _is_lost(self, key: Key, truth: Array, fields: Mapping[str, Any]) -> bool:
        """Whether neither side has a digit of an output, for more than the rounding of what it is computed from."""
        noise, found = fields.get("reference_error", 0.0), fields.get("error", 0.0)
        if self.tolerance.overridden or not is_floating(truth.dtype) or min(noise, found) <= size(truth):
            return False
        given = [size(x) for k, x in self.truth.values.items() if k[:2] == key[:2] and k.kind == INPUT]
        return bool(noise > ROUNDING_FACTOR * self.tolerance.unit * max(given, default=1.0))

    def _resolved(
        self, resolution: Resolution, value: Array, truth: Array, reference: Array, fields: dict[str, Any]
    ) -> dict[str, Any]:
        """What changes in the verdict by how finely the kernel resolves."""
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
        return {"status": FAIL, "reason": "off by other than a few single steps of its quantizer"}

    def _may_be(self, key: Key, value: Array, reference: Array, check: str) -> bool:
        """Whether an output may have its dtype, where its numbers are right; inside a port, Cells may agree on any."""
        dtypes = reference.dtype.name, value.dtype.name
        if value.dtype == reference.dtype or (self.is_port and (key.path or dtypes in OTHER_BY_RULE)):
            return True
        return is_floating(value.dtype) and is_floating(reference.dtype) and not (self.natural and check == "rounding")

    def _values(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """What the root returns that isn't a tensor, where it differs."""
        needed_in, given_in, working_in = self.truth.result, candidate.result, self.noise.first.result
        if needed_in is None or given_in is None or working_in is None:
            return
        in_working = {where: value for where, _, value in matched(needed_in, working_in).values}
        for where, needed, given in matched(needed_in, given_in, is_port=self.is_port).values:
            fields = judge_values(check, given, needed, in_working.get(where, needed), self.tolerance)
            if fields["status"] != PASS:
                yield "", self._comparison(check, "output", where or "result", 0, fields)

    def _judged(
        self, check: str, value: Array, truth: Array, reference: Array, noise: float, group_size: float = 0.0
    ) -> dict[str, Any]:
        fields = judge(check, value, truth, reference, noise, self.tolerance, group_size)
        if truth.size and is_floating(truth.dtype) and np.isnan(truth).all() and fields["status"] == PASS:
            return fields | {"status": NOT_COMPARED, "reason": "NaN in the reference, in every element"}
        return fields

    def _is_untracked(self, gradient: Key, records: Records) -> bool:
        """Whether a side asks for no gradient of this input."""
        return gradient._replace(kind=INPUT) in records.untracked

    def _caller(self, key: Key) -> str:
        """Path of the Cell that made the call."""
        return self._callers.get((key.path, key.call), "")

    @cached_property
    def _callers(self) -> dict[tuple[str, int], str]:
        calls = self.truth.calls
        return {(call.path, call.index): calls[call.parent].path for call in calls if call.parent is not None}

    def _gradients(self, check: str, boundary: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        """What goes back through a Cell's inputs is its own; what arrives at its outputs was made by its caller."""
        for key in [k for k in {**self.truth.values, **candidate.values} if k.kind == boundary]:
            own = boundary == INPUT_GRADIENT
            if not (self._concerns(key) if own else key.path and self.feeding == "isolated"):
                continue
            if _unknown(key.path, candidate) or _is_inside_any(key.path, candidate.opaque):
                continue
            kind, path = ("input gradient", key.path) if own else ("passed gradient", self._caller(key))
            if own and key.path and self._is_untracked(key, self.truth):
                continue  # nobody asked the reference for it
            if own and key.path and self._is_untracked(key, candidate):  # its caller cut it off
                kind, path, own = "passed gradient", self._caller(key), False
            truth, value = self.truth.values.get(key), candidate.values.get(key)
            if value is None and candidate.broken:
                continue
            group = self._group_size(key.path, key.call)
            if truth is not None and value is not None:
                yield path, self._boundary(check, kind, key, truth, candidate, group)
            else:
                name = key.slot if own else f"{key.path} {key.slot}"
                yield path, self._comparison(check, kind, name, key.call, self._one_sided(truth, value))

    def _parameter_gradients(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        reference = self.noise.first.parameter_gradients
        for name in dict.fromkeys([*self.truth.parameter_gradients, *candidate.parameter_gradients]):
            path = self.owners.get(name, "")
            if _unknown(path, candidate):
                continue
            if _is_inside_any(path, candidate.opaque):  # the backward written by hand makes it, or doesn't
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
                    yield from self._parameter_gradient(
                        check, name, holder, sides, self.noise.error(share, check), candidate.broken
                    )
                path = _common_ancestor(holders)
                records = (self.truth, candidate, self.noise.first)
                triple = tuple(_without_shares(t, r, name) for t, r in zip(triple, records, strict=True))  # type: ignore[assignment]
            yield from self._parameter_gradient(
                check, name, path, triple, self.noise.error(("parameter", name), check), candidate.broken
            )

    def _parameter_gradient(
        self,
        check: str,
        name: str,
        path: str,
        sides: tuple[Array | None, Array | None, Array | None],
        noise: float,
        broken: bool,
    ) -> Iterator[tuple[str, Comparison]]:
        truth, value, reference = sides
        if (truth is None and value is None) or (value is None and broken):
            return
        if truth is not None and value is not None:
            known = truth if reference is None else reference
            fields = self._judged(check, value, truth, known, noise, self._group_size(path, None))
        else:
            fields = self._one_sided(truth, value)
        yield path, self._comparison(check, "parameter gradient", name, 0, fields)

    def _updates(self, check: str, candidate: Records) -> Iterator[tuple[str, Comparison]]:
        for name in dict.fromkeys([*self.truth.updates, *candidate.updates]):
            if _unknown(self.owners.get(name, ""), candidate):
                continue
            # a buffer that one side writes what it held already to is as good as one that the other leaves alone
            truth, value = (r.updates.get(name, r.buffers.get(name)) for r in (self.truth, candidate))
            if truth is None or value is None:
                fields = {
                    "status": FAIL,
                    "reason": f"updated on the {'other' if truth is None else 'reference'} side only",
                }
            else:
                first = self.noise.first
                reference = first.updates.get(name, first.buffers.get(name, truth))
                fields = self._judged(check, value, truth, reference, self.noise.error(("update", name), check))
            yield self.owners.get(name, ""), self._comparison(check, "buffer update", name, 0, fields)

    def _one_sided(self, truth: Array | None, value: Array | None) -> dict[str, Any]:
        """A gradient that only one side has: the same as one of zeros."""
        present = truth if truth is not None else value
        assert present is not None
        if size(present) == 0.0:
            return {"status": PASS, "shape": tuple(present.shape), "dtype": present.dtype.name}
        where = "the reference has one" if truth is not None else "the reference has none"
        reason = f"{NOTHING_ARRIVES}, {where}" if truth is not None else f"a gradient arrives, {where}"
        return {"status": FAIL, "reason": reason, "shape": tuple(present.shape), "dtype": present.dtype.name}

    def _group_size(self, path: str, index: int | None) -> float:
        """Size of the largest gradient at the boundary of a Cell, or of the one that calls it.

        What comes back through a Cell may be the small difference of large gradients that its caller computes with:
        those of the keys of an attention that looks at one place only, say.
        """
        return self._group_sizes.get((path, index), 0.0)

    @cached_property
    def _group_sizes(self) -> dict[tuple[str, int | None], float]:
        """By Cell and call, and (None) over all calls."""
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

    def _comparison(
        self, check: str, kind: str, tensor: str, call: int, fields: dict[str, Any], source: str = ""
    ) -> Comparison:
        return Comparison(self.side, check, self.feeding, kind, tensor, call, source=source, **fields)


def compare_parameters(
    side: str, reference: Mapping[str, ParameterInfo], other: Mapping[str, ParameterInfo], owners: Mapping[str, str]
) -> list[tuple[str, Comparison]]:
    """Whether both sides have the same parameters: names, shapes, values, and which of them are trained."""
    found: list[tuple[str, Comparison]] = []
    for name in dict.fromkeys([*reference, *other]):
        reason = _parameter_difference(side, reference.get(name), other.get(name))
        shape = tuple((reference.get(name) or other[name]).data.shape)
        status = FAIL if reason else PASS
        comparison = Comparison(side, "meaning", "isolated", "parameter", name, 0, status, reason, shape=shape)
        found.append((owners.get(name, ""), comparison))
    return found


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


def _unknown(path: str, candidate: Records) -> bool:
    """Whether nothing is known of a Cell on that side, as it raised an exception, or the one that contains it."""
    return path in candidate.raised or _is_inside_any(path, candidate.raised)


def _is_inside_any(path: str, ancestors: Collection[str]) -> bool:
    return any(is_inside(path, ancestor) for ancestor in ancestors)


def _without_shares(total: Array | None, records: Records, name: str) -> Array | None:
    """The gradient of a shared parameter less the shares of the Cells that hold it: that of other uses."""
    if total is None:
        return None
    return total - sum(share for (shared, _), share in records.shares.items() if shared == name)


def _common_ancestor(paths: list[str]) -> str:
    """Path of the innermost Cell that contains all of `paths`."""
    parts = [path.split(".")[:-1] for path in paths]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return ".".join(names[0] for names in common)
