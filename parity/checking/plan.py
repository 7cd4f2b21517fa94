"""`Plan`: what is compared with a module, on which inputs, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..options import Options
from ..sides.torch_side import TorchSide
from ..support.progress import Progress


@dataclass(frozen=True)
class Plan:
    """A comparison of a module with a network on one input.

    Attributes:
        reference: the module.
        candidate: the network: a module, a Cell, or a network in JAX.
        args: positional inputs of the module.
        kwargs: its keyword inputs.
        options: options of the run, in the dtype and mode of the module.
        progress: receives the stages of the run.
        cells: paths in the reference by paths in the candidate, as the user gives them; None if nothing is given.
        weights: what the user says of parameters, see `parity.weights.overrides`; None if nothing is given.
    """

    reference: torch.nn.Module
    candidate: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: Options
    progress: Progress
    cells: Mapping[str, str] | None = None
    weights: Mapping[Any, Any] | None = None

    @property
    def may_pair_by_values(self) -> bool:
        """Whether nothing is said of names: then Cells may be paired by what they compute, in eval mode."""
        return self.cells is None and self.weights is None and not self.options.train

    def reference_side(self, name: str, **more: Any) -> TorchSide:
        """Return the module as a side of this name; `more` as for `TorchSide`."""
        return TorchSide.of_options(name, self.reference, self.args, self.kwargs, self.options, **more)
