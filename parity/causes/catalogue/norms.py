"""Norms of another kind: without the mean or with it, by another deviation, with statistics of the batch or others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, is_floating
from ....runtime.ops import elementwise, normalization, reduction
from ....runtime.ops.batch_normalization import batch_norm_train
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Operands, Results, append, keep, rebuild
from .hypothesis import Hypothesis, places, with_changed_value, with_other_nodes


def kinds(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each norm of the other kind, and the mean subtracted from what enters the Cell."""
    program = cell.program
    for node, positions in places(program):
        if node.op == "layer_norm":
            summary = "the mean isn't subtracted in the candidate, as in an RMSNorm"
            for biased, words in ((True, summary), (False, f"{summary}, and no bias added")):
                make = partial(with_other_nodes, program, positions, partial(_without_mean, biased))
                yield Hypothesis(Cause("structure", words, op=node.op), make, len(positions))
            for unbiased, outside in ((True, False), (False, True), (True, True)):
                make = partial(with_other_nodes, program, positions, partial(_by_deviation, unbiased, outside))
                yield Hypothesis(_other_deviation(unbiased, outside), make, len(positions))
        if node.op == "batch_norm":
            summary = "the norm has the statistics of the batch in the candidate (training), not the moving ones (eval)"
            cause = Cause("state", summary, "call eval() on it", op=node.op)
            yield Hypothesis(cause, partial(with_other_nodes, program, positions, _of_batch), len(positions))
        if node.op == "batch_norm_train":
            summary = "the norm has the moving statistics in the candidate (eval), not those of the batch (training)"
            make = partial(_with_moving_statistics, program, positions)
            yield Hypothesis(Cause("state", summary, "call train() on it", op=node.op), make, len(positions))
    normalizes = any("norm" in node.op or node.op == "rsqrt" for node in program.nodes)
    for value in program.inputs if normalizes else ():
        if is_floating(value.dtype) and len(value.shape) > 1:
            cause = Cause("structure", "the mean is subtracted in the candidate, as in a LayerNorm", op="reduce_mean")
            yield Hypothesis(cause, partial(with_changed_value, program, value, _centered))


def _without_mean(biased: bool, _: Builder, node: Node, operands: Operands) -> Results:
    x, weight, bias = (*operands, None, None)[:3]
    result = normalization.rms_norm(x, weight, axes_count=node.attributes["axes_count"], eps=node.attributes["eps"])
    return (result if bias is None or not biased else elementwise.add(result, bias),)


def _other_deviation(unbiased: bool, outside: bool) -> Cause:
    """Return how a candidate's layer norm divides by another standard deviation."""
    parts = [
        *(["the variance is divided by n - 1 in the candidate (unbiased), by n in the reference"] if unbiased else []),
        *(
            ["eps is added to the standard deviation in the candidate, to the variance in the reference"]
            if outside
            else []
        ),
    ]
    fixes = [
        *(["take the biased variance (correction=0)"] if unbiased else []),
        *(["add eps before the root"] if outside else []),
    ]
    return Cause("structure", ", and ".join(parts), " and ".join(fixes), op="layer_norm")


def _by_deviation(unbiased: bool, outside: bool, _: Builder, node: Node, operands: Operands) -> Results:
    """Return a layer norm that divides by the root of the unbiased variance, or adds eps to the root."""
    x, weight, bias = (*operands, None, None)[:3]
    assert x is not None, "a norm has an operand"
    count, eps = node.attributes["axes_count"], node.attributes["eps"]
    sizes = x.value.type.sizes
    if sizes is None:
        raise ValueError("the number of elements isn't known")
    axes = tuple(range(len(sizes) - count, len(sizes)))
    number = prod(sizes[axis] for axis in axes)
    centered = x - reduction.reduce_mean(x, axes=axes, keepdims=True)
    variance = reduction.reduce_mean(centered * centered, axes=axes, keepdims=True)
    if unbiased:
        variance = variance * (number / max(1, number - 1))
    deviation = elementwise.sqrt(variance) + eps if outside else elementwise.sqrt(variance + eps)
    result = centered / deviation
    if weight is not None:
        result = result * weight
    return (result if bias is None else result + bias,)


def _of_batch(_: Builder, node: Node, operands: Operands) -> Results:
    x, _mean, _variance, weight, bias = (*operands, None, None)[:5]
    return (batch_norm_train(x, weight, bias, eps=node.attributes["eps"])[0],)


def _with_moving_statistics(program: Program, positions: tuple[int, ...]) -> Program:
    """Return the program with the old moving statistics, which aren't updated, in place of the batch's own."""
    buffers = {name.rpartition(".")[2]: buffer for name, buffer in program.buffers.items()}
    stored = [buffers["running_mean"].value, buffers["running_var"].value]
    still = {name: replace(buffer, update=None) for name, buffer in program.buffers.items()}

    def rule(builder: Builder, at: int, node: Node, operands: Operands) -> Results:
        if at not in positions:
            return keep(builder, at, node, operands)
        x, *affine = operands
        mean, variance = (SymbolicTensor(builder, value) for value in stored)
        (result,) = append(builder, "batch_norm", [x, mean, variance, *affine], {"eps": node.attributes["eps"]})
        return (result, mean, variance)

    return rebuild(program.replace(buffers=still), rule)


def _centered(x: SymbolicTensor) -> SymbolicTensor:
    """Return a tensor without its mean over the last axis."""
    result: SymbolicTensor = elementwise.sub(x, reduction.reduce_mean(x, axes=(-1,), keepdims=True))
    return result
