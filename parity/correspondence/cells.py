"""Finds the Cell that is the port of each module.

Children of a pair are paired by name, the remaining ones by class and order; if classes don't decide, wrappers are
opened and their contents are paired. Explicit pairs are kept.
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
from .name_patterns import fill_cells

ParameterShapes = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class TreeNode:
    """A module or a Cell in its tree.

    Attributes:
        path: `""` for the root.
        of: the module or Cell.
        class_name: its class.
        kind: kind of layer, named alike for both frameworks; `""` for a block of the user's.
        shapes: shapes of all parameters inside, sorted.
        children: child nodes by name; each object is in the tree once, at its first path.
    """

    path: str
    of: Any
    class_name: str
    kind: str
    shapes: ParameterShapes = ()
    children: dict[str, TreeNode] = field(default_factory=dict)

    def inside(self) -> Iterator[TreeNode]:
        """Yield this node and its descendants, parents first."""
        yield self
        for child in self.children.values():
            yield from child.inside()


TreeNodes = Sequence[TreeNode]
NodePairs = list[tuple[TreeNode, TreeNode]]


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
    """All pairs, and the modules and Cells without a partner.

    Attributes:
        pairs: in the order of the module's tree.
        lone_modules: class by path of the modules without a port, excluding containers.
        lone_cells: class by path of the Cells that are the port of no module, excluding containers.
        apart: pairs that are called differently, with the reason; their computation is judged in the Cells around them.
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
        """Return this pairing with some pairs apart; `apart` has the reasons by path of the module."""
        removed = {pair: apart[pair.module] for pair in self.pairs if pair.module in apart}
        remaining = tuple(pair for pair in self.pairs if pair not in removed)
        return replace(self, pairs=remaining, apart={**self.apart, **removed})


def pair_up(module: torch.nn.Module, cell: Any, explicit_paths: Mapping[str, str] | None = None) -> Pairing:
    """Find the pairs.

    Args:
        module: the reference.
        cell: its port, a Cell of the runtime or of MindSpore.
        explicit_paths: paths of modules by paths of Cells, for pairs that aren't found automatically; see `fill_cells`.

    Raises:
        UsageError: `explicit_paths` has an unknown path, or a module twice.
    """
    modules, cells = _module_tree(module), _cell_tree(cell)
    pairer = _Pairer()
    explicit = _explicit_pairs(explicit_paths or {}, modules, cells)
    pairer.excluded |= {node for nodes in explicit for node in nodes}
    pairer.pair(modules, cells, "root")
    for node, other in explicit:
        pairer.pair(node, other, "given")
    match_of = {node.path: (node, other, how) for node, other, how in pairer.pairs}
    pairs = tuple(
        Pair(
            node.path,
            match_of[node.path][1].path,
            node.class_name,
            match_of[node.path][1].class_name,
            match_of[node.path][2],
        )
        for node in modules.inside()
        if node.path in match_of
    )
    paired = {node for first, other, _ in pairer.pairs for node in (first, other)}
    return Pairing(pairs, _lone(modules, paired), _lone(cells, paired))


def _lone(tree: TreeNode, paired: Collection[TreeNode]) -> dict[str, str]:
    return {n.path: n.class_name for n in tree.inside() if n not in paired and n.kind not in CONTAINERS}


class _Pairer:
    """Pairs two trees.

    Attributes:
        pairs: modules with their Cells, and how they were paired.
        partner: the Cell of each paired module.
        excluded: nodes with explicit pairs.
    """

    def __init__(self) -> None:
        self.pairs: list[tuple[TreeNode, TreeNode, str]] = []
        self.partner: dict[TreeNode, TreeNode] = {}
        self.excluded: set[TreeNode] = set()

    def pair(self, module: TreeNode, cell: TreeNode, how: str) -> None:
        """Pair two nodes and their descendants."""
        self.pairs.append((module, cell, how))
        self.partner[module] = cell
        modules = {name: node for name, node in module.children.items() if node not in self.excluded}
        cells = {name: node for name, node in cell.children.items() if node not in self.excluded}
        for name in self._same_names(modules, cells):
            self.pair(modules[name], cells[name], "position" if name.isdigit() else "name")
        self._by_class(list(modules.values()), list(cells.values()))

    def _same_names(self, modules: Mapping[str, TreeNode], cells: Mapping[str, TreeNode]) -> list[str]:
        """Return the names on both sides.

        Numbers are positions, which correspond only if both sides have the same number of them. A layer and
        a block that contains such a layer may have the same name by chance: `conv1`, with or without its norm.
        """
        numbered = [[name for name in side if name.isdigit()] for side in (modules, cells)]
        by_position = len(numbered[0]) == len(numbered[1])
        return [
            name
            for name, module in modules.items()
            if name in cells and (by_position or not name.isdigit()) and not _is_within(module, cells[name])
        ]

    def _by_class(self, modules: list[TreeNode], cells: list[TreeNode]) -> None:
        """Pair siblings, some of which may be paired by name already; then open the remaining ones."""
        while True:
            self._take(_pair_equal_counts(*self._free(modules, cells), _class_and_shapes))
            self._take(_pair_between_neighbours(modules, cells, self.partner))
            for key in (_class_and_shapes, _class, _shapes_of_block):
                free = self._free(modules, cells)
                self._take(_pair_equal_counts(*free, key) or _pair_in_order(*free, key))
            modules, cells = self._free(modules, cells)
            if len(modules) == len(cells) == 1 and not modules[0].kind and not cells[0].kind:
                self._take([(modules[0], cells[0])])  # two blocks of the user's are left, which must correspond
                return
            inner = self._open(modules), self._open(cells)
            if inner == (modules, cells) or not modules or not cells:
                return
            modules, cells = inner

    def _take(self, pairs: Iterable[tuple[TreeNode, TreeNode]]) -> None:
        for module, cell in pairs:
            self.pair(module, cell, "class and order")

    def _free(self, modules: TreeNodes, cells: TreeNodes) -> tuple[list[TreeNode], list[TreeNode]]:
        """Return the nodes that aren't paired yet."""
        partners = set(self.partner.values())
        return [node for node in modules if node not in self.partner], [n for n in cells if n not in partners]

    def _open(self, nodes: Iterable[TreeNode]) -> list[TreeNode]:
        """Replace nodes that have children by their children."""
        return [inner for node in nodes for inner in (node.children.values() or [node]) if inner not in self.excluded]


def _is_within(node: TreeNode, other: TreeNode) -> bool:
    """Whether one is a layer, and the other a block that contains a layer of its kind."""
    layer, block = (node, other) if node.kind else (other, node)
    if not layer.kind or layer.kind in CONTAINERS or block.kind:
        return False
    return layer.kind in {node.kind for node in block.inside()}


def _class_and_shapes(node: TreeNode) -> Any:
    return (_class(node), node.shapes) if _class(node) else None


def _shapes_of_block(node: TreeNode) -> Any:
    """A key for blocks of the user's, whose class may have another name: the shapes of its parameters."""
    return node.shapes if not node.kind and node.children and node.shapes else None


def _class(node: TreeNode) -> str | None:
    return node.kind or node.class_name.lower().removeprefix("torch").removesuffix("cell").removeprefix("cell") or None


def _pair_equal_counts(modules: TreeNodes, cells: TreeNodes, key: Callable[[TreeNode], Any]) -> NodePairs:
    """Pair nodes of equal keys in order, for keys that occur the same number of times on both sides."""
    pairs: NodePairs = []
    for value in dict.fromkeys(k for k in map(key, modules) if k is not None):
        equal_modules = [node for node in modules if key(node) == value]
        equal_cells = [node for node in cells if key(node) == value]
        if len(equal_modules) == len(equal_cells):
            pairs += zip(equal_modules, equal_cells, strict=True)
    return pairs


def _pair_in_order(modules: TreeNodes, cells: TreeNodes, key: Callable[[TreeNode], Any]) -> NodePairs:
    """Pair nodes of equal keys, respecting the order of all keys."""
    module_keys, cell_keys = [key(node) for node in modules], [key(node) for node in cells]
    blocks = difflib.SequenceMatcher(None, module_keys, cell_keys, autojunk=False).get_matching_blocks()
    places = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    return [(modules[a], cells[b]) for a, b in places if module_keys[a] is not None]


def _pair_between_neighbours(modules: TreeNodes, cells: TreeNodes, partner: Mapping[TreeNode, TreeNode]) -> NodePairs:
    """Pair single layers of different classes that have the same parameters and the same paired neighbours."""
    places = {cell: index for index, cell in enumerate(cells)}
    paired = [(i, places[partner[node]]) for i, node in enumerate(modules) if partner.get(node) in places]
    anchors = [(-1, -1), *paired, (len(modules), len(cells))]
    pairs: NodePairs = []
    for (a, b), (next_a, next_b) in itertools.pairwise(anchors):
        inner_modules, inner_cells = modules[a + 1 : next_a], cells[b + 1 : next_b]
        layers = all(node.kind and not node.children for node in (*inner_modules, *inner_cells))
        if layers and [node.shapes for node in inner_modules] == [node.shapes for node in inner_cells]:
            pairs += zip(inner_modules, inner_cells, strict=True)
    return pairs


def _module_tree(root: torch.nn.Module) -> TreeNode:
    visited: set[int] = set()

    def node(path: str, module: torch.nn.Module) -> TreeNode:
        visited.add(id(module))
        shapes = tuple(sorted(tuple(p.shape) for p in module.parameters()))
        result = TreeNode(path, module, type(module).__name__, kind_of_module(module), shapes)
        for name, child in module.named_children():
            if id(child) not in visited:
                result.children[name] = node(f"{path}.{name}" if path else name, child)
        return result

    return node("", root)


def _cell_tree(root: Any) -> TreeNode:
    visited: set[int] = set()

    def node(path: str, cell: Any) -> TreeNode:
        visited.add(id(cell))
        # moving statistics aren't parameters of the module
        shapes = tuple(sorted(tuple(p.shape) for p in cell.get_parameters() if p.requires_grad))
        result = TreeNode(path, cell, cell.cls_name, kind_of_cell(cell), shapes)
        for name, child in cell.name_cells().items():
            if id(child) not in visited:
                result.children[name] = node(f"{path}.{name}" if path else name, child)
        return result

    return node("", root)


def _explicit_pairs(
    explicit_paths: Mapping[str, str], modules: TreeNode, cells: TreeNode
) -> list[tuple[TreeNode, TreeNode]]:
    by_path = {node.path: node for node in modules.inside()}, {node.path: node for node in cells.inside()}
    pairs: list[tuple[TreeNode, TreeNode]] = []
    for cell, module in fill_cells(explicit_paths, by_path[1], by_path[0]).items():
        if cell not in by_path[1] and cell in by_path[0] and module in by_path[1]:
            raise UsageError(
                f"cells={{{cell!r}: {module!r}}} is the wrong way round: the path of the Cell comes first, "
                f"cells={{{module!r}: {cell!r}}}"
            )
        for path, side, nodes in ((cell, "Cell", by_path[1]), (module, "module", by_path[0])):
            if path not in nodes:
                close = difflib.get_close_matches(path, nodes, n=3, cutoff=0.4)
                hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "paths are attribute names"
                raise UsageError(f"cells={{{cell!r}: {module!r}}}: there is no {side} at {path!r}; {hint}")
        if any(by_path[0][module] is paired for paired, _ in pairs):
            raise UsageError(f"cells= pairs the module {module!r} with two Cells; it has one port")
        if not cell or not module:
            raise UsageError("cells= pairs inner Cells: the two networks themselves are a pair already")
        pairs.append((by_path[0][module], by_path[1][cell]))
    return pairs
