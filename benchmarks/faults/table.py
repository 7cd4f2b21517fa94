"""The figures, by kind of candidate, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cases import SOUND
from .outcomes import Outcome

WIDTHS = {"found": 8, "placed": 9, "innocent": 10, "cause": 8, "explained": 11, "side": 8, "seconds": 9}
SHARES = ("found", "placed", "cause", "explained", "side")


def text(outcomes: Sequence[Outcome]) -> str:
    """Return the table of the first tool, and a shorter one of all tools."""
    return "\n".join([_of_first(outcomes), "", _of_all(outcomes)])


def _of_first(outcomes: Sequence[Outcome]) -> str:
    first = outcomes[0].tool if outcomes else ""
    lines = [f"{first:<10}{'cases':>7}" + "".join(f"{name:>{width}}" for name, width in WIDTHS.items())]
    ours = [outcome for outcome in outcomes if outcome.tool == first and outcome.finding is not None]
    faults = [outcome for outcome in ours if outcome.case.is_fault]
    for kind in dict.fromkeys(outcome.case.kind for outcome in faults):
        lines.append(_row(kind, [outcome for outcome in faults if outcome.case.kind == kind]))
    if faults:
        lines.append(_row("all faults", faults))
    sound = [outcome for outcome in ours if not outcome.case.is_fault]
    if sound:
        alarms = sum(outcome.verdict is not None and outcome.verdict.found for outcome in sound)
        errors = sum(bool(outcome.finding and outcome.finding.error) for outcome in sound)
        seconds = sum(outcome.seconds for outcome in sound) / len(sound)
        lines.append(f"{SOUND:<10}{len(sound):>7}  {alarms} false alarms, {errors} refused, {seconds:.1f} s each")
    return "\n".join(lines)


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    verdicts = [outcome.verdict for outcome in outcomes if outcome.verdict is not None]
    figures = {
        column: _share([getattr(verdict, column) for verdict in verdicts]) for column in WIDTHS if column in SHARES
    }
    figures["innocent"] = str(sum(verdict.innocent for verdict in verdicts))
    figures["seconds"] = f"{sum(outcome.seconds for outcome in outcomes) / max(1, len(outcomes)):.1f}"
    cells = "".join(f"{figures[column]:>{width}}" for column, width in WIDTHS.items())
    return f"{name:<10}{len(verdicts):>7}{cells}"


def _share(values: Sequence[Any]) -> str:
    """Number of true values, and of values if some are unknown."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return f"{sum(known)}" if len(known) == len(values) else f"{sum(known)}/{len(known)}"


def _of_all(outcomes: Sequence[Outcome]) -> str:
    names = list(dict.fromkeys(outcome.tool for outcome in outcomes))
    head = f"{'tool':<18}{'faults':>8}{'found':>8}{'placed':>8}{'sound pairs':>14}{'false alarms':>14}"
    return "\n".join([head, *(_tool_row(name, [o for o in outcomes if o.tool == name]) for name in names)])


def _tool_row(name: str, outcomes: Sequence[Outcome]) -> str:
    compared = [o for o in outcomes if o.verdict is not None]
    faults = [o.verdict for o in compared if o.case.is_fault and o.verdict is not None]
    sound = [o.verdict for o in compared if not o.case.is_fault and o.verdict is not None]
    found, placed = sum(v.found for v in faults), sum(bool(v.placed) for v in faults)
    alarms = sum(v.found for v in sound)
    return f"{name:<18}{len(faults):>8}{found:>8}{placed:>8}{len(sound):>14}{alarms:>14}"


def faults_missed(outcomes: Sequence[Outcome]) -> str:
    """Return a line for each case in which the first tool is wrong, with what it said."""
    first = outcomes[0].tool if outcomes else ""
    lines = []
    for outcome in outcomes:
        verdict, finding, case = outcome.verdict, outcome.finding, outcome.case
        if outcome.tool != first or verdict is None or finding is None:
            continue
        if not case.is_fault and (verdict.found or finding.error):
            wrong = "false alarm" if verdict.found else "refused"
        elif case.is_fault and not verdict.found:
            wrong = "not found"
        elif case.is_fault and verdict.placed is False:
            wrong = "not placed"
        else:
            continue
        accused = ", ".join(path or "(root)" for path in sorted(finding.accused or ()))
        true = ", ".join(path or "(root)" for path in case.cells)
        lines.append(
            f"{wrong}: {case.kind} {case.name} [true: {true}; accused: {accused}] {finding.error or finding.said}"
        )
    return "\n".join(lines)
