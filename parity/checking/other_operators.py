"""Cells of classes of one name that agree on all that was tried, and that compute it with other operators."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from ...converter.capture.cell_hooks import CurrentCell, watch
from ...converter.structure.program_names import named_modules
from ..judging.probing.switches import SWITCHING
from ..results.cell_report import CellReport
from ..results.comparison import PASS
from ..sides.torch_side import TorchSide

MOST_CELLS = 4
MOST_OPERATORS = 4
ARRANGING = frozenset({
    "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "arange", "as_strided", "cat", "chunk", "clone",
    "contiguous", "copy", "detach", "empty", "empty_like", "empty_strided", "expand", "fill", "full", "full_like",
    "lift_fresh", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute",
    "repeat", "scalar_tensor", "select", "slice", "split", "split_with_sizes", "squeeze", "stack", "t", "transpose",
    "unbind", "unsqueeze", "view", "zeros", "zeros_like",
})  # fmt: skip
"""Operators that move or make elements, in which two ways to write the same may differ in any number."""

Operators = dict[str, set[str]]
"""By path of a Cell, the operators that it calls itself, with their settings: `gelu(approximate='tanh')`."""


def operator_notes(reference: TorchSide, candidate: TorchSide, cells: Mapping[str, CellReport]) -> list[str]:
    """Return a note that names the operators in which Cells differ that agree and have classes of one name.

    Args:
        reference: the reference.
        candidate: the candidate, with the same paths.
        cells: the reports on the Cells, by path.
    """
    classes = [{path: type(inner) for path, _, inner in named_modules(side.module)} for side in (reference, candidate)]
    paths = {path for path, kind in classes[0].items() if path in cells and path in classes[1]}
    reference_operators, candidate_operators = (_operators_of(side, paths) for side in (reference, candidate))
    pairs: dict[tuple[str, str], list[str]] = {}
    for path in cells:
        if path in paths and classes[0][path].__name__ == classes[1][path].__name__ and cells[path].status == PASS:
            in_reference, in_candidate = reference_operators.get(path, set()), candidate_operators.get(path, set())
            names = _listed(in_candidate - in_reference), _listed(in_reference - in_candidate)
            if any(names):
                pairs.setdefault(names, []).append(path)
    texts = [
        f"{paths[0] or '(root)'}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''} "
        f"({names[0] or 'nothing'} in the candidate, {names[1] or 'nothing'} in the reference)"
        for names, paths in pairs.items()
    ]
    more = f", and {len(texts) - MOST_CELLS} more pairs" if len(texts) > MOST_CELLS else ""
    listed = ", ".join(texts[:MOST_CELLS])
    return [f"computed with different operators, and agree on all that was tried: {listed}{more}"] if texts else []


def _listed(names: Set[str]) -> str:
    shown = sorted(names)[:MOST_OPERATORS]
    return ", ".join([*shown, *([f"{len(names) - len(shown)} more"] if len(names) > len(shown) else [])])


def _operators_of(side: TorchSide, paths: Set[str]) -> Operators:
    """Return the operators that each Cell calls in a run on the given inputs, those of inner ones apart."""
    cell = CurrentCell()
    with watch(side.module, cell, paths):
        return side.watch_operators(_Operators(cell)).found


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects the operators of each Cell."""

    def __init__(self, cell: CurrentCell) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cell = cell
        self.found: Operators = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__.removesuffix("_")
        if name not in ARRANGING and len(self.cell.paths) > 1:
            self.found.setdefault(self.cell.paths[-1], set()).add(_with_settings(func, name, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def _with_settings(func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return an operator's name with its numbers and words, as far as they say what it computes."""
    declared = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(declared, args, strict=False)), **kwargs}
    kinds = (float, int, str) if name in SWITCHING else (float, str)
    settings = [f"{key}={value!r}" for key, value in given.items() if type(value) in kinds]
    return f"{name}({', '.join(settings)})" if settings else name
