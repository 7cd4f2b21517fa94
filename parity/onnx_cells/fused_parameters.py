"""Parameters that one side has as one tensor and the other in parts: queries, keys and values in one product.

The program of the candidate is rewritten to hold the module's own parameters: parts that are joined where it uses the
whole, or a whole of which it uses parts. Gradients then are those of the module's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, ProgramParameter, Type, Value
from ..sides.records import Array, ParameterInfo

PartsOf = Callable[[str], Sequence[str]]
"""The names of a module's parameters that the Cell at a path holds and that no other Cell uses."""


@dataclass(frozen=True)
class WithTies:
    """A program whose copies of a tied parameter are one.

    Attributes:
        program: the program.
        copies: by name of the module's parameter, the names of the program's parameters that it took the place of.
    """

    program: Program
    copies: Mapping[str, Sequence[str]]


@dataclass
class Rewritten:
    """A program whose parameters are being replaced.

    Attributes:
        parameters: the parameters by name.
        nodes: nodes that compute what the replaced ones held.
        layers: by path of a Cell, the modules whose parameters were joined, in order.
    """

    parameters: dict[str, ProgramParameter]
    nodes: list[Node] = field(default_factory=list)
    layers: dict[str, list[list[str]]] = field(default_factory=dict)


def with_parts_of_the_module(
    program: Program,
    infos: Mapping[str, ParameterInfo],
    users: Mapping[Value, Collection[str]],
    parts_of: PartsOf,
) -> Program:
    """Return the program with the parameters of a module where it holds several as one, or one in parts.

    Args:
        program: the program.
        infos: the module's parameters by name.
        users: paths of the Cells that use a parameter.
        parts_of: see `PartsOf`.
    """
    rewritten = Rewritten(dict(program.parameters))
    names = sorted(program.parameters, key=lambda name: -program.parameters[name].data.ndim)  # weights before biases
    for name in names:
        parameter, paths = program.parameters[name], users.get(program.parameters[name].value, ())
        if name not in infos and len(paths) == 1 and parameter.data.ndim in (1, 2):
            (path,) = paths
            free = {other: infos[other].data for other in parts_of(path) if other not in rewritten.parameters}
            _replace_by_parts(rewritten, name, free, path)
    for path in {path for paths in users.values() if len(paths) == 1 for path in paths}:
        for whole in parts_of(path):
            if whole not in rewritten.parameters:
                _replace_by_whole(rewritten, whole, infos[whole], users, path)
    if not rewritten.nodes:
        return program
    return program.replace(parameters=rewritten.parameters, nodes=(*rewritten.nodes, *program.nodes))


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


def same_numbers(one: Array, other: Array) -> bool:
    """Whether two arrays have one shape and the same numbers, in the dtype of the second."""
    return one.shape == other.shape and np.array_equal(one.astype(other.dtype), other)


def _replace_by_parts(rewritten: Rewritten, name: str, free: Mapping[str, Array], path: str) -> None:
    """If a parameter is several of the module's, one after the other, hold these and join them."""
    parameter = rewritten.parameters[name]
    for data, is_transposed in _orientations(parameter.data):
        for axis in range(data.ndim):
            parts = _split(data, axis, free, rewritten.layers.get(path, []))
            if parts is None:
                continue
            values = [Value(f"{name} {part}", Type(parameter.value.dtype, free[part].shape)) for part in parts]
            joined = parameter.value
            if is_transposed:
                joined = Value(f"{name} upright", Type(parameter.value.dtype, data.shape))
            rewritten.nodes.append(Node("concat", tuple(values), {"axis": axis}, (joined,)))
            if is_transposed:
                rewritten.nodes.append(Node("transpose", (joined,), {"permutation": (1, 0)}, (parameter.value,)))
            del rewritten.parameters[name]
            rewritten.parameters |= {
                part: ProgramParameter(value, free[part].astype(value.dtype), parameter.trainable)
                for part, value in zip(parts, values, strict=True)
            }
            rewritten.layers.setdefault(path, []).append([part.rpartition(".")[0] for part in parts])
            return


def _split(data: Array, axis: int, free: Mapping[str, Array], known: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the parameters of which an array consists along an axis, two at least; None if there are none, or several.

    Equal parts, such as biases that are all 0, are told apart by the modules whose weights were joined (`known`).
    """
    for modules in known:
        parts = [
            next((n for n, part in free.items() if n.rpartition(".")[0] == module and part.ndim == data.ndim), "")
            for module in modules
        ]
        if all(parts) and _is_joined(data, axis, [free[part] for part in parts]):
            return parts
    found: list[str] = []
    start = 0
    while start < data.shape[axis]:
        fitting = [
            name
            for name, part in free.items()
            if name not in found and part.ndim == data.ndim and _is_at(data, axis, start, part)
        ]
        if len(fitting) != 1:
            return None
        found += fitting
        start += free[fitting[0]].shape[axis]
    return found if len(found) > 1 else None


def _replace_by_whole(
    rewritten: Rewritten, whole: str, info: ParameterInfo, users: Mapping[Value, Collection[str]], path: str
) -> None:
    """If parameters that a Cell uses are one of the module's, one after the other, hold that and take its parts."""
    here = {
        name: parameter
        for name, parameter in rewritten.parameters.items()
        if set(users.get(parameter.value, ())) == {path} and parameter.data.ndim == info.data.ndim
    }
    for data, is_transposed in _orientations(info.data):
        for axis in range(data.ndim):
            parts = _split(data, axis, {name: p.data for name, p in here.items()}, rewritten.layers.get(path, []))
            if parts is None:
                continue
            dtype = here[parts[0]].value.dtype
            value = upright = Value(f"{whole} whole", Type(dtype, info.data.shape))
            if is_transposed:
                upright = Value(f"{whole} upright", Type(dtype, data.shape))
                rewritten.nodes.append(Node("transpose", (value,), {"permutation": (1, 0)}, (upright,)))
            start = 0
            for part in parts:
                stop = start + here[part].data.shape[axis]
                bounds = {"starts": (start,), "stops": (stop,), "steps": (1,), "axes": (axis,)}
                source = upright
                if not here[part].trainable:
                    source = Value(f"{part} frozen", upright.type)
                    rewritten.nodes.append(Node("stop_gradient", (upright,), {}, (source,)))
                rewritten.nodes.append(Node("slice", (source,), bounds, (here[part].value,)))
                del rewritten.parameters[part]
                start = stop
            rewritten.parameters[whole] = ProgramParameter(value, info.data.astype(dtype))
            rewritten.layers.setdefault(path, []).append([part.rpartition(".")[0] for part in parts])
            return


def _orientations(data: Array) -> Iterator[tuple[Array, bool]]:
    yield data, False
    if data.ndim == 2:
        yield data.T, True


def _is_at(data: Array, axis: int, start: int, part: Array) -> bool:
    stop = start + part.shape[axis]
    if stop > data.shape[axis] or not part.size:
        return False
    piece = data[start:stop] if axis == 0 else data[:, start:stop]
    return same_numbers(piece, part)


def _is_joined(data: Array, axis: int, parts: Sequence[Array]) -> bool:
    if any(part.ndim != data.ndim for part in parts):
        return False
    sizes = [part.shape[axis] for part in parts]
    if sum(sizes) != data.shape[axis]:
        return False
    starts = np.cumsum([0, *sizes[:-1]])
    return all(_is_at(data, axis, int(start), part) for start, part in zip(starts, parts, strict=True))
