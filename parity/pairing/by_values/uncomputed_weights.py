"""Parameters that a port uses as they are, where the module computes weights from them: a gain of 1 + w without the 1.

Behind such a weight no value is the module's. With the computed weight in its place, the Cells are found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ....runtime.ir.program import Program
from ....runtime.programs.interpreter import execute
from ...sides.records import Array
from .affine_parts import AffineParts


def computed_weights(
    program: Program, module: Program, parameters_without_place: Collection[str], known: Mapping[str, str]
) -> dict[str, Array]:
    """Return by name of a file's parameter the weight that the module computes from its parameter of these numbers.

    Args:
        program: the file's program, without boundaries.
        module: the module's, without boundaries.
        parameters_without_place: names of the parameters of the module's Cells that have no place.
        known: by name of a parameter of the module, the name of the file's value with its numbers.

    Returns:
        The weights in float64, of the parameters' shapes; those that the module computes from several are left out.
    """
    parts = AffineParts(module)
    names = {parameter.value.name: name for name, parameter in program.parameters.items()}
    arrays: dict[str, Array] = {}
    for name in parameters_without_place:
        own = names.get(known.get(name, ""))
        value = module.parameters[name].value if name in module.parameters else None
        if own is None or value is None or not parts.is_for_weights(value):
            continue
        weights = [part for part in parts.using({value}) if part.source is None and part.result.shape == value.shape]
        if weights and weights[-1].stored.isdisjoint({p.value for p in module.parameters.values()} - {value}):
            (arrays[own],) = execute(weights[-1].program(module).astype("float64"), [])
    return arrays
