"""Other sizes at which to compare a network with dynamic dimensions: a constant frozen at capture shows there.

One set of sizes has 1 wherever that is allowed: what broadcasts, or is squeezed, by mistake shows. In another each
dimension has an odd size of its own: what was divided by two, or taken from another dimension, shows. That size is none
of the integers in the program. Where it isn't larger than all of them, sizes that are come besides, as far as that is
affordable: what is cut off at a size shows only beyond it.
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
"""Elements of a constant that may be sizes; a larger one is a table."""
MAX_FACTOR = 16
"""How many times as much as the example a comparison at other sizes may cost, unless it costs next to nothing."""
NEXT_TO_NOTHING = 10**6
"""Products of a size and a parameter."""
MAX_STEPS = 64
"""How far above a size others are tried, where a spec assumes something of it."""
MAX_SIZE = 256
"""Numbers beyond which no size is tried: sums of so many terms are rounded otherwise on each side."""


def other_sizes(
    program: Program, tensors: Sequence[Any], dynamic_shapes: Any, candidates: Sequence[Program] = ()
) -> list[Sizes]:
    """Sizes of the program's symbols to compare at, besides those that `tensors`, the example inputs, have.

    `candidates` are programs that it is compared with: what is frozen in one of them must show, too.
    """
    names = sorted(symbols_in(*(value.shape for value in program.inputs)))
    if not names:
        return []
    example = _sizes(program, tensors)
    limits = _limits(dynamic_shapes)
    ones = {name: limits.get(name, (1, None))[0] for name in names}
    numbers = set().union(*map(numbers_in, (program, *candidates)))
    odd: Sizes = {}
    for name in names:
        lowest, highest = limits.get(name, (1, None))
        taken = {example[name], *odd.values()}
        larger = range((example[name] + 1) | 1, example[name] + 2 * (len(names) + len(numbers)) + 4, 2)
        possible = itertools.chain(larger, range(1, example[name], 2))
        fits = [n for n in possible if n >= lowest and (highest is None or n <= highest) and n not in taken]
        odd[name] = next((size for size in fits if size not in numbers), fits[0] if fits else example[name])
    found = [ones, odd, *_beyond(program, numbers, example, ones, odd, limits)]
    if is_spec(dynamic_shapes):
        found = [
            sizes for tried in found if (sizes := _assumed(tried, limits, spec_predicate(dynamic_shapes))) is not None
        ]
    return [sizes for place, sizes in enumerate(found) if sizes != example and sizes not in found[:place]]


def _assumed(
    sizes: Sizes, limits: Mapping[str, tuple[int, int | None]], agrees: Callable[[Sizes], bool]
) -> Sizes | None:
    """These sizes, or the next above for which what a `ShapesSpec` assumes holds; None if there are none near."""
    for step in range(MAX_STEPS):
        tried = {name: size + step for name, size in sizes.items()}
        within = all(most is None or tried[name] <= most for name, (_, most) in limits.items() if name in tried)
        if within and agrees(tried):
            return tried
    return None


def _beyond(
    program: Program,
    numbers: set[int],
    example: Sizes,
    ones: Sizes,
    odd: Sizes,
    limits: Mapping[str, tuple[int, int | None]],
) -> list[Sizes]:
    """Sizes beyond the numbers in the program: of all dimensions together if that is affordable, else of each alone."""
    parameters = max(1, sum(p.data.size for p in program.parameters.values()))
    most = max(MAX_FACTOR * math.prod(example.values()) * parameters, NEXT_TO_NOTHING)

    def is_affordable(sizes: Sizes) -> bool:
        return math.prod(sizes.values()) * parameters <= most

    large: Sizes = {}
    for name in odd:
        highest = limits.get(name, (1, None))[1]
        tried = max(odd[name], example[name])
        steps = (_next_odd(number, numbers) for number in sorted(numbers, reverse=True) if tried <= number <= MAX_SIZE)
        fits = (n for n in steps if (highest is None or n <= highest) and is_affordable(ones | {name: n}))
        size = next(fits, None)
        if size is not None:
            large[name] = size
    together = odd | _distinct(large, numbers)
    if is_affordable(together):
        return [together]
    return [ones | {name: size} for name, size in large.items()]


def _next_odd(number: int, numbers: set[int]) -> int:
    """An odd size well above a number, none of the others."""
    start = (number + max(2, number // 4)) | 1
    return next(size for size in itertools.count(start, 2) if size not in numbers)


def _distinct(sizes: Sizes, numbers: set[int]) -> Sizes:
    """The sizes, each its own."""
    found: Sizes = {}
    for name, size in sizes.items():
        while size in found.values() or size in numbers:
            size += 2
        found[name] = size
    return found


def numbers_in(program: Program) -> set[int]:
    """The integers above 1 that stand in a program: in attributes of its nodes, in small constants, in dimensions."""
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
    """For each input, the axes whose sizes are open, with what they are called."""
    return [
        {axis: str(dim) for axis, dim in enumerate(value.shape) if not isinstance(dim, int)} for value in program.inputs
    ]


def _sizes(program: Program, tensors: Sequence[Any]) -> Sizes:
    """What the symbols are for these inputs."""
    found: Sizes = {}
    for value, tensor in zip(program.inputs, tensors, strict=True):
        for dim, size in zip(value.shape, tensor.shape, strict=True):
            if isinstance(dim, SymbolicDim) and (solved := dim.solve(size)):
                found.setdefault(*solved)
    return found


def _limits(dynamic_shapes: Any) -> dict[str, tuple[int, int | None]]:
    """The smallest and the largest size that each named dimension may have, as far as the user said."""
    if is_spec(dynamic_shapes):
        return variables(dynamic_shapes)
    dims = [leaf for leaf in pytree.tree_leaves(dynamic_shapes) if isinstance(leaf, torch.export.Dim)]
    found: dict[str, tuple[int, int | None]] = {}
    for dim in (getattr(dim, "root", dim) for dim in dims):  # `2 * Dim("n")` has the root `n`
        highest = dim.max if isinstance(dim.max, int) else None
        found[dim.__name__] = max(1, dim.min), highest
    return found


def resized(program: Program, args: Any, kwargs: Mapping[str, Any], sizes: Sizes) -> tuple[Any, Any]:
    """The example inputs with those sizes: cut off, or repeated from the start."""
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    values = iter(program.inputs)
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            for axis, dim in enumerate(next(values).shape):
                size = evaluate(dim, sizes)
                if size != leaf.shape[axis]:
                    leaf = leaf.index_select(axis, torch.arange(size) % leaf.shape[axis])
            leaves[place] = leaf
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return args, kwargs


def described(sizes: Sizes) -> str:
    """`batch=1, length=7`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
