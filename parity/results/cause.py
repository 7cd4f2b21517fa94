"""`Cause`: why a Cell or a training fails, proved by running the reference's with that one change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .comparison import json_value
from .hunk import NOWHERE, Hunk


@dataclass(frozen=True)
class Cause:
    """A cause of a failure.

    Attributes:
        kind: "attribute" (of an op, or a number in the code), "structure" (other nodes, operands or results), "weight",
            "state" (a buffer and its update, or what is kept from one call to the next), "gradient" (a branch is
            detached, a parameter frozen), "precision" (values are rounded), "optimizer" (of a training: the
            optimizer, or what is done to gradients before it gets them) or "loss" (of a training); "onnxruntime" (a
            fault of ONNX Runtime, found by running the same model with other settings) or "model" (the exported ONNX
            model is wrong).
        summary: the difference in words.
        fix: what to change in the candidate; empty if nothing better is known than the summary.
        error: the largest relative error, in float64, that is left with the change in the reference's Cell.
        gradients: whether gradients were compared besides outputs.
        together: number of causes that had to be changed together, this one included.
        op: the op concerned; empty if there is none. For ONNX Runtime, the operator of a node of its optimized graph.
        attribute: name of the attribute, parameter or buffer; empty if there is none.
        reference_value: its value in the reference; None for arrays and where there is none.
        candidate_value: its value in the candidate.
        source: file, line and text in the candidate; empty if unknown.
        calls: number of calls before the one that differs, for what is kept between them; else 0.
        steps: number of training steps whose updates were replayed with the change; 0 for a Cell.
        node: name of the first wrong node in ONNX Runtime's optimized graph; empty if it is unknown, or has none.
        optimizers: the optimizers of ONNX Runtime that change the result.
        option: the option of the session that avoids the fault of ONNX Runtime; empty if none does.
        option_value: its value.
        values: the first numbers of arrays in which the sides differ, in words; empty if there are none.
        hunk: the lines of both sides at that place.
        in_candidate: whether the candidate's Cell was changed, to compute what the reference does.
    """

    kind: str
    summary: str
    fix: str = ""
    error: float = 0.0
    gradients: bool = False
    together: int = 1
    op: str = ""
    attribute: str = ""
    reference_value: Any = None
    candidate_value: Any = None
    source: str = ""
    calls: int = 0
    steps: int = 0
    node: str = ""
    optimizers: tuple[str, ...] = ()
    option: str = ""
    option_value: Any = None
    values: str = ""
    hunk: Hunk = NOWHERE
    in_candidate: bool = False

    @property
    def in_words(self) -> str:
        """The difference in words, with numbers of the arrays that differ."""
        return f"{self.summary} ({self.values})" if self.values else self.summary

    @property
    def proof(self) -> str:
        """What was run, in words."""
        if self.kind == "model":
            return f"from the same model, the interpreter computes the same to {self.error:.0e}, in float64"
        if self.kind == "onnxruntime":
            if not self.option:
                return "the interpreter computes the reference's result from the same model in float64"
            return f"with {self.option}={self.option_value}, the result differs by {self.error:.0e} at most"
        if self.kind == "precision":
            return "without that, in float64, the Cell agrees with the reference"
        what = "outputs and gradients" if self.gradients else "outputs"
        change = {1: "with that", 2: "with both causes"}.get(self.together, f"with all {self.together} causes")
        how = f"to {self.error:.0e}" if self.error else "exactly"
        if self.calls:
            before = "a call" if self.calls == 1 else f"{self.calls} calls"
            return f"without that, after {before} before, the Cells agree {how} in {what}"
        if self.steps:
            return f"{change}, the replayed updates agree {how} over {self.steps} step{'s' * (self.steps > 1)}"
        if self.in_candidate:
            return f"without that, the candidate's Cell agrees {how} in {what}"
        return f"{change}, the reference's Cell agrees {how} in {what}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        fields = {name: json_value(value) for name, value in asdict(self).items()}
        return fields | {"proof": self.proof, "hunk": self.hunk.to_dict()}
