"""The command `parity`."""

from __future__ import annotations

import click

from .commands.checkpoint import checkpoint
from .commands.command import Group
from .commands.compare import compare
from .commands.export import export
from .commands.generate import generate
from .commands.init import init
from .commands.inspect import inspect
from .commands.judge import judge
from .commands.lock import check_lock, lock
from .commands.record import record
from .commands.run import run
from .commands.sweep import sweep
from .commands.upgrade import upgrade
from .commands.weights import weights

COMMANDS = {
    "Compare networks": (run, compare, generate, sweep, init),
    "Convert": (export, inspect, weights, checkpoint),
    "Compare with what ran elsewhere": (record, judge),
    "Compare with an earlier release of a library": (lock, check_lock, upgrade),
}


ALIASES = {"checkpoint convert": "weights"}


@click.group(cls=Group, sections=COMMANDS, aliases=ALIASES, options_metavar="", subcommand_metavar="COMMAND ...")
@click.version_option(package_name="cellbridge", prog_name="parity")
def main() -> None:
    """Judge, Cell by Cell, whether a PyTorch model survives conversion: its outputs and its gradients.

    \b
    To begin with:
      parity run model.py                    compare it with its conversions
      parity compare model.py port.py        compare two networks
      parity export model.py -o model.onnx   convert it if parity holds
      parity COMMAND -h                      the options of a command
    """
