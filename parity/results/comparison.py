"""`Comparison`, one tensor compared between two sides, and the names of verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .error_map import ErrorMap

SCHEMA_VERSION = 1

PASS = "pass"
FAIL = "fail"
REFERENCE_WRONG = "reference wrong"  # it differs from a gradient of the reference that is wrong itself
NOT_COMPARED = "not compared"
NOT_KNOWN = "not known"  # too ill-conditioned to be judged, or the reference is NaN
AFFECTED = "affected"  # it fails end to end only, because of other Cells
NOT_REACHED = "not reached"
SKIPPED = "skipped"
PASSED_ON = "passed on"  # it returns what it is given, which is judged where other Cells return it or are given it
UNPAIRED = "unpaired"  # it has no counterpart: its computation is judged in the Cell around it
INLINED = "inlined"  # never called as a module: its parameters are judged in the Cell that uses them


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor of one Cell, compared between the reference and one other side.

    Attributes:
        side: name of the side that was compared with the reference: "interpreter", "onnxruntime", "candidate".
        check: "meaning" (both sides in float64), "rounding" (working dtype, error measured against float64 truth) or
            "quantization" (for a quantized file; `ratio` and `allowed` count steps of its quantizer).
        feeding: "isolated" (the Cell got the values recorded from the reference), "end to end", or "second call" (end
            to end, with the state left by a first call) or "third call" (the same after two calls). Of two recordings,
            "equal inputs" where all that the value is computed from agrees, and else "end to end".
        kind: "output", "input gradient", "parameter gradient", "buffer update", "parameter" (its value); "passed value"
            and "passed gradient" for values that a Cell passes to the inputs of inner Cells, and gradients that it
            passes back to their outputs; "quantizer" for a value that a quantized file rounds, and "quantization error"
            for the error of a part of it, a multiple of what steps explain; "call" for a call that raises, or differs
            from the reference's.
        tensor: slot of the Cell's input or output, preceded by the path of the inner Cell for a passed value or
            gradient; or the qualified name of the parameter or buffer.
        call: index of the Cell's call, from 0.
        status: PASS, FAIL, REFERENCE_WRONG, NOT_KNOWN or NOT_COMPARED.
        reason: explanation of a failure; empty for a pass.
        dtype: dtype of the tensor.
        shape: shape of the reference's tensor.
        error: largest absolute error against the float64 truth.
        reference_error: largest absolute error of the reference itself against the float64 truth (0 for meaning).
        bar: the largest error that passes.
        ratio: error as a multiple of the reference's own rounding error (for meaning: of what double precision allows);
            the bar divided by the same unit is `allowed`.
        allowed: the largest ratio that passes, at `index`.
        index: index of the largest error.
        reference_value: the reference's value at that index.
        candidate_value: the other side's value at that index.
        truth: the float64 value at that index.
        source: file, line and text of the op that computes the tensor; empty if unknown.
        sizes: sizes of the dynamic dimensions, as `batch=1`, where they differ from those of the example inputs.
        probe: what is different about the inputs, if they were derived from the given ones: `x times 100`.
        input: number of the input that this was compared on, from 1, where there are several.
        error_map: where in the tensor a failure is; None if that isn't known. It is in no JSON report.
    """

    side: str
    check: str
    feeding: str
    kind: str
    tensor: str
    call: int
    status: str
    reason: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    error: float = 0.0
    reference_error: float = 0.0
    bar: float = 0.0
    ratio: float = 0.0
    allowed: float = 0.0
    index: tuple[int, ...] | None = None
    reference_value: float | None = None
    candidate_value: float | None = None
    truth: float | None = None
    source: str = ""
    sizes: str = ""
    probe: str = ""
    input: int = 1
    error_map: ErrorMap | None = field(default=None, compare=False, repr=False)

    @property
    def of_cell_alone(self) -> bool:
        """Whether it is about what the Cell itself computes: it had the reference's inputs."""
        return self.feeding in ("isolated", "equal inputs")

    @property
    def identity(self) -> tuple[str | int, ...]:
        """A key that is equal for comparisons of the same tensor on several inputs."""
        return self.side, self.check, self.feeding, self.kind, self.tensor, self.call, self.sizes, self.probe

    @property
    def severity(self) -> tuple[int, bool, float]:
        """A sort key that is larger for the worse of two comparisons."""
        rank = (PASS, REFERENCE_WRONG, NOT_KNOWN, NOT_COMPARED, FAIL).index(self.status)
        return rank, self.check == "rounding" or rank > 0, math.inf if math.isnan(self.ratio) else self.ratio

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with infinities and NaN as strings."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "error_map"}
        return {name: json_value(value) for name, value in fields.items()}


def worst_ratio(comparisons: Sequence[Comparison]) -> float:
    """The largest `ratio` of the rounding checks, or of all checks if there are none; NaN counts as infinite."""
    ratios = [c.ratio for c in comparisons if c.check == "rounding"] or [c.ratio for c in comparisons]
    return max((math.inf if math.isnan(ratio) else ratio for ratio in ratios), default=0.0)


def times(ratio: float) -> str:
    """Format a ratio in at most five characters: `1.3×`, `41×`, `3e5×`."""
    if not math.isfinite(ratio):
        return "inf×"
    if ratio == 0:
        return "0×"
    if ratio < 9.95:
        return f"{ratio:.1f}×"
    if ratio < 999.5:
        return f"{ratio:.0f}×"
    mantissa, exponent = f"{ratio:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}×"


def json_value(value: Any) -> Any:
    """Return a field as a JSON value: infinities and NaN as strings, tuples as lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(map(json_value, value)) if isinstance(value, tuple) else value
