"""The command `parity`."""

from __future__ import annotations

import click

from .commands.command import EXIT_CODES, Group
from .commands.compare import compare
from .commands.export import export
from .commands.generate import generate
from .commands.inspect import inspect
from .commands.judge import judge
from .commands.lock import check_lock, lock
from .commands.record import record
from .commands.run import run
from .commands.sweep import sweep
from .commands.upgrade import upgrade
from .commands.weights import weights


@click.group(cls=Group, epilog=EXIT_CODES)
@click.version_option(package_name="cellbridge", prog_name="parity")
def main() -> None:
    """Judge, module by module, whether a PyTorch model survives conversion: its outputs and its gradients."""


for command in (run, compare, record, judge, lock, check_lock, upgrade, generate, export, inspect, weights, sweep):
    main.add_command(command)
