"""Parts of a module's program that compute what a file does: with the file's weight, or with attributes of its nodes.

The file's program can then have the module's nodes, and its tensors, without being another function.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, ProgramParameter, Value
from ...causes.rebuilding import INVALID, Operands, Results, append, rebuild
from ...correspondence.distances import EXACT, distance
from .affine_parts import AffinePart
from .flat import without_idle_nodes
from .parameters import unlike
from .splicing import Pair

MOST_TRIALS = 20
"""The most combinations of attributes that are tried in a part."""


@dataclass(frozen=True)
class Written:
    """A pair of parts whose part of the module was changed to be the file's function.

    Attributes:
        pair: the pair.
        values: for each value that the module computes there, that of the changed part.
        parameters: parameters of the changed part that the module's program lacks.
    """

    pair: Pair
    values: Mapping[Value, Value]
    parameters: Mapping[str, ProgramParameter] = field(default_factory=dict)


def written_as_the_file(pair: Pair, file: Program, module: Program, weights: AbstractSet[Value]) -> Written | None:
    """Return a pair whose part of the module is the file's function; None if no known change makes it so.

    Args:
        pair: parts of both programs.
        file: the file's program.
        module: the module's program.
        weights: the file's weights among the values that it stores.
    """
    return _with_weight(pair, file, module, weights) or _with_attributes(pair, file, module)


def _with_weight(pair: Pair, file: Program, module: Program, weights: AbstractSet[Value]) -> Written | None:
    """Return a pair in which a weight of the file is in place of one that the module computes from its parameters."""
    of_file = {parameter.value for parameter in file.parameters.values()}
    for weight in pair.file.stored & weights & of_file:
        for value in _computed_weights(pair.module):
            if value.shape != weight.shape:
                continue
            name = unlike(value.name, module.parameters, "file")
            parameters = {name: ProgramParameter(value, file.constant_data[weight])}
            changed = module.replace(parameters={**module.parameters, **parameters})
            part = _with_stored(pair.module, value, changed)
            if distance(part.images(changed), pair.file.images(file)) <= EXACT:
                kept = {result: result for node in part.nodes for result in node.outputs}
                return Written(replace(pair, module=part), kept, parameters)
    return None


def _computed_weights(part: AffinePart) -> Iterator[Value]:
    """Yield what a part computes from stored values alone, the last first."""
    varying = {part.source}
    for node in part.nodes:
        if not varying.isdisjoint(node.inputs):
            varying.update(node.outputs)
    yield from (value for node in reversed(part.nodes) for value in node.outputs if value not in varying)


def _with_stored(part: AffinePart, value: Value, module: Program) -> AffinePart:
    """Return a part that has a value stored in place of computing it."""
    nodes = tuple(node for node in part.nodes if value not in node.outputs)
    lean = without_idle_nodes(module.replace(nodes=nodes, outputs=(part.result,), buffers={}))
    used = {operand for node in lean.nodes for operand in node.inputs if operand is not None}
    return AffinePart(part.source, part.result, lean.nodes, frozenset(used & module.constant_data.keys()))


def _with_attributes(pair: Pair, file: Program, module: Program) -> Written | None:
    """Return a pair in which the nodes of the module have the attributes of the file's of the same ops."""
    own = _single(pair.file.nodes)
    shared = own.keys() & _single(pair.module.nodes)
    positions = [at for at, node in enumerate(pair.module.nodes) if node.op in shared]
    plain, images = pair.module.program(module), pair.file.images(file)
    both = [(node, own[node.op]) for node in (pair.module.nodes[at] for at in positions)]
    ways = [_attributes(node, other, pair.file.nodes) for node, other in both]
    for chosen in itertools.islice(itertools.product(*ways), MOST_TRIALS):
        changed = _rebuilt(plain, dict(zip(positions, chosen, strict=True)))
        if changed is None:
            continue
        part = replace(pair.module, nodes=changed.nodes, result=changed.outputs[0])
        if part.result.type == pair.module.result.type and distance(part.images(module), images) <= EXACT:
            nodes = zip(pair.module.nodes, changed.nodes, strict=True)
            values = {old: new for n, m in nodes for old, new in zip(n.outputs, m.outputs, strict=True)}
            return Written(replace(pair, module=part), values)
    return None


def _single(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return the nodes with attributes whose ops no other node has, by these."""
    count = Counter(node.op for node in nodes)
    return {node.op: node for node in nodes if count[node.op] == 1 and node.attributes}


def _attributes(node: Node, other: Node, file: Sequence[Node]) -> list[Mapping[str, Any]]:
    """Return attributes of a file's node for a node of the module, which may pad by itself what the file pads before.

    The module's convolution may pad both sides and have one cut off afterwards. Then it is padded there as much as its
    result needs to have the shape that it has in the module.
    """
    sizes = [
        *node.outputs[0].shape[2:],
        *(dim for value in node.inputs[:2] if value is not None for dim in value.shape[2:]),
    ]
    if node.op != "conv" or not all(isinstance(size, int) for size in sizes):
        return [other.attributes, node.attributes]
    before, after = (_padded(other, file, side) for side in ("before", "after"))
    in_all = _padding_in_all(node, other.attributes)
    paddings = {
        tuple(zip(before, (total - size for total, size in zip(in_all, before, strict=True)), strict=True)): None,
        tuple(zip((total - size for total, size in zip(in_all, after, strict=True)), after, strict=True)): None,
        tuple(zip(before, after, strict=True)): None,
        node.attributes["padding"]: None,
    }
    return [{**other.attributes, "padding": padding} for padding in paddings if min(map(min, padding)) >= 0]


def _padded(conv: Node, file: Sequence[Node], side: str) -> tuple[int, ...]:
    """Return by how much a file pads what it convolves on one side of each axis, in all."""
    pad = next((node for node in file if conv.inputs[0] in node.outputs and node.op == "pad"), None)
    sizes = [sides[side != "before"] for sides in conv.attributes["padding"]]
    more = pad.attributes[side][2:] if pad is not None else [0] * len(sizes)
    return tuple(a + b for a, b in zip(sizes, more, strict=True))


def _padding_in_all(conv: Node, attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """Return by how much a convolution with other attributes pads each axis for a result of the same shape."""
    x, kernel, *_ = conv.inputs
    assert x is not None, "a convolution has an input"
    assert kernel is not None, "a convolution has a kernel"
    axes = zip(conv.outputs[0].shape[2:], x.shape[2:], kernel.shape[2:], strict=True)
    steps = zip(axes, attributes["stride"], attributes["dilation"], strict=True)
    return tuple(
        stride * (int(result) - 1) + dilation * (int(width) - 1) + 1 - int(size)
        for (result, size, width), stride, dilation in steps
    )


def _rebuilt(program: Program, attributes: Mapping[int, Mapping[str, Any]]) -> Program | None:
    """Return a program with other attributes of some nodes, by their positions; None if they don't fit."""

    def rule(builder: Any, position: int, node: Node, operands: Operands) -> Results:
        return append(builder, node.op, operands, attributes.get(position, node.attributes))

    try:
        changed = rebuild(program, rule)
    except INVALID:
        return None
    return changed if len(changed.nodes) == len(program.nodes) else None
