"""`parity upgrade`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from ...runtime.errors import UsageError
from ...runtime.visible import visible_text
from ..report.layout import echo
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import WHERE, CauseSearch, Judging, Mode, Provider, ReportsOnFailures, Seed
from .command import command
from .conversion import compare_with_recording
from .outcome import finish, require_outputs

_MISSING = "No module named 'cellbridge"


@dataclass(frozen=True)
class OtherPython(ArgumentGroup):
    """The other environment."""

    title = WHERE
    python: str = option(
        "--python", required=True, metavar="PYTHON", help="Python of the other environment: other/venv/bin/python."
    )


@dataclass(frozen=True)
class Environments(OtherPython, Provider):
    """Where both runs are."""


@command("upgrade")
@click.argument("model")
def upgrade(
    model: str,
    environments: Environments,
    mode: Mode,
    judging: Judging,
    inputs: Seed,
    reports: ReportsOnFailures,
    limits: CauseSearch,
) -> None:
    """Compare what MODEL computes in two environments.

    MODEL is recorded by PYTHON, in which cellbridge and what the model needs must be installed, with other versions of
    torch or of other libraries. The recording is then compared with the model here, as parity run --against does: each
    module is run on the inputs that were recorded there, and causes are looked for.
    """
    require_outputs(reports.files_by_option, {}, reports.repro)
    python = environments.python
    if shutil.which(python) is None:
        raise UsageError(f"--python: there is no program {python}; needed the Python of another environment")
    options = judging.keywords(inputs.seed, environments.provider, limits.diagnose_seconds)
    options["train"] = mode.train
    with tempfile.TemporaryDirectory() as folder:
        recording = str(Path(folder) / "other environment")
        arguments = ["record", model, "-o", recording, "--seed", str(inputs.seed), "--dtype", judging.dtype]
        arguments += [] if mode.train is None else ["--train" if mode.train else "--eval"]
        arguments += ["--no-grad"] if judging.no_grad else []
        _run(python, arguments)
        report = compare_with_recording(model, recording, None, reports.verbose, options)
        finish(report, reports.verbose, reports.files, reports.repro)


def _run(python: str, arguments: list[str]) -> None:
    """Run `parity` in another environment.

    Raises:
        UsageError: it fails there.
    """
    echo(f"recording with {python}", err=True)
    done = subprocess.run(
        [python, "-m", "cellbridge.parity", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return
    if _MISSING in done.stderr:
        raise UsageError(
            f"cellbridge isn't installed in the environment of {python}\n"
            f"  what to do: {python} -m pip install cellbridge"
        )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]  # before it, progress
    lines = lines[starts[-1] :] if starts else lines[-5:]
    raise UsageError(
        f"{python} couldn't record the model (exit code {done.returncode}):\n"
        + "\n".join(f"  {visible_text(line)}" for line in lines)
    )
