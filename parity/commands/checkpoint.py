"""`parity checkpoint`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..support.files import write_text
from ..support.progress import ProgressDisplay
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import Reports
from .command import command
from .outcome import finish, require_outputs


@dataclass(frozen=True)
class Map(ArgumentGroup):
    """What tensors are made of."""

    title = "Convert"
    others: tuple[str, ...] = option(
        "--with",
        multiple=True,
        metavar="FILE",
        help="A further checkpoint that AFTER is made of: an adapter, or a model that was averaged. May be repeated.",
    )
    map_file: str | None = option(
        "--map", metavar="FILE", help="Judge AFTER by a map: other values than it makes of BEFORE are wrong."
    )
    written_map: str | None = option(
        "--write-map", metavar="FILE", help="Write what AFTER's tensors are made of, to be read, edited and applied."
    )


@dataclass(frozen=True)
class Loading(ArgumentGroup):
    """What loads the checkpoint."""

    title = "The model"
    model: str | None = option(
        "--model",
        metavar="MODEL",
        help="Say what this model would not get from AFTER, and what it would ignore: a model file, or hf:Class.",
    )


@command("checkpoint")
@click.argument("before")
@click.argument("after")
def checkpoint(before: str, after: str, weight_map: Map, loading: Loading, reports: Reports) -> None:
    """Say what became of each tensor of a checkpoint.

    BEFORE is the checkpoint that was converted, AFTER what it was converted to; each is a file or a folder. Their
    models aren't needed, and no names need agree: values tell what each tensor of AFTER is made of, also if it was
    transposed, joined, split, stacked, padded, put in another order, rounded, scaled, or if norms or adapters were
    merged into it.

    Then it says what is wrong, with the evidence: tensors that were left out, never loaded, zero, repeated, exchanged,
    or made in another way than in the other layers.
    """
    inputs = {"BEFORE": before, "AFTER": after, "--map": weight_map.map_file, "--model": loading.model}
    require_outputs(reports.files_by_option | {"--write-map": weight_map.written_map}, inputs)
    with ProgressDisplay() as progress:
        progress.stage("read", None)
        from ..checking.checkpoints import check_checkpoint

        report = check_checkpoint(
            before, after, weight_map.others, progress, map=weight_map.map_file, model=loading.model
        )
    if weight_map.written_map is not None:
        write_text(weight_map.written_map, report.map_text())
        report.notes.append(f"the map was written to {weight_map.written_map}")
    finish(report, reports.verbose, reports.files)
