"""The samples of the documentation: which blocks a page has, how they are run, and what they must print.

A comment in front of a block says what it can't say itself:

    <!-- sample: file my_model.py -->     write the block to this file
    <!-- sample: quote PATH -->           the block is quoted from this file: there it must be, `...` standing for lines
    <!-- sample: covered by PATH::test -->  a test of another file runs the same
    <!-- sample: printed by COMMAND -->  the block is text that this command prints
    <!-- sample: exits 1 -->              the exit code of the last command of the block; 0 otherwise
    <!-- sample: raises ShapeError -->    what the Python of the block raises
    <!-- sample: slow REASON -->          run with the slow tests only
    <!-- sample: setup                    Python that runs first and isn't shown
    import ...
    -->

Blocks of Python run one after the other, in one namespace for each page. Commands run in one folder for each page,
which has a copy of `fixtures/`. A block of text must be in what the block before it printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.runtime.errors import ConversionError, ShapeError, TracingError, UsageError

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "fixtures" / "migration" / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts),
]
RAISABLE: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (AssertionError, TypeError, ValueError, ConversionError, ShapeError, TracingError, UsageError)
}
"""The exceptions that a sample may say it raises."""
COMMANDS = ("parity", "python", "pytest", "bash", "cd", "cp", "diff", "pip", "python3")
SHOWN = ("text", "toml", "ini", "json", "yaml")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+|-?\d+(?=×)|(?<=worst at )\[[\d, ]*\]|\binf(?=×)")


class WrongSample(AssertionError):
    """A sample that doesn't do what the page says."""


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        page: its file.
        line: number of its first line.
        language: "python", "sh", "text", ...; "setup" for Python that isn't shown.
        text: its lines.
        remarks: what the comments in front of it say, by their first word.
    """

    page: Path
    line: int
    language: str
    text: str
    remarks: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def slow(self) -> bool:
        """Whether it runs with the slow tests only."""
        return "slow" in self.remarks


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order; indented ones if they begin with a command."""
    lines = page.read_text().splitlines()
    result: list[Block] = []
    remarks: dict[str, str] = {}
    position = 0
    while position < len(lines):
        line = lines[position]
        first = position
        if line.startswith("<!-- sample: setup"):
            while lines[position] != "-->":
                position += 1
            result.append(Block(page, first + 2, "setup", "\n".join(lines[first + 1 : position]), dict(remarks)))
            remarks = {}
        elif remark := re.match(r"<!-- sample: (\w+) ?(.*?) ?-->$", line):
            remarks[remark[1]] = remark[2]
        elif fence := re.match(r"(\s*)(`{3,})(.*)$", line):
            position += 1
            while not re.fullmatch(rf"{fence[1]}{fence[2]}\s*", lines[position]):
                position += 1
            text = "\n".join(each[len(fence[1]) :] for each in lines[first + 1 : position])
            result.append(Block(page, first + 2, fence[3], text, remarks))
            remarks = {}
        elif line.startswith(tuple(f"    {command} " for command in COMMANDS)) and (
            first == 0 or not lines[first - 1] or lines[first - 1].endswith("-->")
        ):
            while position + 1 < len(lines) and (lines[position + 1].startswith("    ")):
                position += 1
            text = "\n".join(each[4:] for each in lines[first : position + 1])
            result.append(Block(page, first + 1, "sh", text, remarks))
            remarks = {}
        elif line.strip() and remarks:
            raise WrongSample(f"{page}:{position + 1}: a remark on a sample must stand right in front of its block")
        position += 1
    return result


class Session:
    """Runs the blocks of one page in order."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        sys.path.insert(0, str(folder))  # the fixtures of `conftest` undo it
        shutil.copytree(ROOT / "fixtures", folder / "fixtures", ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, block: Block) -> None:
        """Do what a block says, or raise `WrongSample`."""
        if quote := block.remarks.get("quote"):
            self._require_quote(block, ROOT / quote)
        elif covered := block.remarks.get("covered"):
            require_test(block, covered.removeprefix("by "))
        elif file := block.remarks.get("file"):
            (self.folder / file).write_text(block.text + "\n")
        elif block.language in ("python", "setup"):
            self._run_python(block)
        elif block.language == "sh":
            self._run_commands(block, block.text)
        elif block.language in SHOWN:
            if command := block.remarks.get("printed"):
                self._run_commands(block, command.removeprefix("by "))
            require_within(block, self.printed)
        elif not block.language.startswith("{"):  # a directive of the site
            raise WrongSample(f"{block}: nobody runs a block of {block.language}")

    def _require_quote(self, block: Block, file: Path) -> None:
        if not file.exists():
            raise WrongSample(f"{block}: is quoted from {file}, which isn't there")
        require_within(block, file.read_text())

    def _run_python(self, block: Block) -> None:
        file = self.root / f"{block.page.stem}_{block.line}.py"  # graph mode reads the source of what it traces
        file.write_text("\n" * (block.line - 1) + block.text + "\n")
        code = compile(file.read_text(), str(file), "exec")
        expected = block.remarks.get("raises")
        if expected and expected not in RAISABLE:
            raise WrongSample(f"{block}: a sample can raise {', '.join(RAISABLE)}, not {expected}")
        announced = (RAISABLE[expected],) if expected else ()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(self.folder):
            try:
                exec(code, self.namespace)
            except announced as error:  # another one ends the test, with its traceback
                printed.write(f"{type(error).__name__}: {error}")  # what a reader sees at the end of the traceback
            else:
                if expected:
                    raise WrongSample(f"{block}: needed {expected}, and nothing was raised")
        self.printed = printed.getvalue()

    def _run_commands(self, block: Block, text: str) -> None:
        commands = commands_of(text)
        self.printed = ""
        for number, command in enumerate(commands, start=1):
            needed = int(block.remarks.get("exits", 0)) if number == len(commands) else 0
            code, output = self._command(command)
            self.printed += output
            if code != needed:
                raise WrongSample(f"{block}: {command}: needed exit code {needed}, got {code}\n{output[-3000:]}")

    def _command(self, command: str) -> tuple[int, str]:
        """(exit code, what it printed)."""
        words = shlex.split(command)
        if words[0] == "cd":
            self.folder = self.root / words[1]
            return 0, ""
        if words[0] == "parity":
            with contextlib.chdir(self.folder):
                done = CliRunner().invoke(main, words[1:], catch_exceptions=False)
            return done.exit_code, done.stdout + done.stderr
        scripts = str(Path(sys.executable).parent)
        environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1"}
        environment.pop("PYTEST_ADDOPTS", None)
        ran = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        return ran.returncode, ran.stdout + ran.stderr


def commands_of(text: str) -> list[str]:
    """The commands of a block: comments are left out, and lines that end in a backslash are joined."""
    lines = (re.sub(r"(^|\s+)#.*", "", line) for line in re.sub(r"\\\n\s*", "", text).splitlines())
    return [line.strip() for line in lines if line.strip()]


def require_within(block: Block, text: str) -> None:
    """Raise `WrongSample` unless the parts of a block between lines `...` are in a text, in this order.

    Rounding errors and what is measured differ between machines: numbers with a point, an exponent or a × are one.
    """
    rest = comparable(text)
    for part in re.split(r"^\s*\.\.\.$", block.text, flags=re.MULTILINE):
        needed = comparable(part)
        if not needed:
            continue
        if needed not in rest:
            raise WrongSample(f"{block}: it says\n{part}\nwhich isn't (in this order) in\n{text[:6000]}")
        rest = rest.partition(needed)[2]


def comparable(text: str) -> str:
    """A text on one line, with # for numbers that aren't integers, and without pytest's E before lines of an error."""
    text = re.sub(r"^E(?=   )", "", text, flags=re.MULTILINE)
    return " ".join(NUMBER.sub("#", text).split())


def require_test(block: Block, name: str) -> None:
    """Raise `WrongSample` unless there is a test of this name, `PATH::test` from the root on."""
    file, _, test = name.partition("::")
    if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text()):
        raise WrongSample(f"{block}: there is no test {name}")
