"""Other integers: the largest index of a table, and negative and large ones, which other dtypes don't hold."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from .probe import Probe
from .values import Inputs, all_first, in_numpy

Tensor = torch.Tensor

IGNORED = -100
"""The label that losses leave out unless another is chosen."""
LARGE = {"2^24 + 1": 2**24 + 1, "-(2^31) - 1": -(2**31) - 1, "2^31": 2**31, "2^53 + 1": 2**53 + 1}
"""Integers that float32, int32 and float64 don't hold, by name."""


def index_probes(inputs: Inputs, vocabularies: Sequence[int], special: Sequence[int]) -> Iterator[Probe]:
    """Yield probes with the largest index, the smallest, and equal and smaller ones, of one tensor at a time.

    Args:
        inputs: the given inputs.
        vocabularies: numbers of indices that a tensor may have.
        special: indices that are treated differently.
    """
    for place in inputs.indices:
        name = inputs.names[place]
        for size in sorted(set(vocabularies), reverse=True):
            arguments = inputs.changed([place], functools.partial(_ends, value=size - 1))
            yield Probe(f"{name} up to {size - 1}", arguments, choice=f"largest {name}")
        for index in sorted({0, *special}):
            yield Probe(f"{name} with {index}", inputs.changed([place], functools.partial(_ends, value=index)))
        if torch.iinfo(inputs.tensors[place].dtype).min < IGNORED:
            arguments = inputs.changed([place], functools.partial(_ends, value=IGNORED))
            yield Probe(f"{name} with {IGNORED}", arguments, optional=True)
        yield Probe(f"{name} all zero", inputs.changed([place], torch.zeros_like), ties=True)
        yield Probe(f"{name} all equal", inputs.changed([place], all_first), ties=True)
        yield Probe(f"{name} halved", inputs.changed([place], in_numpy(lambda x: x // 2)), ties=True)


def integer_probes(inputs: Inputs, *, rounds: bool) -> Iterator[Probe]:
    """Yield probes with negative integers, and with those that smaller dtypes don't hold.

    Args:
        inputs: the given inputs.
        rounds: whether the side runs in the working dtype too, in which a cast to it rounds.
    """
    for place in inputs.indices:
        name, dtype = inputs.names[place], inputs.tensors[place].dtype
        limits = torch.iinfo(dtype)
        if limits.min < 0:
            yield Probe(f"{name} with -1", inputs.changed([place], functools.partial(_ends, value=-1)))
            arguments = inputs.changed([place], lambda x: -1 - x.abs())
            yield Probe(f"negative {name}, from -1", arguments)
        fitting = {text: n for text, n in LARGE.items() if limits.min <= n <= limits.max}
        for text, n in fitting.items():
            arguments = inputs.changed([place], functools.partial(_ends, value=n))
            for working in (False, True) if rounds else (False,):
                label = f"{name} with {text}" + (", in the working dtype" if working else "")
                yield Probe(label, arguments, working=working)
        if LARGE["2^53 + 1"] > limits.max:
            for text, n in (("its largest value", limits.max), ("its smallest value", limits.min)):
                arguments = inputs.changed([place], functools.partial(_ends, value=n))
                yield Probe(f"{name} with {text}, {n}", arguments)


def _ends(x: Tensor, value: int) -> Tensor:
    """Return indices of which the first and the last is this one."""

    def change(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        flat = array.reshape(-1).copy()
        flat[:1], flat[-1:] = value, value
        return flat.reshape(array.shape)

    return in_numpy(change)(x)  # torch takes no number above 2^63 - 1
