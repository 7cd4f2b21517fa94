"""The results of a sweep as JSON and as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ....runtime.visible import encodable_name
from ...report.junit import add_properties, clean
from ...results.origin import Origin
from ...support.files import write_text
from .result import HOLDS, NOT_JUDGED, ORDER, Result
from .store import Store


def write_json(store: Store, results: Sequence[Result], origin: Origin, path: str | Path) -> None:
    """Write the results, without the Cells of the reports; raise `UsageError` if that fails."""
    document = {
        "schema_version": 1,
        "origin": origin.to_dict(),
        "options": list(store.options.words),
        "project_options": dict(store.options.project),
        "versions": store.versions,
        "counts": {outcome: sum(result.outcome == outcome for result in results) for outcome in ORDER},
        "results": [_fields(result, store.report(result.model)) for result in results],
    }
    write_text(path, json.dumps(document, indent=2) + "\n")


def _fields(result: Result, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": encodable_name(result.model),
        "outcome": result.outcome,
        "reason": encodable_name(result.reason),
        "exit_code": result.code,
        "seconds": round(result.seconds, 3),
        "memory_bytes": result.memory,
        "failing": result.failing,
        "failing_cells": report.get("failing", []),
        "cause": encodable_name(result.cause),
        "network_verdict": report.get("network_verdict"),
        "origin": report.get("origin"),
        "output": encodable_name(result.output),
    }


def _why(result: Result, report: dict[str, Any]) -> list[str]:
    """Return the cause, and what is wrong with the network as a whole, as far as they are known."""
    of_network = report.get("network_verdict")
    sentence = of_network.get("sentence") if isinstance(of_network, dict) else ""
    return [result.cause] * bool(result.cause) + [f"the network as a whole: {sentence}"] * bool(sentence)


def write_junit(store: Store, results: Sequence[Result], origin: Origin, path: str | Path) -> None:
    """Write a test case for each model; raise `UsageError` if that fails."""
    suites = ElementTree.Element("testsuites", name="parity")
    suite = ElementTree.SubElement(suites, "testsuite", name="parity sweep")
    add_properties(suite, origin.facts)
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname="parity sweep", name=clean(result.model))
        case.set("time", f"{result.seconds:.3f}")
        if result.outcome == HOLDS:
            if not result.holds_in_full:
                ElementTree.SubElement(case, "system-out").text = clean(result.reason)
            continue
        kind = "error" if result.outcome == NOT_JUDGED else "failure"
        element = ElementTree.SubElement(case, kind, type=result.outcome, message=clean(result.reason))
        element.text = clean(result.output or "\n".join(_why(result, store.report(result.model)))) or None
    errors = sum(result.outcome == NOT_JUDGED for result in results)
    for element in (suites, suite):
        element.set("tests", str(len(results)))
        element.set("failures", str(sum(result.outcome not in (HOLDS, NOT_JUDGED) for result in results)))
        element.set("errors", str(errors))
        element.set("skipped", "0")
    ElementTree.indent(suites)
    write_text(path, ElementTree.tostring(suites, encoding="unicode") + "\n")
