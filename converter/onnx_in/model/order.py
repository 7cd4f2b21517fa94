"""The order of nodes: files that tools have changed may have nodes before those that compute what they take."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from onnx import GraphProto, NodeProto


def in_order(nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes such that each follows what it takes, else as they stand; as they stand where there is a circle."""
    made = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = [{made[name] for name in _taken(node) if name in made} - {i} for i, node in enumerate(nodes)]
    if all(j < i for i, before in enumerate(needs) for j in before):
        return nodes
    takers: list[list[int]] = [[] for _ in nodes]
    for i, before in enumerate(needs):
        for j in before:
            takers[j].append(i)
    left = [len(before) for before in needs]
    ready = [i for i, count in enumerate(left) if not count]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for j in takers[i]:
            left[j] -= 1
            if not left[j]:
                heapq.heappush(ready, j)
    return order if len(order) == len(nodes) else nodes


def _taken(node: NodeProto) -> Iterator[str]:
    """Names that a node uses, and those in its sub-graphs."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from _taken_in(graph)


def _taken_in(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from _taken(node)
    for output in graph.output:
        yield output.name
