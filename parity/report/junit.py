"""The JUnit XML view for continuous integration: a test case per Cell (or kind of tensor in training) and side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from xml.etree import ElementTree

from ...runtime.visible import visible_text
from ..support.files import write_text
from .base import BaseReport

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production Char


def write(report: BaseReport, path: str | PathLike[str]) -> None:
    """Write the report to `path`, completely or not at all; raise `UsageError` if that fails."""
    suites = to_xml(report)
    ElementTree.indent(suites)
    write_text(path, ElementTree.tostring(suites, encoding="unicode", xml_declaration=False) + "\n")


def to_xml(report: BaseReport) -> ElementTree.Element:
    """Return the `testsuites` element: one suite for the model, with the cases of the report."""
    suites = ElementTree.Element("testsuites", name="parity")
    suite = ElementTree.SubElement(suites, "testsuite", name=clean(report.model))
    add_properties(suite, report.properties())
    for case in report.cases():
        element = ElementTree.SubElement(suite, "testcase", classname=clean(report.model), name=clean(case.name))
        if case.outcome == "skipped":
            ElementTree.SubElement(element, "skipped", message=clean(case.message))
        elif case.outcome == "failure":
            failure = ElementTree.SubElement(element, "failure", type=case.status, message=clean(case.message))
            failure.text = clean(case.detail) or None
        elif case.outcome == "error":
            ElementTree.SubElement(element, "error", type=case.status, message=clean(case.message))
    _count(suites, suite)
    return suites


def add_properties(suite: ElementTree.Element, values: Iterable[tuple[str, str]]) -> None:
    """Add names and values of properties to a suite, which has no cases yet."""
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in values:
        ElementTree.SubElement(properties, "property", name=clean(name), value=clean(value))


def _count(suites: ElementTree.Element, suite: ElementTree.Element) -> None:
    counts = {kind: len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "skipped", "error")}
    for element in (suites, suite):
        element.set("tests", str(len(suite.findall("testcase"))))
        element.set("failures", str(counts["failure"]))
        element.set("errors", str(counts["error"]))
        element.set("skipped", str(counts["skipped"]))


def clean(text: str) -> str:
    """Replace characters that XML can't hold by `?`, and other invisible ones by numbers."""
    return visible_text(_NOT_XML.sub("?", text))
