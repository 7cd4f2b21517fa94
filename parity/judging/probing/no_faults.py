"""Differences on probes that are noted and don't fail, since the given inputs don't ask for more.

They are sizes that a candidate doesn't take, though nothing declares that they may occur; gradients that overflow on
numbers whose exponential does, where outputs agree; gradients at exactly the values at which operations switch; and
what becomes of NaN and infinity if neither side handles them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ....converter.dtypes import is_real
from ....runtime.ir.program import Program
from ...results.comparison import Comparison
from ...sides.abilities import RunsModule
from ...sides.side import Side
from .operations import program_of
from .probe import Probe, with_tensors

AFTER_CALLS = ("second call", "third call")
"""The feedings of a comparison at the root after other calls."""
MOST = 80.0
"""Numbers whose exponential float32 holds, as those of their squares and products."""
HANDLING = frozenset({
    # ops of programs
    "isinf", "isnan",
    # torch's operators
    "fmax", "fmin", "nan_to_num", "nanmedian", "nansum",
})  # fmt: skip
"""Operations that treat NaN or infinity differently from numbers."""
EQUALITY = frozenset({"eq", "equal", "ne", "not_equal"})
"""Operations that tell NaN from numbers if both operands are the same tensor, and infinity if one of them is."""


def is_not_taken(probe: Probe, failures: Sequence[Comparison]) -> bool:
    """Whether a side fails on a probe only because it raises an exception, at sizes or labels that aren't given."""
    raised = [c.kind == "call" and c.reason.startswith("raises ") for c in failures]
    return (probe.resized or probe.optional) and bool(raised) and all(raised)


def is_of_calls_before(failures: Sequence[Comparison]) -> bool:
    """Whether a side fails only after other calls, which left something that doesn't fit."""
    return bool(failures) and all(c.feeding in AFTER_CALLS for c in failures)


def is_lost_gradient(c: Comparison) -> bool:
    """Whether a gradient isn't finite."""
    return c.kind.endswith("gradient") and c.candidate_value is not None and not np.isfinite(c.candidate_value)


def is_finite_gradient(c: Comparison) -> bool:
    """Whether what differs is a gradient, and a number on both sides."""
    return c.kind.endswith("gradient") and c.candidate_value is not None and not is_lost_gradient(c)


def within_range(probe: Probe) -> Probe:
    """Return the probe with all numbers limited to `MOST`: there, no exponential overflows in float32."""
    name = f"{probe.name}, limited to {MOST:g}"
    if probe.inside is not None:
        change = probe.inside
        return replace(probe, name=name, inside=lambda x: _limited(change(x)))
    if probe.arguments is None:
        return probe
    return replace(probe, name=name, arguments=with_tensors(probe.arguments, lambda _, x: _limited(x)))


def _limited(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-MOST, MOST) if is_real(x) else x


def handles_not_finite(side: Side) -> bool:
    """Whether a side has operations that are about NaN or infinity; False if its operations can't be read."""
    if isinstance(side, RunsModule):
        return side.watch_operators(_Watching()).handles
    program = program_of(side)
    return program is not None and _handles(program)


def _handles(program: Program) -> bool:
    data = program.constant_data
    for node in program.nodes:
        if node.op in HANDLING:
            return True
        operands = [value for value in node.inputs if value is not None]
        if node.op in EQUALITY and (
            operands[0] is operands[-1] or any(np.isinf(data[v]).any() for v in operands if v in data)
        ):
            return True
        if any(isinstance(value, Program) and _handles(value) for value in node.attributes.values()):
            return True
    return False


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that looks for operators that are about NaN or infinity."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.handles = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = func.overloadpacket.__name__.removesuffix("_")
        self.handles |= op in HANDLING
        if op in EQUALITY and len(args) > 1:
            self.handles |= args[0] is args[1] or any(map(_is_infinite, pytree.tree_leaves(args[1:])))
        return func(*args, **(kwargs or {}))


def _is_infinite(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and value.is_floating_point() and bool(value.isinf().all())
    return isinstance(value, float) and bool(np.isinf(value))
