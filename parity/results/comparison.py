"""`Comparison`: one tensor compared between two sides, as data, and what its verdicts are called."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1

PASS = "pass"
FAIL = "fail"
NOT_COMPARED = "not compared"
NOT_REACHED = "not reached"
SKIPPED = "skipped"
UNPAIRED = "unpaired"  # no Cell is its port: what it computes is judged in the Cell around it
INLINED = "inlined"  # never called as a module: its parameters are used, and judged, in the Cell that uses them


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor of one Cell, compared between the reference and one other side.

    Attributes:
        side: which side was held against the reference: "interpreter", "onnxruntime", "candidate".
        check: "meaning" (both sides in float64), "rounding" (working dtype, error measured against float64 truth) or
            "quantization" (of a quantized file; `ratio` and `allowed` count steps of its quantizer).
        feeding: "isolated" (the Cell got the reference's recorded values), "end to end", or "second call" (end to end,
            the state carried over from a first call).
        kind: "output", "input gradient", "parameter gradient", "buffer update", "parameter" (the value itself); and for
            what a Cell's own code hands to the Cells that it calls: "passed value" (into their inputs) and "passed
            gradient" (back into their outputs). "call": the call itself, where a Cell raises, or is called otherwise.
        tensor: slot of the Cell's input or output, with the path of the called Cell before it for what is passed; or
            the qualified name of the parameter or buffer.
        call: which call of the Cell, from 0.
        status: PASS, FAIL or NOT_COMPARED.
        reason: what is wrong, in words; empty for a pass.
        dtype: of the tensor.
        shape: of the reference's tensor.
        error: largest absolute error against the float64 truth.
        reference_error: largest absolute error of the reference itself against the float64 truth (0 for meaning).
        bar: the largest error that passes.
        ratio: error as a multiple of the reference's own rounding error (for meaning: of what double precision allows);
            the bar divided by the same unit is `allowed`.
        allowed: the largest ratio that passes.
        index: where the largest error is.
        reference_value: the reference's value there.
        candidate_value: the other side's value there.
        truth: the float64 value there.
        source: file, line and text of the op that the tensor comes from; empty if unknown.
        sizes: of the dynamic dimensions, as `batch=1`, where they aren't those of the example inputs.
        input: where there are several inputs, on which of them this was found, from 1.
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
    input: int = 1

    @property
    def place(self) -> tuple[str | int, ...]:
        """What is equal for comparisons of the same thing on several inputs."""
        return self.side, self.check, self.feeding, self.kind, self.tensor, self.call, self.sizes

    @property
    def badness(self) -> tuple[int, bool, float]:
        """What is larger for the worse of two comparisons."""
        rank = (PASS, NOT_COMPARED, FAIL).index(self.status)
        return rank, self.check == "rounding" or rank > 0, math.inf if math.isnan(self.ratio) else self.ratio

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; infinities and NaN are strings."""
        written = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: json_value(value) for name, value in written.items()}


def worst_ratio(comparisons: list[Comparison]) -> float:
    """The largest `ratio` of the rounding checks, or, where there are none, of all; NaN counts as infinite."""
    ratios = [c.ratio for c in comparisons if c.check == "rounding"] or [c.ratio for c in comparisons]
    return max((math.inf if math.isnan(ratio) else ratio for ratio in ratios), default=0.0)


def json_value(value: Any) -> Any:
    """A field as JSON: infinities and NaN are strings, tuples lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
