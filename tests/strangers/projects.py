"""A stranger's pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cellbridge.parity.cli import main
from cellbridge.parity.commands.project_options import JUDGING
from tests.strangers.attack import Attack

FILE = "work/pyproject.toml"
BAR = "(from pyproject.toml), which replaces the computed bar"
WRONG_BACKWARD = """
import torch
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 3
class Net(torch.nn.Module):
    def forward(self, x): return Double.apply(x)
class Right(torch.nn.Module):
    def forward(self, x): return x * 2
model = Net if 'bad' in __file__ else Right
inputs = (torch.linspace(-1, 1, 12),)
"""
OFF = """
import torch
class Net(torch.nn.Module):
    def forward(self, x): return x * 2 + ('bad' in __file__)
model = Net
inputs = (torch.linspace(-1, 1, 12),)
"""


def judges(toml: str, *command: str, **more: object) -> Attack:
    """A file that decides how something is judged: it is obeyed and named, or the verdict is what it would be."""
    return Attack(files={FILE: toml, **more.pop("files", {})}, command=command, **more)  # type: ignore[arg-type, dict-item]


def refused(name: str, toml: str | bytes, *says: str) -> Attack:
    """A file for which nothing is run."""
    return Attack(name, ["run", "net.py"], 2, ["pyproject.toml", *says], files={FILE: toml})


def _nested(depth: int) -> str:
    return f"[tool.parity]\nskip = {'[' * depth}{']' * depth}\n"


def _forbidden() -> Iterator[Attack]:
    """Every option that writes, runs or connects, in a table of its own and in the common one."""
    for command, click_command in main.commands.items():
        for option in click_command.params:
            name = str(option.opts[-1])[2:] if option.opts[-1].startswith("--") else ""
            if not name or name in JUDGING or name == "help":
                continue
            value = "true" if getattr(option, "is_flag", False) else '"../victim"'
            for table in ("tool.parity", f"tool.parity.{command}"):
                yield refused(f"[{table}] {name}", f"[{table}]\n{name} = {value}\n", f"sets {name}", f"--{name}")


def _link(target: str) -> object:
    def make(folder: Path) -> None:
        (folder / FILE).symlink_to(target)

    return make


def _folder(folder: Path) -> None:
    (folder / FILE).mkdir()


PARENT = {"pyproject.toml": '[tool.parity]\natol = 1e9\n[tool.parity.run]\njson = "victim"\n'}
HOLDS = "Parity holds: interpreter (outputs and gradients)"
SOUND = {"work/good.py": OFF, "work/bad.py": OFF}

ATTACKS = [
    Attack(
        "a tolerance of 1e9",
        ["compare", "good.py", "bad.py"],
        0,
        [f"Parity holds within the tolerance atol=1e9 {BAR}", "from pyproject.toml: --atol=1000000000.0"],
        files={FILE: "[tool.parity]\natol = 1e9\n", **SOUND},
    ),
    Attack(
        "a wrong network without the tolerance",
        ["compare", "good.py", "bad.py"],
        1,
        ["Parity fails in 1 Cell"],
        ["from pyproject.toml"],
        files={FILE: "[tool.other]\natol = 1e9\n", **SOUND},
    ),
    Attack(
        "no gradients",
        ["compare", "good.py", "bad.py"],
        0,
        ["Parity holds without gradients (from pyproject.toml)", "from pyproject.toml: --no-grad"],
        files={
            FILE: "[tool.parity]\nno-grad = true\n",
            "work/good.py": WRONG_BACKWARD,
            "work/bad.py": WRONG_BACKWARD,
        },
    ),
    Attack(
        "Cells left out",
        ["run", "net.py"],
        0,
        ["without 1 of 3 Cells, which are left out (from pyproject.toml)"],
        files={FILE: '[tool.parity]\nskip = ["1"]\n'},
    ),
    Attack(
        "a tolerance in a sweep",
        ["sweep", "net.py"],
        0,
        ["parity holds within the tolerance atol=1e9 (from pyproject.toml)", "from pyproject.toml: --atol"],
        files={FILE: "[tool.parity]\natol = 1e9\n"},
        writes=["work/sweep.db"],
    ),
    Attack("a file of a folder above, outside a repository", ["run", "net.py"], 0, [HOLDS], ["from"], files=PARENT),
    Attack(
        "a file above the root of the repository",
        ["run", "net.py"],
        0,
        [HOLDS],
        ["from"],
        files={**PARENT, "work/.git/HEAD": ""},
    ),
    Attack(
        "a link out of the project",
        ["run", "net.py"],
        0,
        [HOLDS, "is a link that leads out of the project"],
        files=PARENT,
        make=_link("../pyproject.toml"),
    ),  # type: ignore[arg-type]
    Attack("a link to itself", ["run", "net.py"], 0, [HOLDS], make=_link("pyproject.toml")),  # type: ignore[arg-type]
    Attack("a link to a device", ["run", "net.py"], 0, [HOLDS, "isn't a file"], make=_link("/dev/zero")),  # type: ignore[arg-type]
    Attack("a folder of that name", ["run", "net.py"], 0, [HOLDS, "isn't a file"], make=_folder),
    Attack(
        "inputs outside its folder",
        ["compare", "net.onnx", "net.onnx"],
        2,
        ["inputs must be a file of its folder, given ../victim"],
        files={FILE: '[tool.parity]\ninputs = "../victim"\n'},
    ),
    Attack(
        "inputs through a link",
        ["compare", "net.onnx", "net.onnx"],
        2,
        ["inputs must be a file of its folder, given x.npz"],
        files={FILE: '[tool.parity]\ninputs = "x.npz"\n'},
        make=lambda folder: (folder / "work/x.npz").symlink_to("../victim"),
    ),
    refused("lists nested 5,000 deep", _nested(5_000), "nested too deeply"),
    refused("lists nested 200 deep", _nested(200), "skip needs a list of strings, given a list"),
    refused("tables nested 5,000 deep", f"x = {'{a = ' * 5_000}1{'}' * 5_000}", "nested too deeply"),
    refused("a key of 100,000 parts", f"x{'.a' * 100_000} = 1", "dots"),
    refused("a file of 10 MB", "#" * 10_000_000, "bytes"),
    refused("a number of 5,000 digits", f"[tool.parity]\nseed = 1{'0' * 5_000}\n", "4300 digits"),
    refused("a number of 4,000 digits", f"[tool.parity]\nseed = 1{'0' * 4_000}\n", "4001 characters"),
    refused("a text of 100 KB", f"[tool.parity]\ndtype = '{'x' * 100_000}'\n", "100000 characters"),
    refused("bytes that aren't text", b"[tool.parity]\n\xff\xfe = 1\n"),
    refused("a NUL in a path", '[tool.parity]\ninputs = "a\\u0000b"\n', "inputs isn't a path"),
    refused("a name with an escape sequence", '[tool.parity]\n"\\u001b[2J" = 1\n', "has no option"),
    refused("a date", "[tool.parity]\natol = 1979-05-27\n", "atol needs a string or a number"),
    refused("a flag for a number", "[tool.parity]\natol = true\n", "atol needs a value, not a flag"),
    refused("not a number", "[tool.parity]\natol = nan\n"),
    refused("an infinite tolerance", "[tool.parity]\natol = inf\n"),
    refused("a negative tolerance", "[tool.parity]\natol = -1.0\n"),
    refused("a table for an option", "[tool.parity.run]\natol = {a = 1}\n", "a table"),
    *_forbidden(),
]
