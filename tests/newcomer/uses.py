"""What newcomers type by mistake: a table of commands, exit codes and messages, and the files that they have.

`wrong_uses.txt` has two lines for each: the exit code and the command, and what the message begins with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("wrong_uses.txt")

GOOD = """
import torch
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
def inputs():
    return (torch.ones(2, 3),)
"""
FILES: dict[str, str | bytes] = {
    "good.py": GOOD,
    "other.py": GOOD.replace("(4, 2)", "(4, 5)"),
    "alone.py": GOOD.partition("def inputs")[0],
    "misspelt.py": GOOD.replace("torch.ones", "torch.onse"),
    "unfinished.py": GOOD + "def loss(\n",
    "narrow.py": GOOD.replace("ones(2, 3)", "ones(2, 5)"),
    "words.py": GOOD.replace("(torch.ones(2, 3),)", "'two rows of three'"),
    "nan.py": GOOD.replace("ones(2, 3)", "full((2, 3), float('nan'))"),
    "class.py": "import torch\nmodel = torch.nn.Linear\ninputs = (torch.ones(2, 3),)\n",
    "function.py": "import torch\nmodel = lambda: lambda x: x\ninputs = (torch.ones(2, 3),)\n",
    "absent_package.py": "import no_such_package\n" + GOOD,
    "empty.py": "",
    "empty.onnx": b"",
    "noise.onnx": bytes(range(256)),
    "noise.pt": bytes(range(256)),
    "noise.npz": bytes(range(256)),
    "noise.safetensors": bytes(range(256)),
    "notes.txt": "a text",
    "data.json": "{}",
    "bad.toml": "[parity",
    "pyproject.toml": "",
    "folder/inside.txt": "",
}


@dataclass(frozen=True)
class WrongUse:
    """A wrong command line, and how it ends.

    Attributes:
        words: what follows `parity`.
        code: its exit code.
        message: what it prints first, apart from its progress.
    """

    words: Sequence[str]
    code: int
    message: str

    def __str__(self) -> str:
        return " ".join(["parity", *self.words])


def wrong_uses() -> list[WrongUse]:
    """The table."""
    lines = TABLE.read_text().splitlines()
    rows = [(line.split(), message.strip()) for line, message in zip(lines[::2], lines[1::2], strict=True)]
    return [WrongUse(words, int(code), message) for (code, _, *words), message in rows]


def write_files(folder: Path) -> None:
    """Write the files that a newcomer has."""
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def first_line(printed: str) -> str:
    """The first line that isn't about progress; "" if there is none."""
    lines = (line.strip() for line in printed.splitlines())
    return next((line for line in lines if line and not re.fullmatch(r"[\w ]+ \(\d+ s.*\)", line)), "")
