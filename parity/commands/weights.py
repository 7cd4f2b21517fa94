"""`parity weights`."""

from __future__ import annotations

import click

from .command import EXIT_CODES, Command


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("source")
@click.option("-o", "--output", "target", required=True, metavar="TARGET", help="The checkpoint to write.")
@click.option("--map", "map_file", metavar="FILE", help="What names alone don't tell, in TOML; for both directions.")
@click.option("-v", "--verbose", is_flag=True, help="Show what became of every parameter; tracebacks too.")
def weights(source: str, target: str, map_file: str | None, verbose: bool) -> None:
    """Make of a checkpoint of torch one that Cells load, or the other way.

    SOURCE and TARGET are a state dict of torch (.pt, .pth, .bin, .safetensors) and a checkpoint of Cells (.ckpt). No
    network is needed: names and shapes tell most (a batch normalization's weight becomes gamma); what they don't tell
    is asked for, with the lines to put into FILE. Torch's names are on the left there:

    \b
      "encoder.*.norm.weight" = "encoder.*.norm.gamma"     another name
      "backbone." = "encoder."                             another prefix
      "fc.weight" = { transpose = true }                   axes exchanged
      "conv.weight" = { to = "c.weight", expand_dims = 2 } a new axis of size 1
      "a.qkv" = { to = ["a.q", "a.k", "a.v"] }             divided along axis 0
      "position_ids" = { drop = true }                     left behind

    The first line that matches a name holds. More in docs/weights.md.
    """
    from rich.console import Console

    from ..report import conversion
    from ..weights.checkpoints import convert

    done = convert(source, target, map_file)
    conversion.render(done, source, target, Console(), verbose)
