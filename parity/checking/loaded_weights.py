"""A comparison with the reference's weights in the candidate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from ...converter.structure.program_names import named_parameters
from ...runtime.errors import UsageError
from ..pairing.by_structure.loading import load_by_map, load_by_structure
from ..pairing.by_structure.ports import port_of
from ..sides.kinds import Kind
from ..sides.opening import kind_of
from ..support.files import require_writable, write_text
from ..support.progress import Progress

ALIKE = 0.02
"""How much two networks may differ in the number of their weights, relative to it, that may be the same."""


@dataclass(frozen=True)
class Loaded:
    """A candidate with the weights with which it is compared.

    Attributes:
        network: the candidate.
        notes: how its weights were found, and what wasn't; empty if it has its own.
    """

    network: Any
    notes: list[str]


@contextlib.contextmanager
def weights_loaded(
    reference: Any,
    candidate: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    load_weights: bool | str | PathLike[str],
    write_map: str | PathLike[str] | None,
    progress: Progress,
) -> Iterator[Loaded]:
    """Within the context, the candidate has the reference's weights, if that is asked for.

    Args:
        reference: a torch module.
        candidate: a torch module, a Cell or a network in JAX; it has its own weights again afterwards.
        args: positional arguments of both.
        kwargs: keyword arguments.
        load_weights: True to find by structure which weights belong where, or the path of a map file that says it.
        write_map: path of the map file to write.
        progress: receives the stage.

    Raises:
        UsageError: a network can't be captured, or the map doesn't fit.
    """
    if load_weights is False:
        yield Loaded(candidate, [])
        return
    progress.stage("load weights", None)
    port = port_of(candidate)
    assert port is not None, "require_loadable refuses others"
    loading = (
        load_by_structure(reference, port, args, kwargs)
        if load_weights is True
        else load_by_map(reference, port, fspath(load_weights))
    )
    if write_map is not None:
        write_text(write_map, loading.text())
        loading.notes.append(f"the map was written to {fspath(write_map)}")
    with port.given(loading.arrays) as network:
        yield Loaded(network, loading.notes)


def require_loadable(
    reference: Any, candidate: Any, load_weights: bool | str | PathLike[str], write_map: str | PathLike[str] | None
) -> None:
    """Raise `UsageError` unless weights can be loaded as asked for; arguments as of `weights_loaded`."""
    if write_map is not None:
        if load_weights is not True:
            raise UsageError("write_map needs load_weights=True: it writes what is found")
        require_new_map(write_map)
    if load_weights is not False and (kind_of(reference) is not Kind.MODULE or port_of(candidate) is None):
        raise UsageError(
            f"weights are loaded from a torch module into a torch module, a Cell or a network in JAX, given "
            f"{type(reference).__name__} and {type(candidate).__name__}\n"
            "  what to do: load the weights in the candidate's own code"
        )


def require_new_map(path: str | PathLike[str]) -> None:
    """Raise `UsageError` unless a map can be written at a path; one that is there may have been edited."""
    if Path(path).is_file():
        raise UsageError(
            f"can't write {path}: there is a file already, which somebody may have edited\n"
            "  what to do: give another name, or delete it"
        )
    require_writable(path)


def hint_at_loading(reference: torch.nn.Module, candidate: torch.nn.Module) -> list[str]:
    """Return advice if no weight of the candidate has the numbers of one of the reference's, but as many are there."""
    of_reference, of_candidate = (
        [p.detach() for _, p in named_parameters(module) if p.numel() > 1] for module in (reference, candidate)
    )
    counts = sum(p.numel() for p in of_reference), sum(p.numel() for p in of_candidate)
    if not all(counts) or abs(counts[0] - counts[1]) > ALIKE * counts[0]:
        return []
    drawn = [{_sums(p) for p in module if p.dim() > 1} for module in (of_reference, of_candidate)]
    if not all(drawn) or drawn[0] & drawn[1]:
        return []
    return [
        f"no matrix of the candidate has the numbers of one of the reference's, although both networks have about "
        f"{counts[0]} weights: if the port's weights aren't loaded yet, --load-weights brings them in"
    ]


def _sums(parameter: torch.Tensor) -> tuple[int, float]:
    """Return the number of elements, and a sum that is the same in any layout."""
    return parameter.numel(), float(f"{float(parameter.double().square().sum()):.6g}")
