"""Other sizes at which to compare a network with dynamic dimensions: a constant frozen at capture shows there.

One set of sizes has 1 wherever that is allowed: what broadcasts, or is squeezed, by mistake shows. In the other each
dimension has an odd size of its own: what was divided by two, or taken from another dimension, shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..runtime.ir.dims import SymbolicDim, evaluate, symbols_in
from ..runtime.ir.program import Program

Sizes = dict[str, int]


def other_sizes(program: Program, tensors: Sequence[Any], dynamic_shapes: Any) -> list[Sizes]:
    """Sizes of the program's symbols to compare at, besides those that `tensors`, the example inputs, have."""
    names = sorted(symbols_in(*(value.shape for value in program.inputs)))
    if not names:
        return []
    example = _sizes(program, tensors)
    limits = _limits(dynamic_shapes)
    ones = {name: limits.get(name, (1, None))[0] for name in names}
    odd: Sizes = {}
    for name in names:
        lowest, highest = limits.get(name, (1, None))
        taken = {example[name], *odd.values()}
        larger = range((example[name] + 1) | 1, example[name] + 2 * len(names) + 4, 2)
        candidates = itertools.chain(larger, range(1, example[name], 2))
        fits = (size for size in candidates if size >= lowest and (highest is None or size <= highest))
        odd[name] = next((size for size in fits if size not in taken), example[name])
    return [sizes for sizes in (ones, odd) if sizes != example]


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
