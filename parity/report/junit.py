"""The view for continuous integration: JUnit XML with one test case per Cell (of a training, per kind) and side."""

from __future__ import annotations

import re
from dataclasses import replace
from os import PathLike
from xml.etree import ElementTree

from ...runtime.visible import visible_text
from ..files import write_text
from ..results import (
    FAIL,
    INLINED,
    NOT_COMPARED,
    NOT_REACHED,
    PASS,
    SKIPPED,
    UNPAIRED,
    CellReport,
    Comparison,
    PairedCell,
    Report,
)
from ..sides.quantities import KINDS
from ..training_report import TrainingReport
from .detail import cell_detail
from .training import SEVERAL, worst_lines

REASONS = {
    INLINED: "never called itself: its parameters are judged in the Cell that uses them",
    UNPAIRED: "no Cell is its port, or that is called otherwise: judged in the Cell around it",
    NOT_REACHED: "never reached by the inputs: nothing is known about it",
    SKIPPED: "left out by --only or --skip, or not reached after a failure with --fail-fast",
}
WIDTH = 120
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production Char


def write(report: Report | TrainingReport, path: str | PathLike[str]) -> None:
    """Write the report to `path`, whole or not at all; `UsageError` if that isn't possible."""
    suites = training_to_xml(report) if isinstance(report, TrainingReport) else to_xml(report)
    ElementTree.indent(suites)
    write_text(path, ElementTree.tostring(suites, encoding="unicode", xml_declaration=False) + "\n")


def to_xml(report: Report) -> ElementTree.Element:
    """The `testsuites` element: one suite for the model, a case `path[side]` for each Cell and side.

    A comparison that fails or couldn't be made is a failure of its Cell. A Cell that has none is skipped, with the
    reason, and so is one that differs end to end only, by the Cells that fail.
    """
    failing = set(report.failing)
    suites = ElementTree.Element("testsuites", name="parity")
    suite = ElementTree.SubElement(suites, "testsuite", name=_clean(report.model))
    for cell in report.cells.values():
        for side in report.sides:
            name = f"{cell.path or '(root)'}[{side}]"
            case = ElementTree.SubElement(suite, "testcase", classname=_clean(report.model), name=_clean(name))
            _judge(case, cell, side, report, failing)
    _describe(suite, report)
    _count(suites, suite)
    return suites


def training_to_xml(report: TrainingReport) -> ElementTree.Element:
    """The `testsuites` element: one suite for the model, a case `kind[side]` for each kind of tensor and side.

    What differs in more than numbers is a failure of a case of its own.
    """
    suites = ElementTree.Element("testsuites", name="parity")
    suite = ElementTree.SubElement(suites, "testsuite", name=_clean(report.model))
    for kind in KINDS:
        for side in report.sides:
            of_case = [c for c in report.comparisons if (c.kind, c.side) == (kind, side)]
            if of_case:
                name = f"{SEVERAL[kind]}[{side}]"
                case = ElementTree.SubElement(suite, "testcase", classname=_clean(report.model), name=name)
                _judge_training(case, of_case)
    if report.problems or not report.comparisons:
        case = ElementTree.SubElement(suite, "testcase", classname=_clean(report.model), name="training")
        message = "; ".join(report.problems) or "no step was compared"
        ElementTree.SubElement(case, "failure", type=FAIL, message=_clean(message))
    _count(suites, suite)
    return suites


def _judge_training(case: ElementTree.Element, comparisons: list[Comparison]) -> None:
    failed = [c for c in comparisons if c.status != PASS]
    if failed:
        first = [c for c in failed if c.call == min(other.call for other in failed)]
        where = f"from step {first[0].call} on, in {', '.join(dict.fromkeys(c.tensor for c in first))}"
        message = f"{len(failed)} of {len(comparisons)} comparisons: {first[0].reason}, {where}"
        failure = ElementTree.SubElement(case, "failure", type=FAIL, message=_clean(message))
        failure.text = _clean("\n".join(line.plain for line in worst_lines(first, WIDTH)))


def _count(suites: ElementTree.Element, suite: ElementTree.Element) -> None:
    counts = {kind: len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "skipped")}
    for element in (suites, suite):
        element.set("tests", str(len(suite.findall("testcase"))))
        element.set("failures", str(counts["failure"]))
        element.set("errors", "0")
        element.set("skipped", str(counts["skipped"]))


def _describe(suite: ElementTree.Element, report: Report) -> None:
    """Which Cell is the port of which module, and what its Parameters were filled with, as properties."""
    found = [(f"port of {p.module or '(root)'}", _counterpart(p)) for p in report.pairs if p.module_class]
    found += [(f"Parameter {w.parameter}", f"{w.source} (by {w.how})") for w in report.weights]
    if found:
        properties = ElementTree.Element("properties")
        suite.insert(0, properties)
        for name, value in found:
            ElementTree.SubElement(properties, "property", name=_clean(name), value=_clean(value))


def _counterpart(pair: PairedCell) -> str:
    if not pair.cell_class:
        return "none"
    return f"{pair.cell or '(root)'} ({pair.cell_class}, by {pair.how})" + (f"; {pair.apart}" if pair.apart else "")


def _judge(case: ElementTree.Element, cell: CellReport, side: str, report: Report, failing: set[str]) -> None:
    comparisons = [c for c in cell.comparisons if c.side == side]
    failed = [c for c in comparisons if c.status != PASS]
    if failed and cell.path not in failing:
        culprits = ", ".join(path or "(root)" for path in report.failing)
        ElementTree.SubElement(case, "skipped", message=_clean(f"differs end to end only, by {culprits}"))
    elif failed:
        worst = FAIL if any(c.status == FAIL for c in failed) else NOT_COMPARED
        first = f"{failed[0].kind} {failed[0].tensor}: {failed[0].reason}"
        message = f"{len(failed)} of {len(comparisons)} comparisons: {first}"
        failure = ElementTree.SubElement(case, "failure", type=worst, message=_clean(message))
        of_side = replace(cell, comparisons=failed)
        detail = cell_detail(of_side, report, WIDTH, everything=True)
        failure.text = _clean("\n".join(line.plain for line in detail))
    elif not comparisons:
        presence = cell.presence or (UNPAIRED if cell.path in report.unpaired else "")
        reason = REASONS.get(presence, f"nothing of it was compared with {side}")
        ElementTree.SubElement(case, "skipped", message=reason)


def _clean(text: str) -> str:
    """With `?` for the characters that XML can't hold, and numbers for others that can't be seen."""
    return visible_text(_NOT_XML.sub("?", text))
