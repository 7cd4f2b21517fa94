"""Cases that are commands: on the fixtures, on the migration and Flax projects, and a hundred wrong uses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.newcomer import uses
from tests.snapshot.case import Case

FIXTURES = Path(__file__).parents[2] / "fixtures"


def parity(*words: str) -> tuple[str, Callable[[], int]]:
    """Return the step of a `parity` command in 80 columns."""
    return " ".join(["parity", *words]), partial(_parity, words)


def _parity(words: tuple[str, ...]) -> int:
    from cellbridge.parity.cli import main

    os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
    main(args=list(words), prog_name="parity")
    return 0


def fixtures() -> Iterator[Case]:
    """Every model file of the fixtures, by the commands that take one."""
    sound = [path for folder in ("", "recipes") for path in sorted((FIXTURES / folder).glob("[a-z]*.py"))]
    for path in sound:
        name, file = path.stem, str(path)
        yield Case(f"run/{name}", [parity("run", file, "--json", "report.json")], documents=["report.json"])
        yield Case(
            f"run-train/{name}", [parity("run", file, "--train", "--json", "report.json")], documents=["report.json"]
        )
        yield Case(f"run-half/{name}", [parity("run", file, "--dtype", "float16", "-v")])
        yield Case(f"round-trip/{name}", [parity("run", file, "--round-trip", "--junit", "report.xml")])
        yield Case(f"inspect/{name}", [parity("inspect", file)])
        steps = [parity("export", file, "-o", "m.onnx"), parity("run", "m.onnx"), parity("compare", file, "m.onnx")]
        yield Case(f"export/{name}", steps)
        steps = [
            parity("record", file, "-o", "rec"),
            parity("judge", "rec", "rec"),
            parity("run", file, "--against", "rec"),
        ]
        yield Case(f"record/{name}", steps)
        yield Case(f"lock/{name}", [parity("lock", file), parity("check", file)])
    for path in sorted((FIXTURES / "faults").glob("[a-z]*.py")) + sorted((FIXTURES / "bad").glob("*.py")):
        yield Case(
            f"run/{path.parent.name}/{path.stem}", [parity("run", str(path), "--json", "r.json")], documents=["r.json"]
        )
        yield Case(f"export/{path.parent.name}/{path.stem}", [parity("export", str(path), "-o", "m.onnx")])


def _pytest(words: tuple[str, ...], project: str) -> int:
    import pytest

    shutil.copytree(FIXTURES / project, project)
    os.chdir(project)
    return int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words]))


def projects() -> Iterator[Case]:
    """The migration project's tests with its port, and with the first try; the Flax project's model files."""
    for port in ("spotter", "broken"):
        words = () if port == "spotter" else ("--port", port)
        yield Case(f"migration/{port}", [(f"pytest {port}", partial(_pytest, words, "migration"))])
    files = {path.name: path.read_bytes() for path in (FIXTURES / "flax").glob("*.*")}
    for name in ("check_ported", "check_broken"):
        steps = [("write the weights", _write_flax_weights), parity("run", f"{name}.py", "--json", "r.json")]
        yield Case(f"flax/{name}", steps, files, ["r.json"])


def _write_flax_weights() -> int:
    import sys

    sys.path.insert(0, ".")
    import torch
    from original import Classifier  # type: ignore[import-not-found]

    torch.manual_seed(0)
    torch.save(Classifier().state_dict(), "classifier.pt")
    from cellbridge.parity.cli import main

    main(args=["weights", "classifier.pt", "-o", "classifier.safetensors", "--names", "names.toml"], prog_name="parity")
    return 0


def wrong_uses() -> Iterator[Case]:
    """What people type by mistake: each ends in one message and a documented exit code."""
    for use in uses.wrong_uses():
        yield Case(f"wrong/{' '.join(use.words) or 'nothing'}", [parity(*use.words)], uses.FILES)
