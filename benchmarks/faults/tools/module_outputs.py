"""Fixed tolerances for each module: hooks on both networks record the outputs, and the first that differ are to blame.

Both networks run end to end. The tolerances are rtol=1e-3, atol=1e-4. A module is named if its outputs are the first to
differ in the order in which modules finish; of the modules that finish with the same values, the innermost.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fixtures.planted_faults.pairs import Pair
from fixtures.planted_faults.running import Arrays, run_module

from .final_outputs import close
from .finding import Finding

RTOL, ATOL = 1e-3, 1e-4


def judge(pair: Pair) -> Finding | None:
    """Compare the outputs of all modules in float32; None unless both sides are torch modules."""
    modules = isinstance(pair.reference, nn.Module) and isinstance(pair.candidate, nn.Module)
    if not modules or pair.command is not None:
        return None
    try:
        reference, candidate = (_record(pair, module) for module in (pair.reference, pair.candidate))
    except (RuntimeError, IndexError, ValueError) as error:
        return Finding(True, None, said=f"raises: {error}"[:200])
    for path, calls in reference.items():
        if path not in candidate:
            continue
        for a, b in zip(calls, candidate[path], strict=False):
            if not close(a, b, RTOL, ATOL):
                return Finding(True, frozenset([path]))
    return Finding(False, frozenset())


def _record(pair: Pair, module: nn.Module) -> dict[str, list[Arrays]]:
    """The outputs of all calls of all modules by path, in the order in which modules first finish."""
    records: dict[str, list[Arrays]] = {}

    def hook(path: str) -> Any:
        def record(_module: nn.Module, _args: Any, output: Any) -> None:
            tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            records.setdefault(path, []).append([tensor.detach().clone().numpy() for tensor in tensors])

        return record

    handles = [inner.register_forward_hook(hook(path)) for path, inner in module.named_modules()]
    try:
        run_module(module, pair.args, pair.train)
    finally:
        for handle in handles:
            handle.remove()
    return records
