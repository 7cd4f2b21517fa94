"""Biases that are added after a factor in place of before it, as where a factor was merged into a weight alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops import elementwise, shaping
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import Results, append
from .hypothesis import Hypothesis, Lookup, places, with_lookup

MOVING = ("reshape", "transpose", "slice")
MERGING = ("mul", "div")


@dataclass(frozen=True)
class Biased:
    """A product with a bias that a factor is applied to.

    Attributes:
        value: the product with its bias.
        bias: the bias.
        axis: the axis of the product along which it lies.
        moves: the nodes between the product and the factor, in order, which only move elements.
    """

    value: Value
    bias: Value
    axis: int
    moves: tuple[Node, ...]


def unscaled(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each factor of a product with a bias, applied to the product before the bias is added."""
    for node, positions in places(cell.program):
        if node.op in MERGING and (biased := _biased(cell.program, node)) is not None:
            done = "multiplied" if node.op == "mul" else "divided"
            cause = Cause(
                "structure",
                f"the bias of a product, {name_of_value(cell, biased.bias)}, isn't {done} by the factor of that "
                "product in the candidate, but added after it",
                "apply the factor to the bias, too",
            )
            yield Hypothesis(cause, partial(_with_biases_after, cell.program, positions), len(positions))


def _biased(program: Program, node: Node) -> Biased | None:
    """Return the product with a bias that a node applies a factor to."""
    for operand in node.inputs if node.op == "mul" else node.inputs[:1]:
        value, moves = operand, list[Node]()
        while value is not None and (producer := program.producers.get(value)) is not None and producer.op in MOVING:
            moves.insert(0, producer)
            value = producer.inputs[0]
        product = None if value is None else program.producers.get(value)
        if value is None or product is None or product.op not in ("linear", "conv") or len(product.inputs) < 3:
            continue
        bias = product.inputs[2]
        if bias is not None and len(bias.shape) == 1:
            return Biased(value, bias, 1 if product.op == "conv" else len(value.shape) - 1, tuple(moves))
    return None


def _with_biases_after(program: Program, positions: Collection[int]) -> Program:
    def other(position: int, node: Node, lookup: Lookup) -> Results | None:
        biased = _biased(program, node) if position in positions else None
        return None if biased is None else (_applied(node, biased, lookup),)

    return with_lookup(program, other)


def _applied(node: Node, biased: Biased, lookup: Lookup) -> SymbolicTensor:
    """Return a factor applied to a product without its bias, and the bias added to that."""
    sizes = [1] * len(biased.value.shape)
    (sizes[biased.axis],) = biased.bias.type.sizes or (-1,)
    plain: Any = lookup(biased.value) - shaping.reshape(lookup(biased.bias), shape=tuple(sizes))
    for move in biased.moves:
        (plain,) = append(plain.builder, move.op, [plain], move.attributes)
    whole_value = biased.moves[-1].outputs[0] if biased.moves else biased.value
    whole: Any = lookup(whole_value)
    operands = [plain if value is whole_value else lookup(value) for value in node.inputs if value is not None]
    (scaled,) = append(plain.builder, node.op, operands, node.attributes)
    result: SymbolicTensor = elementwise.add(scaled, whole - plain)
    return result
