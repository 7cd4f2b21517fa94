"""`parity judge`."""

from __future__ import annotations

import click

from ..report.formats import FORMATS
from ..support.progress import TerminalProgress
from .command import EXIT_CODES, Command
from .outcome import finish, require_outputs


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("reference")
@click.argument("candidate")
@click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too.")
@click.option("--map", "names", metavar="FILE", help="TOML file that says which Cell of CANDIDATE is which.")
@click.option("--only", multiple=True, metavar="GLOB", help="Judge only Cells whose path matches; may be repeated.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave out Cells whose path matches; may be repeated.")
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance, instead of the computed bar.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance, instead of the computed bar.")
@click.option("--no-grad", is_flag=True, help="Compare outputs only.")
@click.option("--json", "json_file", metavar="FILE", help=FORMATS["json"].help)
@click.option("--junit", "junit_file", metavar="FILE", help=FORMATS["junit"].help)
@click.option("--html", "html_file", metavar="FILE", help=FORMATS["html"].help)
def judge(
    reference: str,
    candidate: str,
    verbose: bool,
    names: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    no_grad: bool,
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
) -> None:
    """Judge the recording CANDIDATE by the recording REFERENCE, Cell by Cell, without running either network.

    Both are folders that parity record or cellbridge.recorder has written on the same inputs, or folders of .npy files
    (docs/recordings.md). The truth is REFERENCE's run in float64; each tensor of CANDIDATE may differ from it by ten
    times as much as REFERENCE's own run in the working dtype does.

    A Cell fails if what it computes differs although all that it computes it from agrees: its inputs, and what the
    Cells inside returned. Those that differ only because of others are shown as affected.
    """
    files = {"json": json_file, "junit": junit_file, "html": html_file}
    require_outputs({f"--{name}": path for name, path in files.items()}, {})
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
        )
    finish(report, verbose, files)
