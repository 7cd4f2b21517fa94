"""Other sizes at which to compare a network with dynamic dimensions, to reveal constants frozen at capture.

One set of sizes has 1 wherever allowed, which reveals wrong broadcasts and squeezes. In another, each dimension has a
different odd size, which reveals divisions by two and confusion of dimensions. These sizes aren't integers that occur
in the program. If they aren't larger than all of those, larger sizes follow as far as affordable, since truncation at a
constant shows only beyond it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.shapes_spec import is_spec, spec_predicate, variables
from ...runtime.ir.dims import SymbolicDim, evaluate, symbols_in
from ...runtime.ir.program import Program

Sizes = dict[str, int]

MAX_NUMBERS = 64
"""Maximum number of elements of a constant that may hold sizes; a larger one is a table."""
MAX_FACTOR = 16
"""Maximum cost of a comparison at other sizes, relative to the example, unless it is below `ALWAYS_AFFORDABLE`."""
ALWAYS_AFFORDABLE = 10**6
"""Cost, in products of sizes and parameters, that is always allowed."""
MAX_STEPS = 64
"""Number of larger sizes tried if a spec has assumptions about sizes."""
MAX_SIZE = 256
"""Numbers up to which larger sizes are tried: longer sums are rounded differently on each side."""


def other_sizes(
    program: Program, tensors: Sequence[Any], dynamic_shapes: Any, candidates: Sequence[Program] = ()
) -> list[Sizes]:
    """Return sizes of the program's symbols to compare at, besides those of the example inputs `tensors`.

    `candidates` are programs that it is compared with, whose frozen constants must be revealed too.
    """
    names = sorted(symbols_in(*(value.shape for value in program.inputs)))
    if not names:
        return []
    example = _sizes(program, tensors)
    limits = _limits(dynamic_shapes)
    smallest_sizes = {name: limits.get(name, (1, None))[0] for name in names}
    numbers = set().union(*map(numbers_in, (program, *candidates)))
    odd: Sizes = {}
    for name in names:
        lowest, highest = limits.get(name, (1, None))
        previous_sizes = {example[name], *odd.values()}
        larger = range((example[name] + 1) | 1, example[name] + 2 * (len(names) + len(numbers)) + 4, 2)
        possible = itertools.chain(larger, range(1, example[name], 2))
        fits = [n for n in possible if n >= lowest and (highest is None or n <= highest) and n not in previous_sizes]
        odd[name] = next((size for size in fits if size not in numbers), fits[0] if fits else example[name])
    result = [smallest_sizes, odd, *_larger_sizes(program, numbers, example, smallest_sizes, odd, limits)]
    if is_spec(dynamic_shapes):
        result = [
            sizes
            for candidate in result
            if (sizes := _satisfying_spec(candidate, limits, spec_predicate(dynamic_shapes))) is not None
        ]
    return [sizes for axis, sizes in enumerate(result) if sizes != example and sizes not in result[:axis]]


def _satisfying_spec(
    sizes: Sizes, limits: Mapping[str, tuple[int, int | None]], agrees: Callable[[Sizes], bool]
) -> Sizes | None:
    """Return these sizes, or the next larger ones that satisfy a `ShapesSpec`; None if there are none nearby."""
    for step in range(MAX_STEPS):
        candidate = {name: size + step for name, size in sizes.items()}
        within = all(most is None or candidate[name] <= most for name, (_, most) in limits.items() if name in candidate)
        if within and agrees(candidate):
            return candidate
    return None


def _larger_sizes(
    program: Program,
    numbers: set[int],
    example: Sizes,
    smallest_sizes: Sizes,
    odd: Sizes,
    limits: Mapping[str, tuple[int, int | None]],
) -> list[Sizes]:
    """Return sizes larger than the numbers in the program, for all dimensions at once if affordable, else for each."""
    parameters = max(1, sum(p.data.size for p in program.parameters.values()))
    most = max(MAX_FACTOR * math.prod(example.values()) * parameters, ALWAYS_AFFORDABLE)

    def is_affordable(sizes: Sizes) -> bool:
        return math.prod(sizes.values()) * parameters <= most

    large: Sizes = {}
    for name in odd:
        highest = limits.get(name, (1, None))[1]
        smallest = max(odd[name], example[name])
        steps = (
            _next_odd(number, numbers) for number in sorted(numbers, reverse=True) if smallest <= number <= MAX_SIZE
        )
        fits = (n for n in steps if (highest is None or n <= highest) and is_affordable(smallest_sizes | {name: n}))
        size = next(fits, None)
        if size is not None:
            large[name] = size
    together = odd | _make_distinct(large, numbers)
    if is_affordable(together):
        return [together]
    return [smallest_sizes | {name: size} for name, size in large.items()]


def _next_odd(number: int, numbers: set[int]) -> int:
    """Return an odd size well above `number` that isn't one of `numbers`."""
    start = (number + max(2, number // 4)) | 1
    return next(size for size in itertools.count(start, 2) if size not in numbers)


def _make_distinct(sizes: Sizes, numbers: set[int]) -> Sizes:
    """Return the sizes, increased until all are different."""
    result: Sizes = {}
    for name, size in sizes.items():
        while size in result.values() or size in numbers:
            size += 2
        result[name] = size
    return result


def numbers_in(program: Program) -> set[int]:
    """Return the integers above 1 in a program: in attributes of its nodes, small constants and dimensions."""
    constants = (constant.data for constant in program.constants if constant.data.size <= MAX_NUMBERS)
    values = itertools.chain(_integers(node.attributes for node in program.nodes), *map(_elements, constants))
    return {abs(value) for value in values if abs(value) > 1}


def _elements(data: np.ndarray[Any, Any]) -> Iterator[int]:
    if data.dtype.kind in "iuf":
        yield from (int(number) for number in data.ravel() if np.isfinite(number) and number == np.round(number))


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    elif isinstance(value, float) and value.is_integer():
        yield int(value)
    elif isinstance(value, SymbolicDim):
        for monomial, coefficient in value.terms:
            yield coefficient
            yield from _integers(part for factor in monomial if not isinstance(factor, str) for part in factor[1:])
    elif isinstance(value, Mapping):
        yield from _integers(value.values())
    elif isinstance(value, Program):
        yield from numbers_in(value)
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for part in value:
            yield from _integers(part)


def open_axes(program: Program) -> list[dict[int, str]]:
    """Return the open axes of each input, with their names."""
    return [
        {axis: str(dim) for axis, dim in enumerate(value.shape) if not isinstance(dim, int)} for value in program.inputs
    ]


def _sizes(program: Program, tensors: Sequence[Any]) -> Sizes:
    """Return the values of the symbols for these inputs."""
    result: Sizes = {}
    for value, tensor in zip(program.inputs, tensors, strict=True):
        for dim, size in zip(value.shape, tensor.shape, strict=True):
            if isinstance(dim, SymbolicDim) and (solution := dim.solve(size)):
                result.setdefault(*solution)
    return result


def _limits(dynamic_shapes: Any) -> dict[str, tuple[int, int | None]]:
    """Return the user's limits of each named dimension, as (smallest, largest or None)."""
    if is_spec(dynamic_shapes):
        return variables(dynamic_shapes)
    dims = [leaf for leaf in pytree.tree_leaves(dynamic_shapes) if isinstance(leaf, torch.export.Dim)]
    limits: dict[str, tuple[int, int | None]] = {}
    for dim in (getattr(dim, "root", dim) for dim in dims):  # `2 * Dim("n")` has the root `n`
        highest = dim.max if isinstance(dim.max, int) else None
        limits[dim.__name__] = max(1, dim.min), highest
    return limits


def resize(program: Program, args: Any, kwargs: Mapping[str, Any], sizes: Sizes) -> tuple[Any, Any]:
    """Return the example inputs resized by truncating them, or repeating them from the start."""
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    values = iter(program.inputs)
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            for axis, dim in enumerate(next(values).shape):
                size = evaluate(dim, sizes)
                if size != leaf.shape[axis]:
                    leaf = leaf.index_select(axis, torch.arange(size) % leaf.shape[axis])
            leaves[position] = leaf
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return args, kwargs


def format_sizes(sizes: Sizes) -> str:
    """Format sizes as `batch=1, length=7`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
