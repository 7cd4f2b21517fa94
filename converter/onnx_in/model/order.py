"""The topological order of nodes: tools that edit a file may put a node before the nodes that compute its inputs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from onnx import GraphProto, NodeProto


def topological_order(nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes in a stable topological order; unchanged if there is a cycle."""
    producers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = [{producers[name] for name in _used_names(node) if name in producers} - {i} for i, node in enumerate(nodes)]
    if all(j < i for i, before in enumerate(needs) for j in before):
        return nodes
    users: list[list[int]] = [[] for _ in nodes]
    for i, before in enumerate(needs):
        for j in before:
            users[j].append(i)
    pending = [len(before) for before in needs]
    ready = [i for i, count in enumerate(pending) if not count]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for j in users[i]:
            pending[j] -= 1
            if not pending[j]:
                heapq.heappush(ready, j)
    return order if len(order) == len(nodes) else nodes


def _used_names(node: NodeProto) -> Iterator[str]:
    """The names that a node and its sub-graphs use."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from _names_in_graph(graph)


def _names_in_graph(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from _used_names(node)
    for output in graph.output:
        yield output.name
