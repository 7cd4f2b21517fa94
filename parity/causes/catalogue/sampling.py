"""Images that are sampled at the points of a grid with other settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from ....converter.capture.tables.sampling import BICUBIC, INTERPOLATIONS, PADDINGS, grid_sample
from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..operators import GRID_SAMPLE, Operator, operators, settings_in_words
from ..rebuilding import Results
from .hypothesis import Hypothesis, Lookup, with_lookup

Setting = tuple[int, int, bool]
"""The number of the interpolation, that of the padding, and `align_corners`."""


def samples(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each image that the reference samples, sampled with each other setting, those alike first."""
    program = cell.program
    for operator in operators(program):
        if operator.name != GRID_SAMPLE:
            continue
        ends = _ends(program, operator)
        if ends is None:
            continue
        image, grid, result = ends
        settings = operator.settings
        others = [
            setting
            for setting in product(range(len(INTERPOLATIONS)), range(len(PADDINGS)), (False, True))
            if _names(setting) != settings and (setting[0] != BICUBIC or len(image.shape) == 4)
        ]
        for setting in sorted(others, key=lambda setting: len(_different(settings, _names(setting)))):
            names = _names(setting)
            words, fix = settings_in_words(
                [(name, settings[name], names[name]) for name in _different(settings, names)]
            )
            first = _different(settings, names)[0]
            cause = Cause(
                "attribute", f"in {GRID_SAMPLE}, {words}", fix, op=GRID_SAMPLE, attribute=first,
                reference_value=settings[first], candidate_value=names[first],
            )  # fmt: skip
            yield Hypothesis(cause, partial(_sampled, program, image, grid, result, setting))


def _ends(program: Program, operator: Operator) -> tuple[Value, Value, Value] | None:
    """Return the image that an operator takes, the grid and its result; None if they can't be told."""
    made = {value for node in operator.nodes for value in node.outputs}
    operands = {v: None for node in operator.nodes for v in node.inputs if v is not None and v not in made}
    outside = [v for v in operands if v not in {c.value for c in program.constants} or len(v.shape) > 2]
    results = [v for v in operator.nodes[-1].outputs if v in made]
    if len(outside) != 2 or len(results) != 1:
        return None
    grid, image = outside  # in the order in which they are needed
    return image, grid, results[0]


def _sampled(program: Program, image: Value, grid: Value, result: Value, setting: Setting) -> Program:
    """Return the program with an image sampled with other settings."""

    def other(_: int, node: Node, lookup: Lookup) -> Results | None:
        return (grid_sample(lookup(image), lookup(grid), *setting),) if result in node.outputs else None

    return with_lookup(program, other)


def _names(setting: Setting) -> dict[str, Any]:
    """Return a setting as arguments of `grid_sample`."""
    mode, padding, align_corners = setting
    return {"mode": INTERPOLATIONS[mode], "padding_mode": PADDINGS[padding], "align_corners": align_corners}


def _different(settings: Any, other: Any) -> list[str]:
    return [name for name in other if settings[name] != other[name]]
