"""The view of a program: its Cells, their parameters and their ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from ...runtime.ir.program import Program
from .detail import pluralize
from .layout import Row, paragraph, print_lines, tree_lines
from .tree import Branch, forest


@dataclass
class _Contents:
    """The contents of all calls of one Cell, with the Cells inside."""

    class_name: str
    calls: int = 0
    parameters: set[str] = field(default_factory=set)
    ops: Counter[str] = field(default_factory=Counter)


def render(program: Program, console: Console) -> None:
    """Print the Cell tree with the number of parameter elements and ops of each Cell."""
    cells: dict[str, _Contents] = {}
    for cell in program.cells():
        contents = cells.setdefault(cell.path, _Contents(cell.class_name))
        contents.calls += 1
        contents.parameters |= set(cell.parameters)
        contents.ops.update(node.op for node in cell.nodes if node.op != "boundary")
    sizes = {name: parameter.data.size for name, parameter in program.parameters.items()}
    rows = [row for branch in forest(cells) for row in _rows(branch, cells, sizes, ())]
    ops = cells[""].ops
    frozen = sum(not parameter.trainable for parameter in program.parameters.values())
    listed = ", ".join(f"{op} {count}" for op, count in ops.most_common())
    parameters = f"{sum(sizes.values()):,} elements in {pluralize(len(sizes), 'parameter')}"
    lines = tree_lines(("Cell", "class", "parameters", "ops"), rows, console.width)
    lines += [
        Text(),
        *paragraph(f"parameters: {parameters}{f', {frozen} of them frozen' if frozen else ''}", console.width),
    ]
    lines += paragraph(f"buffers: {len(program.buffers)}", console.width)
    lines += paragraph(f"ops: {ops.total()}: {listed}", console.width)
    print_lines(lines, console)


def _rows(
    branch: Branch, cells: dict[str, _Contents], sizes: dict[str, int], siblings_follow: tuple[bool, ...]
) -> Iterator[Row]:
    contents = cells[branch.path]
    elements = sum(sizes[name] for name in contents.parameters)
    calls = f" ×{contents.calls}" if contents.calls > 1 else ""
    yield Row(
        siblings_follow,
        (
            (branch.label, ""),
            (contents.class_name + calls, "cyan"),
            (f"{elements:,}" if elements else "", ""),
            (str(contents.ops.total()), ""),
        ),
    )
    for number, child in enumerate(branch.children):
        yield from _rows(child, cells, sizes, (*siblings_follow, number < len(branch.children) - 1))
