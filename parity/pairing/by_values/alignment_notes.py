"""Notes on what of a module could be aligned with a file, and what couldn't."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...report.globs import list_names, summarize_paths
from .search import Match, Search
from .sides import FileSide


def alignment_notes(search: Search, match: Match, side: FileSide, idle: Collection[str], *, grads: bool) -> list[str]:
    """Return notes on Cells and parameters that aren't judged by themselves, or as the file has them.

    Args:
        search: the search for the module's Cells.
        match: the Cells and parameters.
        side: the file.
        idle: paths of the Cells that only pass on what they are given.
        grads: whether gradients are compared.
    """
    notes = list(_on_cells(search, match, side.name, idle))
    return notes + list(_on_gradients(search, match, side)) if grads else notes


def _on_cells(search: Search, match: Match, name: str, idle: Collection[str]) -> Iterator[str]:
    cells = match.cells
    factors = match.merged.factors if match.merged is not None else {}
    if match.merged is not None and (merged := [p for p in match.merged.parameters if p not in factors]):
        holders = list(dict.fromkeys(parameter.rpartition(".")[0] for parameter in merged))
        yield (
            f"weights of {name} have several parameters of {search.module.name} merged, and were compared as these "
            f"parameters: {summarize_paths(holders)}"
        )
    if factors:
        scaled = summarize_paths([f"{parameter} * {factor:.4g}" for parameter, factor in factors.items()])
        yield (
            f"weights of {name} have a factor of {search.module.name} merged, and were compared as parameters with "
            f"this factor behind what is computed with them: {scaled}"
        )
    if around := sorted(cells.ownership.left_out.keys() - set(idle)):
        yield (
            f"judged in the Cells around them, because {name} doesn't compute them by themselves: "
            f"{summarize_paths(around)}"
        )
    if cells.excused.keys:
        after = list(dict.fromkeys(key.path for key in search.records[0].values if key in cells.excused.keys))
        yield f"not judged by themselves, after a tensor of another shape: {summarize_paths(after)}"


def _on_gradients(search: Search, match: Match, side: FileSide) -> Iterator[str]:
    cells, paired, name = match.cells, match.paired, side.name
    paths = {call.path for call in cells.ownership.calls}
    passed_by = ({key.path for key in cells.bypassed} | cells.bypassed_paths) & paths
    if passed_by:
        listed = summarize_paths([path or "(root)" for path in sorted(passed_by)])
        yield f"gradients not judged by themselves, since values of {name} get past these Cells: {listed}"
    if side.untrained_rows:
        rows = list_names([f"{parameter}[{row}]" for parameter, row in side.untrained_rows.items()])
        yield f"gradients not compared, of rows that the module doesn't train, which a file can't say: {rows}"
    if paired.copies:
        copies = [f"{parameter} ({', '.join(names)})" for parameter, names in paired.copies.items()]
        yield f"tied in {search.module.name} and not in {name}, whose gradients were added up: {list_names(copies)}"
    if lacking := search.lacking(paired):
        yield f"gradients not compared, of parameters that {name} doesn't hold as they are: {list_names(lacking)}"
