"""`NetworkResult`: what a comparison of networks found, Cell by Cell, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .cell_report import CarriedWeight, CellReport, PairedCell, is_inside
from .comparison import FAIL, NOT_COMPARED, NOT_REACHED, SCHEMA_VERSION, Comparison


@dataclass(repr=False)
class NetworkResult:
    """The verdict on two or more sides of a network, as data; `Report` shows it.

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

    def __repr__(self) -> str:
        verdict = "parity holds" if self.ok else f"parity fails in {', '.join(map(repr, self.failing)) or 'no Cell'}"
        return f"<{type(self).__name__} of {self.model}, {', '.join(self.sides)} against {self.reference}: {verdict}>"

    def join(self, other: NetworkResult) -> None:
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

    def join_sizes(self, other: NetworkResult, sizes: str) -> None:
        """Add the comparisons of another report on the same sides, made at other sizes of the dynamic dimensions."""
        self.sizes.append(sizes)
        self.notes += [f"at {sizes}: {note}" for note in other.notes if note not in self.notes]
        for path, cell in other.cells.items():
            mine = self.cells.setdefault(path, replace(cell, comparisons=[]))
            mine.comparisons += [replace(c, sizes=sizes) for c in cell.comparisons]

    def join_input(self, other: NetworkResult) -> None:
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
