"""Faults in step-by-step code: the file of a decoder with something written differently, checked against itself."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils import _pytree as pytree

from cellbridge.parity.jobs.generation.check import check_generation

from .cases import SOUND, Case
from .generation_edits import EDITS
from .pairs import Pair
from .running import difference
from .source_edits import Edit, edited

SEED = 7
PADDING = 3


def cases() -> list[Case]:
    """Return one case for each fault."""
    return [_case(one, "generate") for one in EDITS if one.cells]


def sound_cases() -> list[Case]:
    """Return one case for each file that is written differently and right."""
    return [_case(one, SOUND) for one in EDITS if not one.cells]


def _case(one: Edit, kind: str) -> Case:
    cells = tuple("" if path == "." else path for path in one.cells.split())
    name = one.network if kind != SOUND else f"decoding {one.network}"
    return Case(f"{name}/{one.label}", name, kind, cells, one.label, (), (), functools.partial(_pair, one))


def _pair(one: Edit) -> Pair:
    file = edited(f"{__package__}.decoders", one.network, one.changes)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        module, inputs = file.build().eval(), file.inputs()
    check = functools.partial(check_generation, module, inputs, decode=file.decode, tokens=8)
    return Pair(module, module, (inputs,), options={"decode": file.decode, "difference": _difference}, command=check)


def _difference(pair: Pair) -> float:
    """The largest difference in float64 of decoding in three ways from one call; in outputs and the last state."""
    module, decode, (inputs,) = pair.reference, pair.options["decode"], pair.args
    is_text = not inputs.is_floating_point()
    module.double()
    with torch.no_grad():
        whole = torch.cat([inputs, inputs.flip(1)], 1) if is_text else inputs.double()
        truth, last = decode(module, whole, None)
        distances = [_in_pieces(decode, module, whole, sizes, truth, last) for sizes in ((1,), (6, 1), (2, 3))]
        if is_text:
            distances.append(_padded(decode, module, whole, truth))
    module.float()
    return max(distances)


def _in_pieces(decode: Any, module: Any, whole: Any, sizes: tuple[int, ...], truth: Any, last: Any) -> float:
    """The difference where the first pieces have these sizes, and the others that of the last."""
    state, outputs, start = None, [], 0
    for number in range(whole.shape[1]):
        size = sizes[min(number, len(sizes) - 1)]
        if start >= whole.shape[1]:
            break
        try:
            output, state = decode(module, whole[:, start : start + size], state)
        except RuntimeError:
            return float("inf")
        outputs.append(output)
        start += size
    states = zip(pytree.tree_leaves(last), pytree.tree_leaves(state), strict=True)
    return max(difference(a, b, 1e-6) for a, b in [(truth, torch.cat(outputs, 1)), *states])


def _padded(decode: Any, module: Any, whole: Any, truth: Any) -> float:
    """The difference where the first sequence is padded on the left."""
    padding = torch.zeros(len(whole), PADDING, dtype=whole.dtype)
    mask = torch.cat([padding, torch.ones_like(whole)], 1)
    tokens = torch.cat([padding, whole], 1)
    length = PADDING + 4
    try:
        first, state = decode(module, tokens[:, :length], None, mask[:, :length])
        second, _ = decode(module, tokens[:, length:], state, mask)
    except RuntimeError:
        return float("inf")
    return difference(truth, torch.cat([first, second], 1)[:, PADDING:], 1e-6)
