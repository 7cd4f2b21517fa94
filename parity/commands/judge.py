"""`parity judge`."""

from __future__ import annotations

import shlex

import click

from ...runtime.errors import UsageError
from ..report.formats import FORMATS
from ..report.layout import echo
from ..support.progress import TerminalProgress
from .command import EXIT_CODES, Command, diagnose_option, repro_option, require_causes_for_repro
from .outcome import finish, require_outputs


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("reference")
@click.argument("candidate")
@click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too.")
@click.option("--map", "names", metavar="FILE", help="TOML file that says which Cell of CANDIDATE is which.")
@click.option(
    "--propose-map",
    "proposal",
    metavar="FILE",
    help="Write the map that the recorded values support, to be read and given as --map, and judge nothing.",
)
@click.option("--only", multiple=True, metavar="GLOB", help="Judge only Cells whose path matches; may be repeated.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave out Cells whose path matches; may be repeated.")
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance, instead of the computed bar.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance, instead of the computed bar.")
@click.option("--no-grad", is_flag=True, help="Compare outputs only.")
@diagnose_option
@click.option("--json", "json_file", metavar="FILE", help=FORMATS["json"].help)
@click.option("--junit", "junit_file", metavar="FILE", help=FORMATS["junit"].help)
@click.option("--html", "html_file", metavar="FILE", help=FORMATS["html"].help)
@repro_option
def judge(
    reference: str,
    candidate: str,
    verbose: bool,
    names: str | None,
    proposal: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    no_grad: bool,
    diagnose_seconds: float | None,
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
    repro: str | None,
) -> None:
    """Judge the recording CANDIDATE by the recording REFERENCE, Cell by Cell, without running either network.

    Both are folders that parity record or cellbridge.recorder has written on the same inputs, or folders of .npy files
    (docs/recordings.md). The truth is REFERENCE's run in float64; each tensor of CANDIDATE may differ from it by ten
    times as much as REFERENCE's own run in the working dtype does.

    Cells of other names are paired by --map, for which --propose-map makes a proposal from the values.

    A Cell fails if what it computes differs although all that it computes it from agrees: its inputs, and what the
    Cells inside returned. Those that differ only because of others are shown as affected. Causes are proved with the
    network's program, which parity record writes into REFERENCE.
    """
    files = {"json": json_file, "junit": junit_file, "html": html_file}
    outputs = {f"--{name}": path for name, path in files.items()} | {"--propose-map": proposal}
    require_outputs(outputs, {"--map": names}, repro)
    require_causes_for_repro(repro, diagnose_seconds)
    if proposal is not None:
        if names is not None:
            raise UsageError("--propose-map writes a map, and --map takes one: give one of them")
        _propose(reference, candidate, proposal)
        return
    with TerminalProgress() as progress:
        progress.stage("read", None)
        from ..recordings.judge import judge as judge_recordings

        report = judge_recordings(
            reference,
            candidate,
            names=names,
            progress=progress,
            grads=not no_grad,
            rtol=rtol,
            atol=atol,
            only=only,
            skip=skip,
            diagnose_seconds=diagnose_seconds,
        )
    finish(report, verbose, files, repro)


def _propose(reference: str, candidate: str, path: str) -> None:
    """Write a map, and print it."""
    from ..recordings.proposing import propose_names

    proposal = propose_names(reference, candidate, path)
    echo(proposal.text)
    known, unknown = len(proposal.supported), len(proposal.unsupported)
    echo(f"written to {path}: values support {known} of {known + unknown} names of Cells and parameters")
    echo(f"to use it: {shlex.join(['parity', 'judge', reference, candidate, '--map', path])}")
