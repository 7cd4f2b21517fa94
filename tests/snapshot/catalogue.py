"""All cases of the snapshot."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

from fixtures.planted_faults import catalogue as faults
from tests.snapshot import commands
from tests.snapshot.case import Case


def cases() -> Iterator[Case]:
    """Yield the cases: fixtures, projects, wrong uses, and each pair of the fault benchmark."""
    yield from commands.fixtures()
    yield from commands.projects()
    yield from commands.wrong_uses()
    for fault in faults.cases():
        yield Case(
            f"faults/{fault.kind}/{fault.name}", [("compare", partial(_compare, fault))], documents=["report.json"]
        )


def _compare(fault: Any) -> int:
    from benchmarks.faults.tools.cellbridge_tool import report_of
    from cellbridge.runtime.errors import CellbridgeError

    warnings.simplefilter("ignore")
    try:
        report = report_of(fault.pair())
    except CellbridgeError as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return 2
    with open("report.json", "w", encoding="utf-8") as file:
        json.dump(report.to_dict(), file)
    sys.stdout.write(f"{report}\n")
    return 0 if report.ok else 1
