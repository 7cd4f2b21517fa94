"""The parameters of a file that are a module's, whatever their names; the others are constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import FLOAT32, Constant, Node, ProgramParameter, Type, Value, is_floating
from ...results.cell_report import is_inside
from ...sides.imported import is_imported
from ...sides.records import OUTPUT, Array
from ...sides.side import ParameterInfo
from .fingerprints import fingerprint
from .parameter_rows import with_rows_of_the_module
from .tied_parameters import same_numbers, with_ties_of_the_module


@dataclass(frozen=True)
class ModuleParameters:
    """The parameters of a module.

    Attributes:
        infos: parameters by name.
        buffers: its buffers.
        shared: names of the parameters that several of its modules use.
    """

    infos: Mapping[str, ParameterInfo]
    buffers: Sequence[Array]
    shared: Collection[str]

    @cached_property
    def fingerprints(self) -> dict[str, bytes]:
        """The fingerprint of each parameter by name, computed once: large networks have gigabytes of them."""
        return {name: fingerprint(info.data) for name, info in self.infos.items()}


@dataclass(frozen=True)
class PairedParameters:
    """A file's program with the parameters of a module.

    Attributes:
        program: the program; parameters that are the module's have its names.
        paired: names of the module's parameters that it has.
        rounded: names of tensors that the module doesn't have, such as folded weights.
        computed: those of them that have as many elements as a parameter of the module that the file lacks.
        copies: by name of a tied parameter, the names of the file's copies of it, whose gradients are added up.
        corrected: by the file's names of wrong parameters, the module's numbers in the file's arrangement.
        wrong: the module's names of these.
    """

    program: Program
    paired: frozenset[str]
    rounded: frozenset[str]
    computed: frozenset[str]
    copies: Mapping[str, Sequence[str]]
    corrected: Mapping[str, Array] = field(default_factory=dict)
    wrong: frozenset[str] = frozenset()


def pair_parameters(program: Program, module: ModuleParameters, as_they_are: Collection[str] = ()) -> PairedParameters:
    """Pair a file's parameters with a module's by name or, if no name fits, by their Cells or by their numbers.

    In one Cell, a parameter that it alone uses has the partner with the same numbers, though others have them too: the
    scales of norms are all 1 at first. A parameter of the same name may have other numbers only where others were
    folded into it: in a Cell that isn't judged by itself, and in most of its elements. A parameter that the file uses
    outside its Cell, or has twice, has another gradient, and keeps the file's name. What is a buffer of the module, or
    a single number, is a constant.

    Args:
        program: the file's program, with the module's boundaries.
        module: the module's parameters.
        as_they_are: parameters of the file that aren't paired in another arrangement.
    """
    from_file = is_imported(program)  # a file doesn't say what is frozen; the program of a module does
    program = _with_constants_as_parameters(program, module)
    users, judged = users_of(program), {call.path for call in program.calls}

    def parts_of(path: str) -> list[str]:
        around = judged_holder(f"{path}.", judged - {path}) if path else ""
        own = (name for name in module.infos if name not in module.shared)
        return [name for name in own if judged_holder(name, judged) in (path, around)]

    ties = with_ties_of_the_module(program, module.infos, module.shared)
    program = with_rows_of_the_module(ties.program, module.infos, users, parts_of, as_they_are)
    arranged = program.parameters.keys() - ties.program.parameters.keys()
    users = users_of(program)
    partner: dict[str, str] = {}
    transposed: dict[str, str] = {}
    for name, parameter in program.parameters.items():
        info = module.infos.get(name)
        if info is None or info.data.shape != parameter.data.shape:
            continue
        if name.rpartition(".")[0] in judged or _is_mostly_equal(info.data, parameter.data):
            partner[name] = name
    free = {name: info for name, info in module.infos.items() if name not in partner}
    elements = {name: fingerprint(parameter.data) for name, parameter in program.parameters.items()}
    in_file, in_module = Counter(elements.values()), Counter(module.fingerprints.values())
    copied = {name for name, same in elements.items() if in_file[same] > in_module[same]}
    of_cells = _of_the_same_cells(program, free, users, judged, module, copied, as_they_are)
    for name, (other, is_transposed) in of_cells.items():
        (transposed if is_transposed else partner)[name] = other
        del free[other]
    for name, parameter in program.parameters.items():
        if name in partner or name in transposed:
            continue
        ways = [(partner, parameter.data)]
        ways += [(transposed, parameter.data.T)] if parameter.data.ndim == 2 and name not in as_they_are else []
        for partners, data in ways:
            same = [other for other, info in free.items() if same_numbers(info.data, data)]
            if len(same) == 1:
                partners[name] = same[0]
                del free[same[0]]
                break
    reordered = _reordered_sizes(ties.program)
    for partners in (partner, transposed):
        for name, other in list(partners.items()):
            parameter = program.parameters[name]
            sizes = {size for path in users.get(parameter.value, ()) for size in reordered.get(path, ())}
            if not sizes.isdisjoint(parameter.data.shape) and _are_all_equal(parameter.data):
                del partners[name]  # its numbers don't tell whether its elements are in another order, too
                continue
            if name in of_cells or name in arranged:
                continue
            copies = (in_file[elements[name]], in_module[elements[name]])
            if other not in module.shared and _are_all_equal(parameter.data):
                copies = (1, 1)  # those of a norm are, and its statistics have the same at first
            if not _is_alone(other, copies, users.get(parameter.value, set()), judged, module):
                del partners[name]
    named = partner | transposed
    buffers = {fingerprint(array) for array in module.buffers}
    known = buffers | set(module.fingerprints.values())
    trained = {name.rpartition(".")[0] for name, info in module.infos.items() if info.trainable}
    kept: dict[str, ProgramParameter] = {}
    constants = list(program.constants)
    turned: list[Node] = []
    for name, parameter in program.parameters.items():
        value, data = parameter.value, parameter.data
        if name in transposed:
            upright = Value(f"{value.name}_transposed", Type(value.dtype, value.shape[::-1]))
            turned.append(Node("transpose", (upright,), {"permutation": (1, 0)}, (value,)))
            value, data = upright, np.ascontiguousarray(data.T)
        if name in named:
            trainable = module.infos[named[name]].trainable if from_file else parameter.trainable
            kept[named[name]] = ProgramParameter(value, data, trainable)
        elif data.size == 1 or elements[name] in buffers:
            constants.append(Constant(value, data))
        else:
            inside = (path == user or is_inside(path, user) for path in trained for user in users.get(value, ()))
            kept[unlike(name, module.infos, "file")] = ProgramParameter(value, data, any(inside))
    result = program.replace(parameters=kept, constants=tuple(constants), nodes=(*turned, *program.nodes))
    tensors = [(item.value, item.data) for item in constants] + [(item.value, item.data) for item in kept.values()]
    rounded = frozenset(
        value.name
        for value, data in tensors
        if value.dtype == FLOAT32 and data.size > 1 and fingerprint(data) not in known
    )
    lacking = {info.data.size for name, info in module.infos.items() if name not in named.values()}
    computed = frozenset(value.name for value, data in tensors if value.name in rounded and data.size in lacking)
    return PairedParameters(result, frozenset(named.values()), rounded, computed, ties.copies)


def _of_the_same_cells(
    program: Program,
    free: Mapping[str, ParameterInfo],
    users: Mapping[Value, set[str]],
    judged: Collection[str],
    module: ModuleParameters,
    copied: Collection[str],
    as_they_are: Collection[str],
) -> dict[str, tuple[str, bool]]:
    """Return the parameters that one Cell alone uses with the only one of the module's there that has their numbers.

    The second value says whether the numbers are transposed. A parameter that the file has in several copies, one for
    each use, has a part of the gradient alone; but equal numbers, all 1 or all 0, are no copies.
    """
    of_cell: dict[str, list[str]] = {}
    for other in free:
        if other not in module.shared:
            of_cell.setdefault(judged_holder(other, judged), []).append(other)
    candidates: dict[str, list[tuple[str, bool]]] = {}
    for name, parameter in program.parameters.items():
        paths = users.get(parameter.value, set())
        is_copy = name in copied and not _are_all_equal(parameter.data)
        if name not in free and len(paths) == 1 and parameter.data.size and not is_copy:
            others = of_cell.get(next(iter(paths)), [])
            same = [(other, False) for other in others if same_numbers(free[other].data, parameter.data)]
            if not same and parameter.data.ndim == 2 and name not in as_they_are:
                same = [(other, True) for other in others if same_numbers(free[other].data, parameter.data.T)]
            candidates[name] = same
    claims = Counter(other for same in candidates.values() for other, _ in same)
    return {name: same[0] for name, same in candidates.items() if len(same) == 1 and claims[same[0][0]] == 1}


def judged_holder(name: str, judged: Collection[str]) -> str:
    """Return the path of the innermost Cell that holds a parameter and is judged."""
    holder = name.rpartition(".")[0]
    while holder not in judged:
        holder = holder.rpartition(".")[0]
    return holder


def _with_constants_as_parameters(program: Program, module: ModuleParameters) -> Program:
    """Return the program with constants that have the elements of a module's parameter as parameters.

    A file whose names say nothing has its weights among its constants.
    """
    elements = set(module.fingerprints.values())
    weights = [
        c
        for c in program.constants
        if is_floating(c.value.dtype) and c.data.size > 1 and fingerprint(c.data) in elements
    ]
    values = {c.value for c in weights}
    parameters = {c.value.name: ProgramParameter(c.value, c.data.astype(c.value.dtype)) for c in weights}
    return program.replace(
        parameters={**program.parameters, **parameters},
        constants=tuple(c for c in program.constants if c.value not in values),
    )


def unlike(name: str, others: Container[str], owner: str) -> str:
    """Return a name that is none of the others, with its owner behind it if it would be one."""
    while name in others:
        name += f" ({owner})"
    return name


def _is_alone(other: str, copies: tuple[int, int], users: set[str], judged: set[str], module: ModuleParameters) -> bool:
    """Whether the gradient of a parameter of the file must be that of the module's parameter `other`.

    `copies` are the numbers of tensors with the same elements in the file and in the module.
    """
    if copies[0] > max(1, copies[1]):
        return False  # the file has it several times, one for each use
    if other in module.shared:
        return copies[0] == 1
    holder = judged_holder(other, judged)
    return all(path == holder or is_inside(path, holder) for path in users)


def users_of(program: Program) -> dict[Value, set[str]]:
    """Return the paths of the Cells that use a parameter, or what is computed from it alone."""
    origins: dict[Value, set[Value]] = {value: set() for value in program.constant_data}
    origins |= {parameter.value: {parameter.value} for parameter in program.parameters.values()}
    users: dict[Value, set[str]] = {}
    for node in program.nodes:
        operands = [value for value in node.inputs if value is not None]
        used = {origin for value in operands for origin in origins.get(value, ())}
        is_result = node.op == "boundary" and node.attributes["kind"] == OUTPUT  # of a Cell that returns a weight
        if operands and not is_result and all(value in origins for value in operands):
            origins |= dict.fromkeys(node.outputs, used)
        elif is_result or node.op != "boundary":
            for origin in used:
                users.setdefault(origin, set()).add(program.calls[node.cell].path)
    return users


def _reordered_sizes(program: Program) -> dict[str, set[int]]:
    """Return by path of a Cell the sizes of the axes along which it takes elements in another order."""
    orders = {constant.value: constant.data for constant in program.constants}
    sizes: dict[str, set[int]] = {}
    for node in program.nodes:
        order = orders.get(node.inputs[1]) if node.op == "take" and node.inputs[1] is not None else None
        if order is not None and order.ndim == 1 and np.array_equal(np.sort(order), np.arange(len(order))):
            sizes.setdefault(program.calls[node.cell].path, set()).add(len(order))
    return sizes


def _are_all_equal(array: Array) -> bool:
    """Whether all numbers of an array are the same: others that have them, too, are no copies."""
    return array.size > 0 and bool(np.all(array == array.flat[0]))


def _is_mostly_equal(array: Array, other: Array) -> bool:
    """Whether two arrays have most of their elements in common: a weight that others were folded into doesn't."""
    return int(np.count_nonzero(array.astype(other.dtype) != other)) * 2 < max(1, int(np.count_nonzero(array)))
