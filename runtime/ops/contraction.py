"""`einsum`, composed of transpositions, products and matrix products of two operands at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import ShapeError
from ..ir.dims import Dim, product
from . import elementwise, linear, reduction, shaping
from .diagonals import extract_diagonal


@dataclass(frozen=True)
class LabelledTensor:
    """A tensor and the label of each of its axes."""

    x: Any
    labels: tuple[str, ...]

    def sizes(self) -> dict[str, Dim]:
        """Size of the axis of each label."""
        return dict(zip(self.labels, self.x.shape, strict=True))

    def transpose_to(self, labels: tuple[str, ...]) -> Any:
        """Return the tensor with its axes in the order of `labels`."""
        order = tuple(self.labels.index(label) for label in labels)
        if order == tuple(range(len(order))):
            return self.x
        return shaping.transpose(self.x, permutation=order)


def einsum(equation: str, tensors: list[Any]) -> Any:
    """ATen `einsum`: the sum of products that `equation` describes, from left to right; `ShapeError` if invalid."""
    inputs, output = parse(equation, [x.ndim for x in tensors])
    terms = _drop_broadcast_axes([_diagonal(x, labels) for x, labels in zip(tensors, inputs, strict=True)])
    result, *rest = terms
    while rest:
        other, *rest = rest
        needed = set(output).union(*(term.labels for term in rest))
        result = _contract(
            _sum_out(result, needed.union(other.labels)), _sum_out(other, needed.union(result.labels)), needed
        )
    return _sum_out(result, set(output)).transpose_to(output)


def parse(equation: str, ranks: list[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the labels of the axes of each operand and of the result; axes in `...` are numbered from the back."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"einsum {equation!r} names {len(terms)} operands, given {len(ranks)}")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for term, count, rank in zip(terms, hidden, ranks, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ShapeError(f"einsum {equation!r} names the axes {term!r} of an operand of {rank} dimensions")
    inputs = [_labels(term, count) for term, count in zip(terms, hidden, strict=True)]
    widest = max((count for term, count in zip(terms, hidden, strict=True) if "..." in term), default=0)
    letters = [label for labels in inputs for label in labels if not label.isdigit()]
    if not arrow:
        return inputs, _labels("..." + "".join(sorted(x for x in letters if letters.count(x) == 1)), widest)
    output = _labels(right, widest)
    invalid = [label for label in output if output.count(label) > 1 or not (label.isdigit() or label in letters)]
    if invalid:
        raise ShapeError(f"einsum {equation!r}: the result names {invalid[0]!r} twice, or no operand has it")
    return inputs, output


def _labels(term: str, hidden: int) -> tuple[str, ...]:
    before, dots, after = term.partition("...")
    return (*before, *(str(i) for i in reversed(range(hidden if dots else 0))), *after)


def _diagonal(x: Any, labels: tuple[str, ...]) -> LabelledTensor:
    """Take the diagonal of axes with the same label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = extract_diagonal(x, first, second)
            labels = (*(other for axis, other in enumerate(labels) if axis not in (first, second)), label)
    return LabelledTensor(x, labels)


def _drop_broadcast_axes(terms: list[LabelledTensor]) -> list[LabelledTensor]:
    """Drop axes of size 1 if another operand has a larger size for that label."""
    long = {label for term in terms for label, size in term.sizes().items() if size != 1}
    result = []
    for term in terms:
        kept = {label: size for label, size in term.sizes().items() if size != 1 or label not in long}
        x = term.x if len(kept) == len(term.labels) else shaping.reshape(term.x, shape=tuple(kept.values()))
        result.append(LabelledTensor(x, tuple(kept)))
    return result


def _sum_out(term: LabelledTensor, needed: set[str]) -> LabelledTensor:
    """Sum the term over the labels that nothing else needs."""
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in needed)
    if not axes:
        return term
    return LabelledTensor(reduction.reduce_sum(term.x, axes=axes), tuple(x for x in term.labels if x in needed))


def _contract(a: LabelledTensor, b: LabelledTensor, needed: set[str]) -> LabelledTensor:
    """Return the product of two terms, summed over the labels that they share and nothing else needs."""
    shared = [label for label in a.labels if label in b.labels]
    batch = tuple(label for label in shared if label in needed)
    inner = tuple(label for label in shared if label not in needed)
    rows = tuple(label for label in a.labels if label not in shared)
    columns = tuple(label for label in b.labels if label not in shared)
    sizes = a.sizes() | b.sizes()

    def shape(*groups: tuple[str, ...]) -> tuple[Dim, ...]:
        return (*(sizes[label] for label in batch), *(product(sizes[label] for label in group) for group in groups))

    left = shaping.reshape(a.transpose_to((*batch, *rows, *inner)), shape=shape(rows, inner))
    right = shaping.reshape(b.transpose_to((*batch, *inner, *columns)), shape=shape(inner, columns))
    y = linear.matmul(left, right) if inner else elementwise.mul(left, right)
    labels = (*batch, *rows, *columns)
    return LabelledTensor(shaping.reshape(y, shape=tuple(sizes[label] for label in labels)), labels)
