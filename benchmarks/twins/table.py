"""The figures of all pairs, and the totals beside what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fixtures.planted_faults.cases import SOUND

from .measuring import CODE, WEIGHTS

Row = Mapping[str, Any]
"""`pair`, and by part what `measure` returns."""

ENOUGH = 0.95
TARGETS = {"found": 0.98, "placed": 0.95, "cause": 0.85}
FIGURES = tuple(TARGETS)
MARKS = {True: "✓", False: "✗"}


def text(rows: Sequence[Row]) -> str:
    """Return a line for each pair, and the totals. Three marks of a fault: found, placed, cause named."""
    width = max(len(row["pair"]) for row in rows)
    lines = [f"{'':<{width}}  sound   Cells  gradients   code  weights  innocent  seconds"]
    lines += [f"{row['pair']:<{width}}  {_line(row)}" for row in rows]
    return "\n".join([*lines, "", *totals(rows)])


def _line(row: Row) -> str:
    sound = row[SOUND]
    cells, gradients = (f"{sound[key][0]}/{sound[key][1]}" for key in ("cells_paired", "gradients_compared"))
    code, weights = ("".join(MARKS[row[part][name]] for name in FIGURES) for part in (CODE, WEIGHTS))
    innocent, seconds = (sum(row[part][name] for part in (SOUND, CODE, WEIGHTS)) for name in ("innocent", "seconds"))
    return f"{MARKS[sound['holds']]:^5}{cells:>8}{gradients:>11}{code:>7}{weights:>9}{innocent:>10}{seconds:>9.1f}"


def totals(rows: Sequence[Row]) -> list[str]:
    """Return the totals, each beside its target."""
    sound = [row[SOUND] for row in rows]
    faults = [row[part] for row in rows for part in (CODE, WEIGHTS)]
    all_cells, all_gradients = ([row[key] for row in sound] for key in ("cells_paired", "gradients_compared"))
    lines = [
        _total("sound pairs hold", sum(row["holds"] for row in sound), len(sound), 1.0),
        _total("Cells with parameters paired", *map(sum, zip(*all_cells, strict=True)), ENOUGH),
        _total("gradients of parameters compared", *map(sum, zip(*all_gradients, strict=True)), ENOUGH),
    ]
    names = {"found": "faults found", "placed": "placed in the smallest Cell", "cause": "cause named"}
    lines += [_total(names[name], sum(f[name] for f in faults), len(faults), least) for name, least in TARGETS.items()]
    innocent = sum(row["innocent"] for row in [*sound, *faults])
    return [*lines, f"{'innocent Cells accused':<34}{innocent:>9}          target {0:>5}  {_met(innocent == 0)}"]


def _total(name: str, number: int, of: int, least: float) -> str:
    share = number / of if of else 0.0
    return f"{name:<34}{f'{number}/{of}':>9}  {share:>6.1%}  target {least:>5.0%}  {_met(share >= least)}"


def _met(is_met: bool) -> str:
    return "met" if is_met else "not met"


def misses(rows: Sequence[Row]) -> list[str]:
    """Return a line for each verdict that is wrong, with what was said."""
    return [line for row in rows for part in (SOUND, CODE, WEIGHTS) if (line := _miss(row["pair"], part, row[part]))]


def _miss(name: str, part: str, row: Row) -> str:
    if part == SOUND:
        wrong = [] if row["holds"] else ["doesn't hold"]
        shares = {key.replace("_", " "): row[key] for key in ("cells_paired", "gradients_compared")}
        wrong += [f"{name} {number}/{of}" for name, (number, of) in shares.items() if number < of]
    else:
        wrong = [f"not {name}" for name in FIGURES if not row[name]]
    if not wrong:
        return ""
    true = f"; true: {_paths(row['cells'])}" if "cells" in row else ""
    causes = "; ".join(f"{path or '(root)'}: {summaries[0]}" for path, summaries in row["causes"].items() if summaries)
    accused = f"accused: {_paths(row['accused'])}; causes: {causes or 'none'}; {row['error'] or row['said']}"
    return f"{name} [{part}]: {', '.join(wrong)}{true}; {accused}".rstrip("; ")


def _paths(paths: Sequence[str]) -> str:
    return ", ".join(path or "(root)" for path in paths) or "none"
