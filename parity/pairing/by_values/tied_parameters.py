"""Parameters that the module ties and the program has in copies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, ProgramParameter, Type, Value
from ...sides.records import Array
from ...sides.side import ParameterInfo


@dataclass(frozen=True)
class WithTies:
    """A program whose copies of a tied parameter are one.

    Attributes:
        program: the program.
        copies: by name of the module's parameter, the names of the program's parameters that it took the place of.
    """

    program: Program
    copies: Mapping[str, Sequence[str]]


def with_ties_of_the_module(program: Program, infos: Mapping[str, ParameterInfo], shared: Collection[str]) -> WithTies:
    """Return the program with one parameter where the module ties what the program has in copies.

    The gradient of a tied parameter is the sum of those of its copies. Equal numbers, all 1 or all 0, are no copies,
    and neither are those that the module has in several parameters, too.
    """
    parameters, nodes = dict(program.parameters), []
    copies: dict[str, list[str]] = {}
    for name in shared:
        data = infos[name].data
        if name in parameters or data.ndim != 2 or np.all(data == data.flat[:1]):
            continue
        if sum(same_numbers(info.data, data) or same_numbers(info.data, data.T) for info in infos.values()) > 1:
            continue
        equal = {
            other: same_numbers(p.data, data)
            for other, p in parameters.items()
            if other not in infos and (same_numbers(p.data, data) or same_numbers(p.data, data.T))
        }
        if len(equal) < 2:
            continue
        dtype = parameters[next(iter(equal))].value.dtype
        tied = Value(f"{name} tied", Type(dtype, data.shape))
        for other, is_upright in equal.items():
            copy = parameters.pop(other)
            source = tied
            if not copy.trainable:
                source = Value(f"{other} frozen", tied.type)
                nodes.append(Node("stop_gradient", (tied,), {}, (source,)))
            order = (0, 1) if is_upright else (1, 0)
            nodes.append(Node("transpose", (source,), {"permutation": order}, (copy.value,)))
        parameters[name] = ProgramParameter(tied, data.astype(dtype))
        copies[name] = list(equal)
    if not nodes:
        return WithTies(program, {})
    return WithTies(program.replace(parameters=parameters, nodes=(*nodes, *program.nodes)), copies)


def same_numbers(array: Array, other: Array) -> bool:
    """Whether two arrays have one shape and the same numbers, in the dtype of the second."""
    return array.shape == other.shape and np.array_equal(array.astype(other.dtype), other)
