"""The end of `parity sweep --compare`: what the later of two sweeps says that the earlier one doesn't."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..report.layout import echo
from ..support.times import time_in_words

if TYPE_CHECKING:
    from ..jobs.sweeping.comparison import Change, SweepComparison

SHOWN = 20
"""Models of one kind that are listed."""


def compare_sweep_files(paths: Sequence[str], verbose: bool) -> NoReturn:
    """Print what the second of two files of results says that the first doesn't."""
    if len(paths) != 2:
        raise UsageError(f"--compare needs two files of results, the earlier first; given {len(paths)}")
    from ..jobs.sweeping.comparison import compare_sweeps
    from ..jobs.sweeping.store import Store

    comparison = compare_sweeps(*(Store.read(Path(path)) for path in paths))
    _print_comparison(comparison, verbose)
    raise click.exceptions.Exit(1 if comparison.worse else 0)


def _print_comparison(comparison: SweepComparison, verbose: bool) -> None:
    for name, before, after in comparison.versions:
        echo(f"{visible_name(name)}: {visible_name(before)} → {visible_name(after)}")
    groups: dict[str, list[Change]] = {
        "worse": comparison.worse, "better": comparison.better, "otherwise": comparison.otherwise,
    }  # fmt: skip
    for what, changes in groups.items():
        for change in changes if verbose else changes[:SHOWN]:
            outcomes = f"{change.before.outcome} → {change.after.outcome}"
            echo(f"{what}: {visible_name(change.model)}: {outcomes} ({_why(change, what)})")
        _say_rest(changes, verbose)
    for change in comparison.slower if verbose else comparison.slower[:SHOWN]:
        before, after = time_in_words(change.before.seconds), time_in_words(change.after.seconds)
        echo(f"slower: {visible_name(change.model)}: {before} → {after}")
    _say_rest(comparison.slower, verbose)
    counts = {
        "worse": len(comparison.worse), "better": len(comparison.better), "otherwise": len(comparison.otherwise),
        "as before": comparison.same, "new": len(comparison.added), "gone": len(comparison.removed),
    }  # fmt: skip
    echo(", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no model in either")


def _why(change: Change, what: str) -> str:
    result = change.before if what == "better" else change.after
    return result.cause or result.reason


def _say_rest(items: Sequence[Any], verbose: bool) -> None:
    if len(items) > SHOWN and not verbose:
        echo(f"  ... and {len(items) - SHOWN} more (-v lists all)")
