"""A newcomer clones the repository, installs it in place, and follows the README and the tutorials."""

from __future__ import annotations

import os
import re
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest

from tests.docs.samples import ROOT, Block, Session, WrongSample, blocks
from tests.parity.html.browser import COMMAND, browser
from tests.test_packaging import environment_with

pytestmark = pytest.mark.slow

PAGES = ("README.md", "docs/start.md", "fixtures/migration/README.md")
HELP_SECONDS = 2.0
"""Ten times what `parity --help` takes, of a test machine that does other things, too."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment, in which a fresh clone is installed in place."""
    if not (ROOT / ".git").exists():
        pytest.skip("there is no repository to clone")
    folder = tmp_path_factory.mktemp("newcomer")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "clone")], check=True)
    return environment_with(["--editable", folder / "clone"], folder / "environment")


class Newcomer(Session):
    """Runs the blocks of a page as a newcomer does: every command is a process, in the clone."""

    def __init__(self, clone: Path, scripts: Path) -> None:
        self.root = self.folder = clone
        self.scripts = scripts
        self.printed = ""

    def _run_python(self, block: Block) -> None:
        (self.folder / "typed.py").write_text(block.text + "\n")
        code, self.printed = self._command("python typed.py")
        if code:
            raise WrongSample(f"{block}: exit code {code}\n{self.printed}")

    def _command(self, command: str) -> tuple[int, str]:
        if command.startswith("cd "):
            self.folder = self.root / command.removeprefix("cd ")
            return 0, ""
        command = re.sub("^pytest ", "python -m pytest ", command)  # whose script isn't among what is lent
        own = {"PATH": f"{self.scripts}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1"}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | own
        ran = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_says(page: str, scripts: Path) -> None:
    newcomer = Newcomer(scripts.parents[1] / "clone", scripts)
    for block in blocks(ROOT / page):
        newcomer.run(block)


def test_help_comes_at_once(scripts: Path) -> None:
    newcomer = Newcomer(scripts.parents[1] / "clone", scripts)
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        code, printed = newcomer._command("parity --help")
        seconds.append(time.monotonic() - started)
        assert (code, "To begin with:" in printed) == (0, True)
    assert min(seconds) < HELP_SECONDS


@pytest.mark.skipif(COMMAND is None, reason="there is no Chromium")
def test_the_page_of_a_failing_run_is_seen(scripts: Path, tmp_path: Path) -> None:
    """In a window of a desk and of a phone, light and dark; `pytest --basetemp` keeps the screenshots."""
    newcomer = Newcomer(scripts.parents[1] / "clone", scripts)
    code, printed = newcomer._command("parity run fixtures/faults/custom_backward_wrong.py --html page.html")
    assert code == 1, printed
    with browser() as window:
        for width, dark in product((1400, 390), (False, True)):
            window.open(newcomer.folder / "page.html", width=width, dark=dark)
            window.screenshot(tmp_path / f"page-{width}-{'dark' if dark else 'light'}.png")
            assert "blocks.1.activation" in window.run("document.body.innerText")
            assert window.run("document.documentElement.scrollWidth") == width
            assert window.complaints == []
