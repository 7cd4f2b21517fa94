"""The results of a sweep as JSON and as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ....runtime.visible import encodable_name
from ...report.junit import clean
from ...support.files import write_text
from .result import HOLDS, NOT_JUDGED, ORDER, Result
from .store import Store


def write_json(store: Store, results: Sequence[Result], path: str | Path) -> None:
    """Write the results, without the reports; raise `UsageError` if that fails."""
    document = {
        "schema_version": 1,
        "options": store.options,
        "versions": store.versions,
        "counts": {outcome: sum(one.outcome == outcome for one in results) for outcome in ORDER},
        "results": [_fields(one) for one in results],
    }
    write_text(path, json.dumps(document, indent=2) + "\n")


def _fields(one: Result) -> dict[str, Any]:
    return {
        "model": encodable_name(one.model),
        "outcome": one.outcome,
        "reason": encodable_name(one.reason),
        "exit_code": one.code,
        "seconds": round(one.seconds, 3),
        "memory_bytes": one.memory,
        "failing": one.failing,
        "cause": encodable_name(one.cause),
        "output": encodable_name(one.output),
    }


def write_junit(results: Sequence[Result], path: str | Path) -> None:
    """Write a test case for each model; raise `UsageError` if that fails."""
    suites = ElementTree.Element("testsuites", name="parity")
    suite = ElementTree.SubElement(suites, "testsuite", name="parity sweep")
    for one in results:
        case = ElementTree.SubElement(suite, "testcase", classname="parity sweep", name=clean(one.model))
        case.set("time", f"{one.seconds:.3f}")
        if one.outcome == HOLDS:
            if not one.holds_in_full:
                ElementTree.SubElement(case, "system-out").text = clean(one.reason)
            continue
        kind = "error" if one.outcome == NOT_JUDGED else "failure"
        element = ElementTree.SubElement(case, kind, type=one.outcome, message=clean(one.reason))
        element.text = clean(one.output or one.cause) or None
    errors = sum(one.outcome == NOT_JUDGED for one in results)
    for element in (suites, suite):
        element.set("tests", str(len(results)))
        element.set("failures", str(sum(one.outcome not in (HOLDS, NOT_JUDGED) for one in results)))
        element.set("errors", str(errors))
        element.set("skipped", "0")
    ElementTree.indent(suites)
    write_text(path, ElementTree.tostring(suites, encoding="unicode") + "\n")
