"""What a comparison found, as data: `Comparison`, `CellReport`, `Report`. Terminal, JSON and JUnit are views of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ..runtime.errors import ParityError

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
        return {name: _json_value(value) for name, value in written.items()}


@dataclass
class CellReport:
    """All comparisons of one Cell (of all its calls).

    Attributes:
        path: module path, `""` for the root.
        class_name: of the reference's module.
        calls: how often the inputs reached it.
        comparisons: those of the Cell itself; its children have their own.
        presence: None for a Cell that was compared; else NOT_REACHED, SKIPPED, INLINED or UNPAIRED.
        counterpart: class and path of the Cell that is its port; empty where Cells are paired by path.
        explanations: for a Cell at fault, the differences between the two APIs that apply to it.
    """

    path: str
    class_name: str
    calls: int = 1
    comparisons: list[Comparison] = field(default_factory=list)
    presence: str | None = None
    counterpart: str = ""
    explanations: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """FAIL if any comparison fails; NOT_COMPARED if any couldn't be made, or none was; else PASS; or `presence`."""
        statuses = {comparison.status for comparison in self.comparisons}
        if FAIL in statuses:
            return FAIL
        if NOT_COMPARED in statuses:
            return NOT_COMPARED
        return self.presence or (PASS if statuses else NOT_COMPARED)

    @property
    def outputs(self) -> list[Comparison]:
        """Comparisons of outputs, of values passed to inner Cells, and of buffer updates."""
        return [c for c in self.comparisons if c.kind in ("output", "passed value", "buffer update")]

    @property
    def gradients(self) -> list[Comparison]:
        """Comparisons of input and parameter gradients, and of gradients passed back to inner Cells."""
        return [c for c in self.comparisons if c.kind in ("input gradient", "passed gradient", "parameter gradient")]

    @property
    def failures(self) -> list[Comparison]:
        """What failed or couldn't be compared, in the order of comparison."""
        return [c for c in self.comparisons if c.status != PASS]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "path": self.path,
            "class_name": self.class_name,
            "calls": self.calls,
            "status": self.status,
            "counterpart": self.counterpart,
            "explanations": list(self.explanations),
            "worst_output_ratio": _json_value(worst_ratio(self.outputs)),
            "worst_gradient_ratio": _json_value(worst_ratio(self.gradients)),
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
        }


@dataclass(frozen=True, slots=True)
class CarriedWeight:
    """Where the value of a Cell's Parameter came from.

    Attributes:
        parameter: path of the Parameter.
        source: names of the module's parameters, and how they are laid out.
        how: "layer", "name", "shape", "given", "absent there" or "own value".
    """

    parameter: str
    source: str
    how: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"parameter": self.parameter, "source": self.source, "how": self.how}


@dataclass(frozen=True, slots=True)
class PairedCell:
    """A module and the Cell that is its port, or one of them alone.

    Attributes:
        module: path of the module.
        module_class: its class; empty for a Cell that is the port of no module.
        cell: path of the Cell.
        cell_class: its class; empty for a module without a port.
        how: how the pair was found: "root", "name", "position", "class and order" or "given".
        apart: why they can't be held against each other, as they are called differently; then what they do is judged in
            the Cells around them. Empty if they can.
    """

    module: str = ""
    module_class: str = ""
    cell: str = ""
    cell_class: str = ""
    how: str = ""
    apart: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; null for what isn't there."""
        return {
            "module": self.module if self.module_class else None,
            "module_class": self.module_class or None,
            "cell": self.cell if self.cell_class else None,
            "cell_class": self.cell_class or None,
            "how": self.how,
            "apart": self.apart,
        }


@dataclass(repr=False)
class Report:
    """The verdict on two or more sides of a network.

    Attributes:
        model: what was compared, as the user named it.
        reference: name of the reference side.
        sides: names of the other sides.
        dtype: working dtype.
        train: whether in train mode.
        grads: whether gradients were compared.
        seed: of the random numbers.
        cells: by module path, parents before children.
        notes: what a reader should know about this run, e.g. that it stopped early.
        pairs: where one side is a Cell, which Cell is the port of which module.
        weights: where one side is a Cell, how its Parameters were filled.
        sizes: at which sizes of the dynamic dimensions, as `batch=1, length=7`, it was all compared besides.
        inputs: on how many inputs it was all compared; of each comparison the worst is kept.
    """

    model: str
    reference: str
    sides: list[str]
    dtype: str
    train: bool
    grads: bool
    seed: int
    cells: dict[str, CellReport]
    notes: list[str] = field(default_factory=list)
    pairs: list[PairedCell] = field(default_factory=list)
    weights: list[CarriedWeight] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    inputs: int = 1

    @property
    def ok(self) -> bool:
        """Whether no comparison failed and none that should have been made is missing, and at least one was made."""
        compared = [cell for cell in self.cells.values() if cell.comparisons]
        return bool(compared) and not any(cell.status in (FAIL, NOT_COMPARED) for cell in compared)

    @property
    def failing(self) -> list[str]:
        """Paths of the Cells that are wrong themselves.

        A Cell whose isolated comparisons fail is wrong by its own ops. Only where none is, the Cells that fail end to
        end are listed, without those that contain another failing one.
        """
        failing = {path: cell.failures for path, cell in self.cells.items() if cell.failures}
        own = [path for path, failures in failing.items() if any(c.feeding == "isolated" for c in failures)]
        return own or [path for path in failing if not any(is_inside(other, path) for other in failing)]

    @property
    def unpaired(self) -> list[str]:
        """Paths of the modules that aren't held against a Cell: there is none, or it is called otherwise."""
        return [pair.module for pair in self.pairs if pair.module_class and (pair.apart or not pair.cell_class)]

    @property
    def lone_cells(self) -> list[str]:
        """Cells, as `path (class)`, that are the port of no module."""
        return [f"{pair.cell} ({pair.cell_class})" for pair in self.pairs if not pair.module_class]

    @property
    def not_reached(self) -> list[str]:
        """Paths of the Cells that the inputs never exercised."""
        return [path for path, cell in self.cells.items() if cell.status == NOT_REACHED]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; the schema is documented in `docs/report-schema.md` and versioned by `schema_version`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "ok": self.ok,
            "failing": self.failing,
            "not_reached": self.not_reached,
            "unpaired": self.unpaired,
            "lone_cells": self.lone_cells,
            "pairs": [pair.to_dict() for pair in self.pairs],
            "weights": [weight.to_dict() for weight in self.weights],
            "reference": self.reference,
            "sides": self.sides,
            "dtype": self.dtype,
            "train": self.train,
            "grads": self.grads,
            "seed": self.seed,
            "sizes": self.sizes,
            "inputs": self.inputs,
            "worst_input": self.worst[1].input if self.worst else None,
            "notes": self.notes,
            "cells": [cell.to_dict() for cell in self.cells.values()],
        }

    def __str__(self) -> str:
        """The tree of Cells with its verdicts, the failing ones in detail, and what it comes to; 80 columns."""
        from .report.terminal import text

        return text(self)

    def __repr__(self) -> str:
        verdict = "parity holds" if self.ok else f"parity fails in {', '.join(map(repr, self.failing)) or 'no Cell'}"
        return f"<Report of {self.model}, {', '.join(self.sides)} against {self.reference}: {verdict}>"

    def join(self, other: Report) -> None:
        """Add the sides of another report on the same module, run with the same options."""
        self.sides += other.sides
        self.pairs += other.pairs
        self.weights += other.weights
        self.notes += [note for note in other.notes if note not in self.notes]
        for path, cell in other.cells.items():
            mine = self.cells.setdefault(path, replace(cell, comparisons=[]))
            mine.comparisons += cell.comparisons
            mine.counterpart = mine.counterpart or cell.counterpart
            mine.explanations += cell.explanations

    def join_sizes(self, other: Report, sizes: str) -> None:
        """Add the comparisons of another report on the same sides, made at other sizes of the dynamic dimensions."""
        self.sizes.append(sizes)
        self.notes += [f"at {sizes}: {note}" for note in other.notes if note not in self.notes]
        for path, cell in other.cells.items():
            mine = self.cells.setdefault(path, replace(cell, comparisons=[]))
            mine.comparisons += [replace(c, sizes=sizes) for c in cell.comparisons]

    def join_input(self, other: Report) -> None:
        """Add what was found on one more input: of each comparison the worse one stays."""
        self.inputs += 1
        self.notes += [f"input {self.inputs}: {note}" for note in other.notes if note not in self.notes]
        for path, cell in other.cells.items():
            mine = self.cells.setdefault(path, replace(cell, comparisons=[]))
            if mine.presence == NOT_REACHED:
                mine.presence, mine.calls = cell.presence, cell.calls
            worst = {c.place: c for c in mine.comparisons}
            for c in cell.comparisons:
                if c.place not in worst or c.badness > worst[c.place].badness:
                    worst[c.place] = replace(c, input=self.inputs)
            mine.comparisons = list(worst.values())

    @property
    def worst(self) -> tuple[str, Comparison] | None:
        """The comparison that is furthest off, with the path of its Cell: a failing one, if there is any."""
        failing = self.failing
        found = [(p, c) for p in (failing or self.cells) for c in self.cells[p].comparisons]
        return max(found, key=lambda one: one[1].badness, default=None)

    def raise_if_failed(self) -> None:
        """Raise `ParityError` with the failing Cells in detail unless parity holds."""
        __tracebackhide__ = True
        if not self.ok:
            from .report.terminal import failure_text

            raise ParityError(failure_text(self))


def worst_ratio(comparisons: list[Comparison]) -> float:
    """The largest `ratio` of the rounding checks, or, where there are none, of all; NaN counts as infinite."""
    ratios = [c.ratio for c in comparisons if c.check == "rounding"] or [c.ratio for c in comparisons]
    return max((math.inf if math.isnan(ratio) else ratio for ratio in ratios), default=0.0)


def is_inside(path: str, ancestor: str) -> bool:
    """Whether the Cell at `path` is inside the one at `ancestor` (and not it)."""
    return path != ancestor and (ancestor == "" or path.startswith(ancestor + "."))


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
