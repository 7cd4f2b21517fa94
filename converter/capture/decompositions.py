"""torch's decompositions of the operators that have no translation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch._export.utils import _collect_all_valid_cia_ops_for_aten_namespace
from torch.export import exported_program

from . import creation_rules
from .libraries import replace_attribute
from .places import note_whole_operators
from .tables.table import TABLE

# operators that torch can decompose, but doesn't by default
EXTRA = [
    torch.ops.aten.dist.default,
    torch.ops.aten.ldexp.Tensor,
]


@functools.cache
def decompositions() -> dict[Any, Any]:
    """torch's decompositions for the operators that the table lacks.

    Random operators aren't decomposed either: their random numbers are recorded and replayed one by one.
    """
    default = torch.export.default_decompositions().items()  # type: ignore[no-untyped-call]
    rules = dict(default) | torch._decomp.get_decompositions(EXTRA)
    rules |= creation_rules.RULES
    return {
        operator: rule
        for operator, rule in rules.items()
        if str(operator) not in TABLE and torch.Tag.nondeterministic_seeded not in operator.tags
    }


def decompose(exported: torch.export.ExportedProgram, rules: Mapping[Any, Any]) -> torch.export.ExportedProgram:
    """Replace operators by what these rules compute, and in-place operators by functional ones.

    torch registers each composite operator of ATen, about 500, with a kernel of its own for each of 20 dispatch keys,
    which takes longer than the trace of a small module. What the dispatcher does by itself needs no registration.
    """
    composite = _collect_all_valid_cia_ops_for_aten_namespace()
    by_itself = {operator for operator in composite if _is_own_kernel(rules.get(operator), operator)}
    rest = {operator: rule for operator, rule in rules.items() if operator not in by_itself}
    with replace_attribute(exported_program, "_collect_all_valid_cia_ops", lambda: composite - by_itself):
        whole = list(exported.graph.nodes)
        decomposed: torch.export.ExportedProgram = exported.run_decompositions(rest)
    note_whole_operators(whole, decomposed.graph.nodes)
    return decomposed


def _is_own_kernel(rule: Any, operator: Any) -> bool:
    """Whether a rule calls the kernel in which ATen composes the operator of others."""
    return isinstance(rule, functools.partial) and rule.keywords.get("kernel") is operator
