"""`parity judge`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import click

from ..report.layout import echo
from ..support.progress import ProgressDisplay
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import CauseSearch, ReportsOnFailures, Selection, Tolerances
from .command import command
from .outcome import finish, require_outputs


@dataclass(frozen=True)
class Names(ArgumentGroup):
    """The map of names."""

    title = "Pair"
    names: str | None = option(
        "--map", metavar="FILE", help="TOML file that pairs the Cells of CANDIDATE with those of REFERENCE."
    )
    proposal: str | None = option(
        "--propose-map",
        metavar="FILE",
        help="Write the map that the recorded values support, to be read and given as --map, and judge nothing.",
    )


@dataclass(frozen=True)
class Judging(Tolerances, Selection):
    """How recordings are judged."""


@command("judge")
@click.argument("reference")
@click.argument("candidate")
def judge(
    reference: str, candidate: str, judging: Judging, names: Names, reports: ReportsOnFailures, limits: CauseSearch
) -> None:
    """Judge one recording by another, without running either network.

    CANDIDATE is judged by REFERENCE, Cell by Cell. Both are folders that parity record or cellbridge.recorder has
    written on the same inputs, or folders of .npy files (docs/recordings.md). The truth is REFERENCE's run in float64;
    each tensor of CANDIDATE may differ from it by ten times as much as REFERENCE's own run in the working dtype does.

    Cells of other names are paired by --map, for which --propose-map makes a proposal from the values.

    A Cell fails if its results differ although everything that they are computed from agrees: its inputs, and the
    results of the Cells inside. Those that differ only because of others are shown as affected. Causes are proved with
    the network's program, which parity record writes into REFERENCE.
    """
    require_outputs(reports.files_by_option | {"--propose-map": names.proposal}, {"--map": names.names}, reports.repro)
    if names.proposal is not None:
        _propose(reference, candidate, names.proposal)
        return
    with ProgressDisplay() as progress:
        progress.stage("read", None)
        from ..checking.recordings.judge import judge as judge_recordings

        report = judge_recordings(
            reference,
            candidate,
            names=names.names,
            progress=progress,
            grads=not judging.no_grad,
            rtol=judging.rtol,
            atol=judging.atol,
            only=judging.only,
            skip=judging.skip,
            diagnose_seconds=limits.diagnose_seconds,
        )
    finish(report, reports.verbose, reports.files, reports.repro)


def _propose(reference: str, candidate: str, path: str) -> None:
    """Write a map, and print it."""
    from ..checking.recordings.proposing import propose_names

    proposal = propose_names(reference, candidate, path)
    echo(proposal.text)
    supported, unsupported = len(proposal.supported), len(proposal.unsupported)
    echo(f"written to {path}: values support {supported} of {supported + unsupported} names of Cells and parameters")
    echo(f"to use it: {shlex.join(['parity', 'judge', reference, candidate, '--map', path])}")
