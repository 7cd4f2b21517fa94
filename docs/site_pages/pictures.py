"""The pictures of the site, drawn from programs and from the imports of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from . import floors, program_layout
from .program_layout import Column

ROOT = Path(__file__).parents[2]
WIDTH = 680
STYLE = (
    "<style>"
    ".c0{fill:color-mix(in srgb,currentColor 4%,transparent)}.c1{fill:color-mix(in srgb,currentColor 8%,transparent)}"
    ".c2{fill:color-mix(in srgb,currentColor 13%,transparent)}.box{stroke:currentColor;stroke-opacity:.35}"
    ".op{fill:#2f6f4f22;stroke:#3c9a6b}.bd{fill:#2b6cb022;stroke:#4a8fd6}.bw{fill:#b0522b22;stroke:#d0764a}"
    "text{fill:currentColor;font:13px ui-monospace,monospace}.s{font-size:11px;opacity:.75}"
    ".e{fill:none;stroke:currentColor;stroke-opacity:.55}.v{stroke-dasharray:3 3;stroke:#d0764a;stroke-opacity:.9}"
    "</style>"
)


def svg(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """A picture that scales, with its description for screen readers."""
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 6 6" refX="5.5" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0 6 3 0 6z" fill="currentColor" fill-opacity=".55"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'aria-label="{escape(title)}">{STYLE}{marker}{"".join(body)}</svg>'
    )


@cache
def example() -> Any:
    """The program of the pictures: a block with a shortcut, and a head."""
    import torch

    from cellbridge import converter

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.relu(self.fc(x))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.head(self.block(x))
            return result

    torch.manual_seed(0)
    return converter.from_torch(Network(), (torch.randn(3, 4),))


def program(title: str) -> str:
    """A program: ops in order, in the boxes of their Cells; boundaries in blue."""
    column = Column(example(), example().nodes, left=20, width=300)
    return svg(WIDTH, column.height, title, [*column.boxes(), *column.edges(), *column.nodes()])


def gradient(title: str) -> str:
    """The gradient program: the forward ops on the left, downwards; those of the gradient on the right, upwards."""
    from cellbridge.runtime.programs.gradient_program import differentiate

    forward = example()
    differentiated = differentiate(forward)
    both = differentiated.program
    parameters = {id(value): name for name, value in differentiated.parameter_gradients.items()}
    labels = {
        id(node): f"{node.op} → {parameters[id(value)].rpartition('.')[2]}"
        for node in both.nodes
        for value in node.outputs
        if id(value) in parameters
    }
    count = len(forward.nodes)
    left = Column(both, both.nodes[:count], left=10, width=300)
    right = Column(both, both.nodes[count:], left=370, width=300, upwards=True, least=left.height, labels=labels)
    height = max(left.height, right.height)
    body = [*left.boxes(), *left.edges(), *left.nodes(), *right.boxes(), *right.edges(), *right.nodes()]
    body += program_layout.between(left, right)
    return svg(WIDTH, height, title, body)


def rooms(title: str) -> str:
    """The floors of the rooms: every folder and module stands above all that it imports."""
    body: list[str] = []
    y = 10.0
    for room in ("parity", "converter", "runtime"):
        rows = [line for floor in reversed(floors.floors(room)) for line in _wrapped(floor)]
        height = 34 + 20 * len(rows)
        body.append(f'<rect class="c1 box" x="10" y="{y:g}" width="{WIDTH - 20}" height="{height}" rx="6"/>')
        body.append(f'<text x="22" y="{y + 22:g}" font-weight="bold">{room}/</text>')
        for number, (first, line) in enumerate(rows):
            at = y + 42 + 20 * number
            if first and number:
                body.append(f'<path class="box" d="M22 {at - 14:g}H{WIDTH - 22}"/>')
            body.append(f'<text class="s" x="30" y="{at:g}">{escape(line)}</text>')
        y += height + 12
    return svg(WIDTH, y, title, body)


def _wrapped(floor: list[str], characters: int = 88) -> list[tuple[bool, str]]:
    """(whether it is the first of its floor, text) of each line."""
    lines = [""]
    for name in floor:
        if lines[-1] and len(lines[-1]) + len(name) + 2 > characters:
            lines.append("")
        lines[-1] += ("  " if lines[-1] else "") + name
    return [(number == 0, line) for number, line in enumerate(lines)]


PICTURES: dict[str, Callable[[str], str]] = {"program": program, "gradient": gradient, "rooms": rooms}
