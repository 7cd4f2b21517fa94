"""Proof, without any judge, that a pair computes the same function of inputs and weights, and that a fault doesn't."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from cellbridge.parity.sides.eager import Eager
from cellbridge.runtime.nn import Cell
from fixtures.planted_faults.port_edits import PortFault
from fixtures.planted_faults.running import arrays_in, difference, double_arguments, largest, run_cell

from .twin import SEED, Twin

LEAST = 1e-6
"""How far a fault moves the outputs at least, relative to their size."""
STEP = 2.0**-14
OF_DIFFERENCES = 1e-4
"""How far gradients may be apart that are carried back by differences of a port that isn't linear in the weights."""
OTHER_WEIGHTS = 2


def problems(twin: Twin, faults: tuple[PortFault, ...]) -> Iterator[str]:
    """Yield what a pair, or a fault in it, claims and isn't true."""
    with _in_float64():
        reference = copy.deepcopy(twin.reference()).double()
        arguments = double_arguments(twin.arguments())
        for number in range(1 + OTHER_WEIGHTS):
            if number:
                _move(reference, SEED + number)
            apart = _apart(reference, twin.candidate(reference), arguments)
            if not apart <= twin.rounding:
                yield f"{twin.name}: differs by {apart:.2g} with weights {number}"
        if isinstance(twin.candidate(reference), nn.Module):
            yield from _wrong_gradients(twin, reference, arguments)
        for fault in faults:
            try:
                apart = _apart(reference, twin.candidate(reference, [fault]), arguments)
            except (RuntimeError, IndexError) as error:
                yield f"{twin.name}, {fault.label}: raises {error}"
                continue
            if not apart > LEAST:
                yield f"{twin.name}, {fault.label}: changes nothing, {apart:.2g}"
        paths = {path for path, _ in reference.named_modules(remove_duplicate=False)}
        yield from (f"{twin.name}: no Cell {path!r}" for f in faults for path in f.cells if path not in paths)


@contextlib.contextmanager
def _in_float64() -> Iterator[None]:
    """Compute in float64 what is asked for in float32, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _NoFloat32():
            yield
    finally:
        torch.set_default_dtype(before)


class _NoFloat32(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        keywords = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return function(*map(_wide, args), **keywords)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def _move(module: nn.Module, seed: int) -> None:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for parameter in module.parameters():
            parameter += 0.1 * torch.rand_like(parameter)


def _apart(reference: nn.Module, candidate: Any, arguments: tuple[Any, ...]) -> float:
    """The largest relative difference of outputs and, of torch modules, gradients of inputs; infinite for shapes."""
    of_reference, of_candidate = _outputs(reference, arguments), _outputs(candidate, arguments)
    pairs = _pairs(of_reference, of_candidate)
    if not pairs:
        return float("inf")
    distances = [difference(a, b, 1e-6 * largest(a)) for a, b in pairs]
    leaves = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor) and leaf.requires_grad]
    if leaves and isinstance(candidate, nn.Module):
        gradients = [
            torch.autograd.grad(_loss([pair[side] for pair in pairs]), leaves, allow_unused=True) for side in (0, 1)
        ]
        size = max(map(largest, gradients[0]))
        distances += [difference(a, b, 1e-6 * size) for a, b in zip(*gradients, strict=True)]
    return max(distances)


def _outputs(side: Any, arguments: tuple[Any, ...]) -> list[Tensor]:
    detached = pytree.tree_map_only(Tensor, Tensor.detach, arguments)
    if isinstance(side, Cell):
        values = {id(parameter): parameter.asnumpy() for parameter in side.get_parameters()}
        with Eager().prepare(side, values, "float64", False):
            return [torch.as_tensor(array) for array in arrays_in(run_cell(side, detached, False))]
    if not isinstance(side, nn.Module):
        from fixtures.planted_faults.jax_port_faults import outputs_of_port

        arrays = outputs_of_port(side, detached, "float64")
        return [torch.as_tensor(array) for array in arrays]
    leaves = [leaf for leaf in pytree.tree_leaves(side.double()(*arguments)) if isinstance(leaf, Tensor)]
    return [leaf for leaf in leaves if leaf.is_floating_point()]


def _pairs(reference: list[Tensor], candidate: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The outputs that are the same: for each of the side with fewer, the nearest of the other's of its shape."""
    pairs = []
    for output in min(reference, candidate, key=len):
        alike = [other for other in max(candidate, reference, key=len) if other.shape == output.shape]
        if not alike:
            return []
        nearest = min(alike, key=lambda other: largest(other - output))
        pairs.append((output, nearest) if len(reference) <= len(candidate) else (nearest, output))
    return pairs


def _loss(outputs: list[Tensor]) -> Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        terms = [(output * torch.randn(output.shape)).sum() for output in outputs if output.requires_grad]
    return torch.stack(terms).sum()


def _wrong_gradients(twin: Twin, reference: nn.Module, arguments: tuple[Any, ...]) -> Iterator[str]:
    """Yield the parameters whose gradient isn't the candidate's, carried back through the port of the weights.

    Along a random direction d of a parameter, <gradient, d> is <the candidate's gradients, the change of its weights>.
    """
    candidate = twin.candidate(reference)
    pairs = _pairs(_outputs(reference, arguments), _outputs(candidate, arguments))
    _loss([pair[0] for pair in pairs]).backward()  # type: ignore[no-untyped-call]
    _loss([pair[1] for pair in pairs]).backward()  # type: ignore[no-untyped-call]
    slopes = {}
    for name, parameter in reference.named_parameters():
        before, direction = parameter.detach().clone(), torch.randn_like(parameter)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.copy_(before + sign * STEP * direction)
            ends.append(dict(twin.candidate(reference).double().named_parameters()))
            with torch.no_grad():
                parameter.copy_(before)
        change = {n: (ends[0][n] - ends[1][n]).detach() / (2 * STEP) for n in ends[0]}
        slope = 0.0 if parameter.grad is None else float((parameter.grad * direction).detach().sum())
        parts = [(p.grad * change[n]).detach().sum() for n, p in candidate.named_parameters() if p.grad is not None]
        slopes[name] = slope, float(sum(parts))
    size = max(abs(slope) for slope, _ in slopes.values())
    for name, (slope, other) in slopes.items():
        if abs(slope - other) > OF_DIFFERENCES * (abs(slope) + 1e-3 * size):
            yield f"{twin.name}: the gradient of {name} is {slope:.6g} along a direction, carried back {other:.6g}"
