"""The backward direction of recurrent layers: what a port that steps through the sequence itself gets wrong there.

It reads the sequence from the end, and its states are brought back into the order of the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....runtime.ir.types import Node
from ....runtime.ops import shaping
from ....runtime.ops.registry import get
from ....runtime.tracing import Builder
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Operands, Results, append
from .hypothesis import Hypothesis, with_other_nodes

LAYERS = ("lstm", "gru", "rnn")
MISTAKES = (
    (True, "aren't brought back into the order of the sequence", "reverse them along the sequence"),
    (False, "are those of the sequence read forwards, in reversed order", "read the sequence from the end"),
)
"""Whether the sequence is read from the end, what is wrong with the states then, and what to do."""


def directions(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield all layers that read from the end with their states in the other order, of either direction."""
    program = cell.program
    backward = [at for at, node in enumerate(program.nodes) if _reads_from_the_end(node)]
    for reverse, words, fix in MISTAKES if backward else ():
        op = program.nodes[backward[0]].op
        cause = Cause("structure", f"the states of the backward direction {words} in the candidate", fix, op=op)
        yield Hypothesis(cause, partial(with_other_nodes, program, backward, partial(_flipped, reverse)), len(backward))


def _reads_from_the_end(node: Node) -> bool:
    """Whether a node is a layer that reads whole sequences from the end; padding would stay in its place."""
    if node.op not in LAYERS or not node.attributes["reverse"]:
        return False
    operands = dict(zip(get(node.op).operand_names(len(node.inputs)), node.inputs, strict=True))
    return operands.get("lengths") is None


def _flipped(reverse: bool, builder: Builder, node: Node, operands: Operands) -> Results:
    states, *last = append(builder, node.op, operands, {**node.attributes, "reverse": reverse})
    return (shaping.flip(states, axes=(0,)), *last)
