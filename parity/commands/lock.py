"""`parity lock` and `parity check --lock`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..inputs.model_file import load
from ..locks.contents import TORCH
from ..locks.lock_file import Lock, read_lock, write_lock
from ..options import Options
from ..report.formats import FORMATS
from ..report.layout import echo
from ..sides.names import ONNXRUNTIME
from ..support.files import require_writable
from ..support.progress import TerminalProgress
from ..sweeping.changed import own_file
from .command import EXIT_CODES, Command, computing_dtype_option, mode_option, options_of_all, quiet
from .outcome import finish, require_outputs
from .project_file import project_root

if TYPE_CHECKING:
    from ..locks.contents import Snapshot
    from ..report.base import BaseReport

LOCK_FILE = "parity.lock"


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("-o", "--output", default=LOCK_FILE, show_default=True, metavar="FILE", help="The file to write.")
@mode_option
@computing_dtype_option
@click.option("--no-grad", is_flag=True, help="Lock the forward pass only.")
@click.option("--onnxruntime", is_flag=True, help="Lock what ONNX Runtime computes of each exported model, too.")
@options_of_all
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
def lock(
    models: tuple[str, ...],
    seed: int,
    verbose: bool,
    output: str,
    train: bool | None,
    dtype: str,
    no_grad: bool,
    onnxruntime: bool,
) -> None:
    """Write down what each MODEL computes now, to be compared after an upgrade of torch or of any other library.

    Each model file is run forward and backward in float64 and in the working dtype. The file, which is text for git,
    has a few numbers on each tensor that crosses the boundary of a Cell, what each Cell is made of, and the versions of
    libraries. parity check --lock compares.
    """
    require_writable(output)
    from ...recorder import library_versions

    snapshots = []
    for model in models:
        options = Options(grads=not no_grad, train=train, dtype=dtype, seed=seed)
        sides = (TORCH, ONNXRUNTIME) if onnxruntime else (TORCH,)
        snapshots += [_snapshot(model, side, options, verbose) for side in sides]
    write_lock(Lock(library_versions(), snapshots), output)
    errors = [(parts.error, path) for one in snapshots for path, parts in one.cells.items() if parts.error is not None]
    cells = sum(len(snapshot.cells) for snapshot in snapshots if snapshot.side == TORCH)
    compare = shlex.join(["parity", "check", "--lock", output, *(one for one in models if not _is_of_project(one))])
    echo(f"locked {cells} Cells in {output}; to compare: {compare}")
    if errors:
        error, path = max(errors)
        where = visible_name(path) or "(root)"
        echo(f"the largest rounding error is {error:.2g} units in the last place, in {where}")


def _snapshot(model: str, side: str, options: Options, verbose: bool) -> Snapshot:
    """Run a model file in torch, or what it is exported to in ONNX Runtime."""
    from dataclasses import replace

    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = load(model, options.seed)
        from ..locks.snapshot import take_runtime_snapshot, take_snapshot

        take = take_snapshot if side == TORCH else take_runtime_snapshot
        progress.stage("run", None)
        with quiet(verbose):
            chosen = replace(options, loss=user_file.loss, model=model)
            return take(user_file.module, user_file.args, user_file.kwargs, chosen)


def _is_of_project(model: str) -> bool:
    """Whether a model is a file in the repository of the current folder; outside a repository, in the folder itself."""
    file = own_file(model)
    return file is not None and file.is_relative_to(project_root(Path.cwd()).resolve())


@click.command("check", cls=Command, epilog=EXIT_CODES)
@click.option("--lock", "lock_file", is_flag=False, flag_value=LOCK_FILE, metavar="[FILE]", help="The lock file.")
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too.")
@click.option("--only", multiple=True, metavar="GLOB", help="Judge only Cells whose path matches; may be repeated.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave out Cells whose path matches; may be repeated.")
@click.option("--json", "json_file", metavar="FILE", help=FORMATS["json"].help)
@click.option("--junit", "junit_file", metavar="FILE", help=FORMATS["junit"].help)
@click.option("--html", "html_file", metavar="FILE", help=FORMATS["html"].help)
def check_lock(
    models: tuple[str, ...],
    lock_file: str | None,
    verbose: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
) -> None:
    """Compare what the models of a lock file compute now with what they computed when parity lock wrote it.

    A Cell fails if what it computes has changed in meaning, or beyond ten times its rounding error. What has changed
    in it, in its settings or its code, and the versions of libraries are shown. Paths of models are relative to the
    current folder. A lock file is data that somebody else may have written: a MODEL outside this project, or of an
    installed package, is run only if it is named here, too.
    """
    if lock_file is None:
        raise UsageError("there is one thing to check: give --lock, with the file if it isn't parity.lock")
    path = lock_file
    files = {"json": json_file, "junit": junit_file, "html": html_file}
    written = read_lock(path)
    locked = {one.label: one for one in written.snapshots}
    if outside := [one.model for one in locked.values() if one.model not in models and not _is_of_project(one.model)]:
        command = shlex.join(["parity", "check", "--lock", path, *dict.fromkeys(outside)])
        raise UsageError(
            f"{path} names {visible_name(outside[0])}, which is no file of this project, and checking would run it\n"
            f"  what to do: if you know it, name it too: {command}"
        )

    def judge(label: str) -> BaseReport:
        then = locked[label]
        options = Options(grads=then.grads, train=then.train, dtype=then.dtype, seed=then.seed)
        now = _snapshot(then.model, then.side, options, verbose)
        from ...recorder import library_versions
        from ..locks.check import check_snapshot

        return check_snapshot(then, now, written.versions, library_versions(), {"only": only, "skip": skip})

    if len(locked) > 1:
        if json_file is not None or junit_file is not None:
            raise UsageError(f"--json, --junit: for one model, and {path} has {len(locked)}")
        from .several import judge_several

        judge_several(tuple(locked), judge, verbose, html_file)
    require_outputs({f"--{name}": file for name, file in files.items()}, {"--lock": path})
    for label in locked:
        finish(judge(label), verbose, files)
    raise UsageError(f"{Path(path)} has no model")
