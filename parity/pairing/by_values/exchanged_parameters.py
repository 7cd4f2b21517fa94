"""Parameters with the numbers of others of the module: a wrong Cell that is right once the two are exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Value
from ...causes.cell_program import Network
from ...sides.records import Array, Records
from .parameters import ModuleParameters, PairedParameters
from .right_cells import is_right

MOST_TRIALS = 30
"""The most exchanges that are tried in a Cell."""


def with_exchanged_parameters(
    paired: PairedParameters, names: Mapping[Value, str], network: Network, wrong: Collection[str], truth: Records,
    module: ModuleParameters,
) -> PairedParameters:  # fmt: skip
    """Return parameters of which two that have each other's numbers have the module's names for what they do.

    Args:
        paired: the parameters, as numbers pair them.
        names: the file's names of its parameters.
        network: the file's program with these, in float64.
        wrong: paths of the wrong Cells.
        truth: the records of the module in float64.
        module: the module's parameters.
    """
    partner: dict[str, str] = {}
    for number, call in enumerate(paired.program.calls):
        if call.path in wrong:
            partner |= _exchanged(paired, names, network, number, truth, partner)
    if not partner:
        return paired
    old = paired.program.parameters
    parameters = {name: old[partner.get(name, name)] for name in old}
    corrected = {names[parameters[name].value]: module.infos[name].data for name in partner}
    return replace(
        paired,
        program=paired.program.replace(parameters=parameters),
        corrected={**paired.corrected, **corrected},
        wrong=paired.wrong | partner.keys(),
    )


def _exchanged(
    paired: PairedParameters, names: Mapping[Value, str], network: Network, number: int, truth: Records,
    taken: Collection[str],
) -> dict[str, str]:  # fmt: skip
    """Return the two parameters of a call with which it is right in each other's place; empty if there are none."""
    try:
        cell = network.cut(number)
    except CellbridgeError:  # it can't be run alone
        return {}
    own: dict[str, Array] = {}
    for name, parameter in cell.program.parameters.items():
        is_of_the_file = name in paired.paired and paired.program.parameters[name].value in names
        if is_of_the_file and name not in taken:
            own[name] = parameter.data
    if len(own) < 2 or is_right(cell, {}, truth):
        return {}
    pairs = itertools.combinations(own.items(), 2)
    alike = ((a, b) for a, b in pairs if a[1].shape == b[1].shape and not np.array_equal(a[1], b[1]))
    for (first_name, first), (second_name, second) in itertools.islice(alike, MOST_TRIALS):
        if is_right(cell, {first_name: second, second_name: first}, truth):
            return {first_name: second_name, second_name: first_name}
    return {}
