"""What axe-core, a checker of accessibility, finds on the pages: roles, names, headings, and contrast of WCAG AA."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cellbridge.parity.report.base import BaseReport
from cellbridge.parity.results.error_shares import ErrorShares
from cellbridge.parity.results.hunk import CodeLine, Hunk
from tests.parity.html.browser import COMMAND
from tests.parity.html.pages import Opened, training_report
from tests.parity.html.test_page import FAULTY
from tests.parity.reports import CONVNET, cell, failing, report


def _axe() -> str | None:
    """Return the script of axe-core, if node finds the package here or in NODE_PATH."""
    if not (node := shutil.which("node")):
        return None
    command = [node, "-p", "require.resolve('axe-core/axe.min.js')"]
    path = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return Path(path).read_text("utf-8") if path else None


AXE = _axe()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMMAND is None, reason="there is no Chromium"),
    pytest.mark.skipif(AXE is None, reason="there is no axe-core: npm install axe-core, and set NODE_PATH"),
]

LINES = Hunk((CodeLine("net.py", 66, "y = gelu(x, 'tanh')"),), (CodeLine("port.py", 7, "y = gelu(x)"),))
SHARED = report(
    CONVNET, cell("stem", "Conv2d", failing(), hunk=LINES), cell("", "ConvNet", failing(feeding="end to end"))
)
SHARED.error_shares = [
    ErrorShares("interpreter", "meaning", False, 1e-3, {"stem": 2e-2}, {"stem": 1e-3, "head": 2e-3, "": 1e-2})
]
PAGES: dict[str, tuple[BaseReport, str]] = {
    "failing": (FAULTY, ""),
    "failing, details": (FAULTY, "#cell=blocks.1.norm"),
    "shares": (SHARED, ""),
    "shares, details": (SHARED, "#cell=stem"),
    "passing": (report(CONVNET, notes=["a note"]), ""),
    "training": (training_report(), ""),
    "training, details": (training_report(), "#cell=parameters%2Ffc.bias"),
}
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_found(opened: Opened, name: str, dark: bool, width: int) -> None:
    of, fragment = PAGES[name]
    page = opened(of, width=width, dark=dark, fragment=fragment)
    assert _violations(page) == []


def test_a_planted_fault_is_found(opened: Opened) -> None:
    page = opened(FAULTY)
    page.run("document.querySelector('h2').replaceWith(document.createElement('h6')); search.labels[0].remove()")
    assert {line.split(":")[0] for line in _violations(page)} >= {"empty-heading", "heading-order"}


def _violations(page: Any) -> list[str]:
    page.run(AXE)
    return page.run(
        f"axe.run(document, {{runOnly: {TAGS}}}).then(found => found.violations.flatMap(each => each.nodes.map("
        "node => `${each.id}: ${node.target} ${node.failureSummary}`)))"
    )
