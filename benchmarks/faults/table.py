"""The figures, by kind of candidate, in 80 columns, from outcomes as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fixtures.planted_faults.cases import SOUND

from .tools import FIRST

Row = Mapping[str, Any]
"""What `Outcome.to_dict` returns."""

WIDTHS = {"found": 8, "placed": 11, "innocent": 10, "cause": 8, "explained": 11, "side": 8, "seconds": 8}
SHARES = {"found": "found", "placed": "placed", "cause": "is_cause", "explained": "explained", "side": "side"}


def text(rows: Sequence[Row]) -> str:
    """Return the table of the first tool, and a shorter one of all tools."""
    compared = [row for row in rows if row["compared"]]
    return f"{_of_first([row for row in compared if row['tool'] == FIRST])}\n\n{_of_all(compared)}"


def _of_first(rows: Sequence[Row]) -> str:
    lines = [f"{FIRST:<10}{'cases':>6}" + "".join(f"{name:>{width}}" for name, width in WIDTHS.items())]
    faults = [row for row in rows if row["kind"] != SOUND]
    for kind in dict.fromkeys(row["kind"] for row in faults):
        lines.append(_line(kind, [row for row in faults if row["kind"] == kind]))
    if faults:
        lines.append(_line("all faults", faults))
    sound = [row for row in rows if row["kind"] == SOUND]
    if sound:
        alarms, refused = sum(row["found"] for row in sound), sum(bool(row["error"]) for row in sound)
        seconds = sum(row["seconds"] for row in sound) / len(sound)
        lines.append(f"{SOUND:<10}{len(sound):>6}   {alarms} false alarms, {refused} refused, {seconds:.1f} s each")
    return "\n".join(lines)


def _line(name: str, rows: Sequence[Row]) -> str:
    figures = {column: _share([row[key] for row in rows]) for column, key in SHARES.items()}
    figures["innocent"] = str(sum(row["innocent"] for row in rows))
    figures["seconds"] = f"{sum(row['seconds'] for row in rows) / len(rows):.1f}"
    return f"{name:<10}{len(rows):>6}" + "".join(f"{figures[column]:>{width}}" for column, width in WIDTHS.items())


def _share(values: Sequence[bool | None]) -> str:
    """Number of true values, and of values if some are unknown."""
    known_values = [value for value in values if value is not None]
    if not known_values:
        return ""
    return f"{sum(known_values)}" if len(known_values) == len(values) else f"{sum(known_values)}/{len(known_values)}"


def _of_all(rows: Sequence[Row]) -> str:
    lines = [f"{'tool':<18}{'faults':>8}{'found':>8}{'placed':>8}{'sound pairs':>14}{'false alarms':>14}"]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        faults = [row for row in rows if row["tool"] == tool and row["kind"] != SOUND]
        sound = [row for row in rows if row["tool"] == tool and row["kind"] == SOUND]
        found_count, placed = sum(row["found"] for row in faults), sum(bool(row["placed"]) for row in faults)
        alarms = sum(row["found"] for row in sound)
        lines.append(f"{tool:<18}{len(faults):>8}{found_count:>8}{placed:>8}{len(sound):>14}{alarms:>14}")
    return "\n".join(lines)


def mistakes(rows: Sequence[Row]) -> str:
    """Return a line for each case in which the first tool is wrong, with what it said."""
    lines = []
    for row in rows:
        if row["tool"] == FIRST and row["compared"] and (mistake := _mistake(row)):
            true, accused = (_paths(row[name]) for name in ("cells", "accused"))
            message = row["error"] or row["said"]
            lines.append(
                f"{mistake}: {row['kind']} {row['name']} [true: {true}; accused: {accused}] {message}".rstrip()
            )
    return "\n".join(lines)


def _mistake(row: Row) -> str:
    if row["kind"] == SOUND:
        return "false alarm" if row["found"] else "refused" if row["error"] else ""
    if not row["found"]:
        return "not found"
    return "not placed" if row["placed"] is False else ""


def _paths(paths: Sequence[str] | None) -> str:
    return ", ".join(path or "(root)" for path in paths or ())
