"""Which Cell is the port of which module.

Children of a pair are paired by name; those that remain by class and order; where classes don't decide, wrappers are
opened and what is in them is paired. What was paired explicitly stays so.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...runtime.errors import UsageError
from .layers import CONTAINERS, kind_of_cell, kind_of_module

Shapes = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class Node:
    """A module or a Cell in its tree.

    Attributes:
        path: `""` for the root.
        of: the module or Cell.
        class_name: its class.
        kind: the layer that it is, in the same words for both frameworks; `""` for a block of the user's.
        shapes: of all parameters in it, sorted.
        children: by name; each object is in the tree once, at its first path.
    """

    path: str
    of: Any
    class_name: str
    kind: str
    shapes: Shapes = ()
    children: dict[str, Node] = field(default_factory=dict)

    def inside(self) -> Iterator[Node]:
        """It and all below, parents first."""
        yield self
        for child in self.children.values():
            yield from child.inside()


Nodes = Sequence[Node]
Pairs = list[tuple[Node, Node]]


@dataclass(frozen=True)
class Pair:
    """A module and the Cell that is its port.

    Attributes:
        module: path of the module.
        cell: path of the Cell.
        module_class: class of the module.
        cell_class: class of the Cell.
        how: "root", "name", "position", "class and order" or "given".
    """

    module: str
    cell: str
    module_class: str
    cell_class: str
    how: str


@dataclass(frozen=True)
class Pairing:
    """All pairs, and what has no partner.

    Attributes:
        pairs: in the order of the module's tree.
        lone_modules: class by path of the modules that no Cell is the port of; without lists and the like.
        lone_cells: class by path of the Cells that are the port of no module; without lists and the like.
        apart: pairs that are called differently, and how; what they do is judged in the Cells around them.
    """

    pairs: tuple[Pair, ...]
    lone_modules: Mapping[str, str]
    lone_cells: Mapping[str, str]
    apart: Mapping[Pair, str] = field(default_factory=dict)

    @property
    def cell_of(self) -> dict[str, str]:
        """Path of the Cell by path of the module."""
        return {pair.module: pair.cell for pair in self.pairs}

    @property
    def module_of(self) -> dict[str, str]:
        """Path of the module by path of the Cell."""
        return {pair.cell: pair.module for pair in self.pairs}

    def without(self, apart: Mapping[str, str]) -> Pairing:
        """The same, with some pairs apart; `apart`: how they are called differently, by path of the module."""
        taken = {pair: apart[pair.module] for pair in self.pairs if pair.module in apart}
        left = tuple(pair for pair in self.pairs if pair not in taken)
        return replace(self, pairs=left, apart={**self.apart, **taken})


def pair_up(module: torch.nn.Module, cell: Any, given: Mapping[str, str] | None = None) -> Pairing:
    """Find the pairs.

    Args:
        module: the reference.
        cell: its port: a Cell of ours or of MindSpore.
        given: paths of modules by paths of Cells, for what isn't found.

    Raises:
        UsageError: `given` names what isn't there, or names it twice.
    """
    modules, cells = _module_tree(module), _cell_tree(cell)
    pairer = _Pairer()
    explicit = _explicit(given or {}, modules, cells)
    pairer.taken |= {node for nodes in explicit for node in nodes}
    pairer.pair(modules, cells, "root")
    for one, other in explicit:
        pairer.pair(one, other, "given")
    found = {one.path: (one, other, how) for one, other, how in pairer.found}
    pairs = tuple(
        Pair(node.path, found[node.path][1].path, node.class_name, found[node.path][1].class_name, found[node.path][2])
        for node in modules.inside()
        if node.path in found
    )
    paired = {node for one, other, _ in pairer.found for node in (one, other)}
    return Pairing(pairs, _lone(modules, paired), _lone(cells, paired))


def _lone(tree: Node, paired: Collection[Node]) -> dict[str, str]:
    return {n.path: n.class_name for n in tree.inside() if n not in paired and n.kind not in CONTAINERS}


class _Pairer:
    """Attributes: found: (module, Cell, how); partner: the Cell of each module; taken: what is paired elsewhere."""

    def __init__(self) -> None:
        self.found: list[tuple[Node, Node, str]] = []
        self.partner: dict[Node, Node] = {}
        self.taken: set[Node] = set()

    def pair(self, module: Node, cell: Node, how: str) -> None:
        """Pair two nodes, and what is below them."""
        self.found.append((module, cell, how))
        self.partner[module] = cell
        modules = {name: node for name, node in module.children.items() if node not in self.taken}
        cells = {name: node for name, node in cell.children.items() if node not in self.taken}
        for name in self._same_names(modules, cells):
            self.pair(modules[name], cells[name], "position" if name.isdigit() else "name")
        self._by_class(list(modules.values()), list(cells.values()))

    def _same_names(self, modules: Mapping[str, Node], cells: Mapping[str, Node]) -> list[str]:
        """Names on both sides. Numbers are positions, which mean something where both sides have equally many.

        A layer and a block that holds such a layer have the same name by chance: `conv1`, with or without its norm.
        """
        numbered = [[name for name in side if name.isdigit()] for side in (modules, cells)]
        by_position = len(numbered[0]) == len(numbered[1])
        return [
            name
            for name, module in modules.items()
            if name in cells and (by_position or not name.isdigit()) and not _is_within(module, cells[name])
        ]

    def _by_class(self, modules: list[Node], cells: list[Node]) -> None:
        """Pair siblings, some of which may be paired by name already; open what is left."""
        while True:
            self._take(_equally_many(*self._free(modules, cells), _class_and_shapes))
            self._take(_between(modules, cells, self.partner))
            for key in (_class_and_shapes, _class, _shapes_of_block):
                free = self._free(modules, cells)
                self._take(_equally_many(*free, key) or _in_order(*free, key))
            modules, cells = self._free(modules, cells)
            if len(modules) == len(cells) == 1 and not modules[0].kind and not cells[0].kind:
                self._take([(modules[0], cells[0])])  # two blocks of the user's, and no other choice
                return
            opened = self._opened(modules), self._opened(cells)
            if opened == (modules, cells) or not modules or not cells:
                return
            modules, cells = opened

    def _take(self, pairs: Iterable[tuple[Node, Node]]) -> None:
        for module, cell in pairs:
            self.pair(module, cell, "class and order")

    def _free(self, modules: Nodes, cells: Nodes) -> tuple[list[Node], list[Node]]:
        """Those that aren't paired yet."""
        partners = set(self.partner.values())
        return [node for node in modules if node not in self.partner], [n for n in cells if n not in partners]

    def _opened(self, nodes: Iterable[Node]) -> list[Node]:
        """What is in the nodes, in place of those that hold anything."""
        return [inner for node in nodes for inner in (node.children.values() or [node]) if inner not in self.taken]


def _is_within(one: Node, other: Node) -> bool:
    """Whether one is a layer, and the other a block that holds a layer of its kind, or the other way round."""
    layer, block = (one, other) if one.kind else (other, one)
    if not layer.kind or layer.kind in CONTAINERS or block.kind:
        return False
    return layer.kind in {node.kind for node in block.inside()}


def _class_and_shapes(node: Node) -> Any:
    return (_class(node), node.shapes) if _class(node) else None


def _shapes_of_block(node: Node) -> Any:
    """A block of the user's may have another name there: it is known by its parameters."""
    return node.shapes if not node.kind and node.children and node.shapes else None


def _class(node: Node) -> str | None:
    return node.kind or node.class_name.lower().removeprefix("torch").removesuffix("cell").removeprefix("cell") or None


def _equally_many(modules: Nodes, cells: Nodes, key: Callable[[Node], Any]) -> Pairs:
    """Nodes of equal keys in the same order, where both sides have equally many."""
    pairs: Pairs = []
    for value in dict.fromkeys(k for k in map(key, modules) if k is not None):
        here = [node for node in modules if key(node) == value]
        there = [node for node in cells if key(node) == value]
        if len(here) == len(there):
            pairs += zip(here, there, strict=True)
    return pairs


def _in_order(modules: Nodes, cells: Nodes, key: Callable[[Node], Any]) -> Pairs:
    """Nodes of equal keys, in the order of all keys."""
    ours, theirs = [key(node) for node in modules], [key(node) for node in cells]
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    places = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    return [(modules[a], cells[b]) for a, b in places if ours[a] is not None]


def _between(modules: Nodes, cells: Nodes, partner: Mapping[Node, Node]) -> Pairs:
    """Single layers of different classes, with the same parameters, that stand between the same neighbours."""
    places = {cell: place for place, cell in enumerate(cells)}
    paired = [(i, places[partner[node]]) for i, node in enumerate(modules) if partner.get(node) in places]
    anchors = [(-1, -1), *paired, (len(modules), len(cells))]
    pairs: Pairs = []
    for (a, b), (next_a, next_b) in itertools.pairwise(anchors):
        here, there = modules[a + 1 : next_a], cells[b + 1 : next_b]
        layers = all(node.kind and not node.children for node in (*here, *there))
        if layers and [node.shapes for node in here] == [node.shapes for node in there]:
            pairs += zip(here, there, strict=True)
    return pairs


def _module_tree(root: torch.nn.Module) -> Node:
    seen: set[int] = set()

    def node(path: str, module: torch.nn.Module) -> Node:
        seen.add(id(module))
        shapes = tuple(sorted(tuple(p.shape) for p in module.parameters()))
        made = Node(path, module, type(module).__name__, kind_of_module(module), shapes)
        for name, child in module.named_children():
            if id(child) not in seen:
                made.children[name] = node(f"{path}.{name}" if path else name, child)
        return made

    return node("", root)


def _cell_tree(root: Any) -> Node:
    seen: set[int] = set()

    def node(path: str, cell: Any) -> Node:
        seen.add(id(cell))
        # moving statistics are no parameters of the module
        shapes = tuple(sorted(tuple(p.shape) for p in cell.get_parameters() if p.requires_grad))
        made = Node(path, cell, cell.cls_name, kind_of_cell(cell), shapes)
        for name, child in cell.name_cells().items():
            if id(child) not in seen:
                made.children[name] = node(f"{path}.{name}" if path else name, child)
        return made

    return node("", root)


def _explicit(given: Mapping[str, str], modules: Node, cells: Node) -> list[tuple[Node, Node]]:
    by_path = {node.path: node for node in modules.inside()}, {node.path: node for node in cells.inside()}
    found: list[tuple[Node, Node]] = []
    for cell, module in given.items():
        if cell not in by_path[1] and cell in by_path[0] and module in by_path[1]:
            raise UsageError(
                f"cells={{{cell!r}: {module!r}}} is the wrong way round: the path of the Cell comes first, "
                f"cells={{{module!r}: {cell!r}}}"
            )
        for path, side, there in ((cell, "Cell", by_path[1]), (module, "module", by_path[0])):
            if path not in there:
                close = difflib.get_close_matches(path, there, n=3, cutoff=0.4)
                hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "paths are attribute names"
                raise UsageError(f"cells={{{cell!r}: {module!r}}}: there is no {side} at {path!r}; {hint}")
        if any(by_path[0][module] is one for one, _ in found):
            raise UsageError(f"cells= pairs the module {module!r} with two Cells; it has one port")
        if not cell or not module:
            raise UsageError("cells= pairs what is inside: the two networks themselves are a pair already")
        found.append((by_path[0][module], by_path[1][cell]))
    return found
