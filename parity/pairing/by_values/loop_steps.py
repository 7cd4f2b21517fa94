"""Tensors of which a file computes one place along an axis in each turn of a loop that was written out.

A recurrent layer returns its states of all steps, stacked; a port that steps through the sequence has them one by one.
Behind a fault no state agrees, but the turns of the loop are alike: the same operators follow each other, at equal
distances, and each state depends on the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ....runtime.ir.types import Value
from .file_values import FileValues

MOST_SERIES = 32
"""The most values of a turn for which those of the other turns are looked for."""


def values_of_turns(file: FileValues, shape: tuple[int, ...], count: int) -> Iterator[tuple[Value, ...]]:
    """Yield values of a shape, one of each turn of a loop, the last ones of a turn first.

    Args:
        file: the values of the file's program.
        shape: the shape.
        count: the number of turns, at least 2.
    """
    nodes = file.flat.program.nodes
    ops = [node.op for node in nodes]
    of_op: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        if len(node.outputs) == 1 and node.outputs[0].shape == shape:
            of_op.setdefault(node.op, []).append(at)
    series_count = 0
    for last in sorted((at for places in of_op.values() for at in places), reverse=True):
        for before in reversed([at for at in of_op[ops[last]] if at < last]):
            period = last - before
            places = range(last - (count - 1) * period, last + 1, period)
            if places[0] < 0:
                break
            turns = [ops[at - period + 1 : at + 1] for at in places[1:]]
            if not set(places) <= set(of_op[ops[last]]) or any(turn != turns[0] for turn in turns):
                continue
            values = tuple(nodes[at].outputs[0] for at in places)
            if all(later in file.flat.after(earlier) for earlier, later in pairwise(values)):
                yield values
                series_count += 1
                break
        if series_count == MOST_SERIES:
            return
