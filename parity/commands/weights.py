"""`parity weights`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import REPORTS
from .command import command
from .outcome import exit_code, print_report, require_outputs
from .targets import require_checkpoint


@dataclass(frozen=True)
class Conversion(ArgumentGroup):
    """What is converted, and how."""

    title = "Convert"
    target: str = option("-o", "--output", required=True, metavar="TARGET", help="The checkpoint to write.")
    map_file: str | None = option(
        "--map",
        metavar="FILE",
        help="TOML file with the mapping that names alone don't determine; for both directions.",
    )
    to: str | None = option(
        "--to",
        type=click.Choice(["flax", "torch"]),
        help="Convert torch's checkpoint to variables of Flax, in a .safetensors file; or such a file back to torch.",
    )
    check: bool = option(
        "--check",
        is_flag=True,
        help="Read TARGET again, and judge it by its values, as parity checkpoint SOURCE TARGET does.",
    )


@dataclass(frozen=True)
class Reports(ArgumentGroup):
    """What is printed."""

    title = REPORTS
    verbose: bool = option("-v", "--verbose", is_flag=True, help="Show every parameter, and tracebacks.")


@command("weights")
@click.argument("source")
def weights(source: str, conversion: Conversion, reports: Reports) -> None:
    """Convert a checkpoint by a map, or to Cells or Flax and back.

    Also: parity checkpoint convert. SOURCE and TARGET are a torch state dict (.pt, .pth, .bin, .safetensors) and a
    checkpoint of Cells (.ckpt). No network is needed: names and shapes determine most of the mapping (a batch
    normalization's weight becomes gamma); for the rest, an error proposes lines for FILE, in which torch's names are on
    the left:

    \b
      "encoder.*.norm.weight" = "encoder.*.norm.gamma"     another name
      "backbone." = "encoder."                             another prefix
      "fc.weight" = { transpose = true }                   axes exchanged
      "conv.weight" = { to = "c.weight", expand_dims = 2 } a new axis of size 1
      "a.qkv" = { to = ["a.q", "a.k", "a.v"] }             split along axis 0
      "position_ids" = { drop = true }                     dropped
      "a.qkv" = { from = ["a.q", "a.k", "a.v"] }           joined

    FILE may also say what the tensors of a port are made of, as parity checkpoint --write-map writes it. Then SOURCE is
    any checkpoint that parity checkpoint reads, and TARGET one of torch; with .safetensors, it is written tensor by
    tensor.

    With --to flax, TARGET is a .safetensors file of Flax's variables by path (layers.0.kernel). --to torch converts
    back.

    The first line that matches a name applies. More in docs/weights.md.
    """
    require_outputs({"--output": conversion.target}, {"SOURCE": source, "--map": conversion.map_file})
    if conversion.map_file is None:
        require_checkpoint(source)
    from rich.console import Console

    from ..report.conversion import render
    from ..weights.checkpoints import convert_checkpoint
    from ..weights.port_checkpoint import PORT

    result = convert_checkpoint(source, conversion.target, conversion.map_file, conversion.to)
    render(result, source, conversion.target, Console(), reports.verbose)
    if conversion.check:
        from ..checking.checkpoints import check_checkpoint

        of_port = conversion.map_file if result.other == PORT else None
        report = check_checkpoint(source, conversion.target, map=of_port)
        print_report(report, reports.verbose)
        raise click.exceptions.Exit(exit_code(report))
