"""`parity upgrade`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from ...runtime.errors import UsageError
from ...runtime.visible import visible_text
from ..report.layout import echo
from .command import EXIT_CODES, Command, JudgingOptions, common_options, judging_options, mode_option
from .conversion import compare_with_recording
from .outcome import finish, require_outputs

_MISSING = "No module named 'cellbridge"


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option(
    "--python", required=True, metavar="PYTHON", help="Python of the other environment: other/venv/bin/python."
)
@mode_option
@judging_options
@common_options
def upgrade(model: str, seed: int, verbose: bool, python: str, train: bool | None, judging: JudgingOptions) -> None:
    """Compare what MODEL computes in another environment with what it computes in this one.

    MODEL is recorded by PYTHON, in which cellbridge and what the model needs must be installed, with other versions of
    torch or of other libraries. The recording is then compared with the model here, as parity run --against does: each
    module is run on the inputs that were recorded there, and causes are looked for.
    """
    require_outputs({f"--{name}": path for name, path in judging.files.items()}, {}, judging.repro)
    if judging.inputs_option is not None:
        raise UsageError(f"{judging.inputs_option} is for ONNX files: a model file defines inputs() itself")
    if shutil.which(python) is None:
        raise UsageError(f"--python: there is no program {python}; needed the Python of another environment")
    options = judging.options
    with tempfile.TemporaryDirectory() as folder:
        recording = str(Path(folder) / "other environment")
        arguments = ["record", model, "-o", recording, "--seed", str(seed), "--dtype", options.get("dtype", "float32")]
        arguments += [] if train is None else ["--train" if train else "--eval"]
        arguments += [] if options.get("grads", True) else ["--no-grad"]
        _run(python, arguments)
        report = compare_with_recording(model, recording, None, verbose, {**options, "seed": seed, "train": train})
        finish(report, verbose, judging.files, judging.repro)


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
    lines = [line for line in done.stderr.splitlines() if line.strip()][-5:]
    raise UsageError(
        f"{python} couldn't record the model (exit code {done.returncode}):\n"
        + "\n".join(f"  {visible_text(line)}" for line in lines)
    )
