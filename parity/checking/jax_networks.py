"""`compare_with_jax`: a torch module compared with a network in JAX."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import torch
from torch.utils import _pytree as pytree

from ...runtime.programs.call import as_array
from ..options import OptionKeywords
from ..report.report import Report
from ..sides.jax.recording import record_jax
from ..sides.jax_side import NAME, JaxSide
from ..support.progress import Progress
from ..support.user_code import report_user_errors
from .recordings.against import compare_with_recording


def compare_with_jax(
    module: torch.nn.Module,
    side: JaxSide,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    names: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Compare a module with a network in JAX, Cell by Cell, in float64 and in float32, with gradients.

    The network runs once in each dtype, and each of the module's Cells on the inputs that its counterpart had.

    Args:
        module: the reference.
        side: the network in JAX.
        args: positional inputs, torch tensors.
        kwargs: keyword inputs.
        names: TOML file for Cells and parameters that have other names than by the habits of Flax (docs/jax.md).
        progress: receives the stages.
        **options: fields of `Options`.

    Raises:
        UsageError: the network raises, or has nothing in common with the module.
    """
    arrays, keywords = pytree.tree_map_only(torch.Tensor, as_array, (args, dict(kwargs)))
    if side.inputs is not None:
        with report_user_errors("jax_side", "when inputs() was called"):
            arrays, keywords = side.inputs(*arrays, **keywords), {}
    seed = options.get("seed", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        again = Path(folder) / "perturbed"

        def record(path: Path, *, perturbed: bool = False) -> list[str]:
            with report_user_errors("jax_side", "when the network was run"):
                return record_jax(
                    side, path, tuple(arrays), keywords, seed, options.get("grads", True), perturbed=perturbed
                )

        def perturbed() -> Path:
            record(again, perturbed=True)
            return again

        notes = record(path)
        report = compare_with_recording(
            module, path, args, kwargs, names=names, perturbed=perturbed, progress=progress, **options
        )
        report.notes += notes
        return report
