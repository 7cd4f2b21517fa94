"""`Probe`: other arguments for both sides, with a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from ...sides.run import Arguments

Change = Callable[[torch.Tensor], torch.Tensor]
"""Returns other values for a tensor, in the same shape and dtype."""
OnProbes = Literal["all", "outputs", "gradients"]
"""What of a side is compared on probes."""


@dataclass(frozen=True)
class Probe:
    """Arguments derived from the given ones.

    Attributes:
        name: what is different about them, to follow "with": `x times 100`.
        arguments: positional and keyword arguments of the reference; None for the given ones.
        before: arguments of calls that are made before, with the state that they leave.
        choice: of the probes with the same choice, only the first that the reference runs on is judged.
        after: the choice without which it isn't judged.
        inside: for values inside the network instead of arguments, what returns others for a tensor.
        beside: for values inside at which operations switch, what returns values beside these.
        resized: they have other shapes.
        not_finite: they hold NaN or infinity, and so may the outputs.
        ties: they hold equal values, so that positions of a maximum, say, depend on rounding.
        exact: they hold numbers that operations compare others with, so that any rounding error decides.
        other_mode: both sides run in train mode where they ran in eval mode, and the other way round.
        working: judged in the working dtype, whose range is smaller than that of float64; only what is off by a large
            share of the numbers fails.
        cotangents: for other cotangents instead of arguments, what returns others for one.
        switched: other arguments are given or left out, so that the network may return something else.
        tied: they hold equal values, and the gradients alone are compared, which are defined.
        positions: with `ties`, whether positions are compared, which are defined.
        optional: a side that raises an exception on them doesn't fail, since nothing says that they may occur.
        finite: with `tied`, gradients are compared by whether they are finite alone.
    """

    name: str
    arguments: Arguments | None = None
    before: tuple[Arguments, ...] = ()
    choice: str = ""
    after: str = ""
    inside: Change | None = None
    beside: Change | None = None
    resized: bool = False
    not_finite: bool = False
    ties: bool = False
    exact: bool = False
    other_mode: bool = False
    working: bool = False
    cotangents: Change | None = None
    switched: bool = False
    tied: bool = False
    positions: bool = False
    optional: bool = False
    finite: bool = False

    def asks_the_same(self, probe: Probe) -> bool:
        """Whether the reference computes the same on another probe: that has the same arguments and changes."""
        return all(map(_is_same, vars(self).values(), vars(probe).values()))

    @property
    def needs_live(self) -> bool:
        """Whether a side with a program of fixed sizes, captured in one mode, can't be run on it."""
        return self.resized or self.other_mode or self.switched

    @property
    def has_gradients(self) -> bool:
        """Whether gradients are compared too; not where they depend on the order of equal values, or may overflow."""
        return not (self.not_finite or self.ties or self.working)

    @property
    def has_outputs(self) -> bool:
        """Whether outputs are compared; other cotangents, and the order of equal values, change gradients alone."""
        return self.cotangents is None and not self.tied

    @property
    def is_of_values(self) -> bool:
        """Whether it is a single call on other, finite values, all different, in the given shapes and mode."""
        special = self.before or self.needs_live or self.not_finite or self.ties or self.working
        return self.arguments is not None and not special


def _is_same(first: object, second: object) -> bool:
    """Whether two values are the same, tensors bit by bit; of objects of other classes, only if they are one object."""
    first_leaves, first_spec = pytree.tree_flatten(first)
    second_leaves, second_spec = pytree.tree_flatten(second)
    return first_spec == second_spec and all(map(_is_same_leaf, first_leaves, second_leaves))


def _is_same_leaf(first: object, second: object) -> bool:
    if first is second or type(first) is not type(second):
        return first is second
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        same_kind = (first.dtype, first.shape, first.layout) == (second.dtype, second.shape, second.layout)
        return same_kind and first.layout == torch.strided and torch.equal(_bits(first), _bits(second))
    return (callable(first) or isinstance(first, (str, bool, int, float))) and bool(first == second)


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def with_tensors(arguments: Arguments, change: Callable[[int, torch.Tensor], torch.Tensor]) -> Arguments:
    """Return the arguments with `change(place, tensor)` for each tensor, by its place among all leaves."""
    leaves, spec = pytree.tree_flatten(arguments)
    changed = [change(place, leaf) if isinstance(leaf, torch.Tensor) else leaf for place, leaf in enumerate(leaves)]
    result: Any = pytree.tree_unflatten(changed, spec)
    args, kwargs = result
    return args, kwargs
