"""`parity lock` and `parity check`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..jobs.locks.contents import TORCH
from ..jobs.locks.lock_file import Lock, read_lock, write_lock
from ..options import OptionKeywords, Options
from ..report.layout import echo
from ..sides.kinds import Kind, kind_of_path
from ..sides.names import ONNXRUNTIME
from ..support.files import require_writable
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import Reports, Run, Seed, Selection, Verbosity
from .command import command
from .conversion import loaded
from .outcome import finish, require_outputs
from .project_file import project_root

if TYPE_CHECKING:
    from ..jobs.locks.contents import Snapshot
    from ..report.base import BaseReport

LOCK_FILE = "parity.lock"


@dataclass(frozen=True)
class WrittenLock(ArgumentGroup):
    """What is written."""

    title = "Lock"
    output: str = option(
        "-o", "--output", default=LOCK_FILE, show_default=True, metavar="FILE", help="The file to write."
    )
    onnxruntime: bool = option(
        "--onnxruntime", is_flag=True, help="Lock what ONNX Runtime computes of each exported model, too."
    )


@command("lock")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
def lock(models: tuple[str, ...], lock_file: WrittenLock, how: Run, inputs: Seed, reports: Verbosity) -> None:
    """Save what each MODEL computes now, to compare it later.

    parity check compares that with what they compute later, after an upgrade of torch or of any other library.

    Each model file is run forward and backward in float64 and in the working dtype. The file, which is text for git,
    has a few numbers on each tensor that crosses the boundary of a Cell, what each Cell is made of, and the versions of
    libraries.
    """
    output = lock_file.output
    require_writable(output)
    from ...recorder import library_versions

    options = Options(grads=not how.no_grad, train=how.train, dtype=how.dtype, seed=inputs.seed)
    sides = (TORCH, ONNXRUNTIME) if lock_file.onnxruntime else (TORCH,)
    snapshots = [_snapshot(model, side, options, reports.verbose) for model in models for side in sides]
    write_lock(Lock(library_versions(), snapshots), output)
    errors = [
        (parts.error, path)
        for snapshot in snapshots
        for path, parts in snapshot.cells.items()
        if parts.error is not None
    ]
    cells = sum(len(snapshot.cells) for snapshot in snapshots if snapshot.side == TORCH)
    compare = _check_command(output, [model for model in models if not _is_of_project(model)])
    echo(f"locked {cells} Cells in {output}; to compare: {compare}")
    if errors:
        error, path = max(errors)
        where = f"the Cell {visible_name(path)}" if path else "the network as a whole"
        echo(f"the largest rounding error is {error:.2g} units in the last place, in {where}")


def _check_command(path: str, models: Iterable[str]) -> str:
    """Return the command that checks a lock file, and names these models."""
    return shlex.join(["parity", "check", *([] if path == LOCK_FILE else ["--lock", path]), *models])


def _snapshot(model: str, side: str, options: Options, verbose: bool) -> Snapshot:
    """Run a model file in torch, or what it is exported to in ONNX Runtime."""
    with loaded(model, options.seed, verbose) as (user_file, progress):
        from ..jobs.locks.snapshot import take_runtime_snapshot, take_snapshot

        take = take_snapshot if side == TORCH else take_runtime_snapshot
        progress.stage("run", None)
        chosen = replace(options, loss=user_file.loss, model=model)
        return take(user_file.module, user_file.args, user_file.kwargs, chosen)


def _is_of_project(model: str) -> bool:
    """Whether a model is a file in the repository of the current folder; outside a repository, in the folder itself."""
    from ..jobs.sweeping.changed import own_file

    file = own_file(model)
    return file is not None and file.is_relative_to(project_root(Path.cwd()).resolve())


@dataclass(frozen=True)
class ReadLock(ArgumentGroup):
    """What is read."""

    title = "Lock"
    path: str = option(
        "--lock",
        is_flag=False,
        flag_value=LOCK_FILE,
        default=LOCK_FILE,
        show_default=True,
        metavar="FILE",
        help="The lock file.",
    )


@command("check")
@click.argument("models", metavar="[MODEL]...", nargs=-1)
def check_lock(models: tuple[str, ...], lock_file: ReadLock, selection: Selection, reports: Reports) -> None:
    """Compare what locked models compute now with the lock file.

    The lock file, which parity lock wrote, has what each of its models computed then. A Cell fails if what it computes
    has changed in meaning, or beyond ten times its rounding error. What has changed in it, in its settings or its code,
    and the versions of libraries are shown. Paths of models are relative to the current folder.

    All models of the file are compared. A lock file is data that somebody else may have written: a model outside this
    project, or of an installed package, is run only if it is named as MODEL, too.
    """
    path = lock_file.path
    if kind_of_path(path) is Kind.MODEL_FILE:
        raise UsageError(
            f"--lock takes a lock file, given the model {path}\n  what to do: {_check_command(LOCK_FILE, [path])}"
        )
    contents = read_lock(path)
    locked = {snapshot.label: snapshot for snapshot in contents.snapshots}
    _require_named(path, [snapshot.model for snapshot in locked.values()], models)

    def judge(label: str) -> BaseReport:
        then = locked[label]
        options = Options(grads=then.grads, train=then.train, dtype=then.dtype, seed=then.seed)
        now = _snapshot(then.model, then.side, options, reports.verbose)
        from ...recorder import library_versions
        from ..jobs.locks.check import check_snapshot

        chosen: OptionKeywords = {"only": selection.only, "skip": selection.skip}
        return check_snapshot(then, now, contents.versions, library_versions(), chosen)

    if len(locked) > 1:
        if reports.json_file is not None or reports.junit_file is not None:
            raise UsageError(f"--json and --junit are for one model; {path} has {len(locked)}")
        from .several import judge_several

        judge_several(tuple(locked), judge, reports.verbose, reports.html_file)
    require_outputs(reports.files_by_option, {"--lock": path})
    for label in locked:
        finish(judge(label), reports.verbose, reports.files)
    raise UsageError(f"{Path(path)} has no model")


def _require_named(path: str, locked: Sequence[str], named: Sequence[str]) -> None:
    """Raise `UsageError` for a named model that isn't locked, and for a locked one that must be named and isn't."""
    if unknown := [model for model in named if model not in locked]:
        names = ", ".join(visible_name(model) for model in dict.fromkeys(locked))
        is_lock = Path(unknown[0]).suffix == Path(LOCK_FILE).suffix
        hint = "\n  what to do: to read another lock file: parity check --lock FILE" if is_lock else ""
        raise UsageError(f"{path} has no model {unknown[0]}: it has {names or 'none'}{hint}")
    if outside := [model for model in locked if model not in named and not _is_of_project(model)]:
        command_line = _check_command(path, dict.fromkeys([*named, *outside]))
        raise UsageError(
            f"{path} names {visible_name(outside[0])}, which isn't a file of this project, and checking it would "
            f"run it\n  what to do: if you know it, name it too: {command_line}"
        )
