"""Optional arguments of `forward`, given where they are left out and left out where they are given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ...sides.abilities import RunsModule
from ...sides.run import Arguments
from .probe import Probe

MASKING = ("mask", "bias")
"""Words in the names of arguments for which a tensor can be made."""
MAX_ARGUMENTS = 4
"""Number of arguments of each kind that are switched."""


def switched_argument_probes(reference: RunsModule, candidate: RunsModule) -> Iterator[Probe]:
    """Yield probes in which an optional argument that both networks have is switched.

    Flags are negated, and floats doubled. Tensors with the default None are left out, and masks that are
    left out are given: of several shapes and dtypes, the first that the reference runs on.
    """
    try:
        signature = inspect.signature(reference.module.forward)
        bound = signature.bind(*reference.args, **reference.kwargs)
        shared = inspect.signature(candidate.module.forward).parameters
    except (TypeError, ValueError):  # it takes its arguments in a way of its own
        return
    given = bound.arguments
    optional = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if name in shared and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is not parameter.empty
    }  # fmt: skip
    numbers = [x for x in given.values() if isinstance(x, torch.Tensor)]
    yield from _settings(bound, optional)
    off = [name for name in optional if isinstance(given.get(name), torch.Tensor) and optional[name].default is None]
    for name in off[:MAX_ARGUMENTS]:
        yield _probe(f"{name} left out", bound, {name: None})
    on = [n for n in optional if given.get(n) is None and optional[n].default is None and _is_mask(n)]
    for name in on[:MAX_ARGUMENTS]:
        for kind, mask in _masks(numbers):
            yield _probe(f"{name} given, {kind}", bound, {name: mask}, choice=f"{name} given")


def _settings(bound: inspect.BoundArguments, optional: Mapping[str, inspect.Parameter]) -> Iterator[Probe]:
    values = {name: bound.arguments.get(name, parameter.default) for name, parameter in optional.items()}
    flags = [name for name, value in values.items() if isinstance(value, bool)]
    for name in flags[:MAX_ARGUMENTS]:
        yield _probe(f"{name}={not values[name]}", bound, {name: not values[name]})
    factors = [name for name, value in values.items() if type(value) is float]
    for name in factors[:MAX_ARGUMENTS]:
        other = values[name] * 2 or 1.0
        yield _probe(f"{name}={other:g}", bound, {name: other})


def _is_mask(name: str) -> bool:
    return any(word in name.lower() for word in MASKING)


def _masks(tensors: list[torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield masks for the tensors, with a description: per position, per pair of positions, and per number."""
    first = next((x for x in tensors if x.ndim >= 2), None)
    if first is None:
        return
    batch, length = first.shape[:2]
    positions = torch.ones(batch, length, dtype=torch.bool)
    positions[:, length - length // 2 :] = False
    pairs = torch.ones(length, length, dtype=torch.bool).tril()
    whole = torch.ones(first.shape, dtype=torch.bool)
    whole.view(-1)[::3] = False
    shapes = {"per position": positions, "per pair of positions": pairs, "per number": whole}
    for kind, mask in shapes.items():
        yield f"bools {kind}", mask
    for kind, mask in shapes.items():
        yield f"numbers {kind}", torch.zeros(mask.shape).masked_fill(~mask, -1e4)


def _probe(name: str, bound: inspect.BoundArguments, values: Mapping[str, Any], choice: str = "") -> Probe:
    changed = inspect.BoundArguments(bound.signature, type(bound.arguments)(bound.arguments))
    parameters = bound.signature.parameters
    changed.arguments.update(values)
    # in the order of the signature, which decides what is passed by position
    ordered = {n: changed.arguments[n] for n in parameters if n in changed.arguments}
    changed.arguments.clear()
    changed.arguments.update(ordered)
    return Probe(name, _as_call(changed), choice=choice, switched=True)


def _as_call(bound: inspect.BoundArguments) -> Arguments:
    return bound.args, bound.kwargs
