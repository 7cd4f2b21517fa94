"""Pieces of a product: the features that are used apart from the others, as queries, keys and values are.

Features belong together if they meet in one operation that isn't linear, or if they are mixed before it by sums, as
those are that a rotary embedding turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from ...sides.records import Array
from .network import Network
from .units import MATRIX, TABLE, Unit


@dataclass(frozen=True, order=True)
class Role:
    """What uses a piece.

    Attributes:
        op: the operation that uses it first.
        position: of a product of two pieces, which factor it is.
        following: the operations that use what that computes, each with one that uses its result: a gate that resets
            and one that updates differ so.
    """

    op: str = ""
    position: int = 0
    following: tuple[tuple[str, str], ...] = ()

    @property
    def first(self) -> Role:
        """The role without what follows, which code may write in another way."""
        return replace(self, following=())

    def distance(self, other: Role) -> int:
        """Return 0 if two roles are the same, 1 if they are up to what follows, and 2 if they aren't."""
        return 0 if self == other else 1 if self.first == other.first else 2


@dataclass(frozen=True, eq=False)
class Piece:
    """Features that are used together.

    Attributes:
        features: their numbers, in the order in which they are used.
        role: what uses them; empty if nothing does.
    """

    features: Array
    role: Role = Role()


def pieces_of(network: Network, unit: Unit) -> list[Piece]:
    """Return the pieces of a unit's product; a vector, or anything else, is one piece."""
    if unit.kind not in (MATRIX, TABLE):
        return [Piece(np.arange(unit.size))]
    return _Pieces(network, unit).pieces()


def is_in_order(pieces: Sequence[Piece], originals: Sequence[Piece]) -> bool:
    """Whether two products have as many pieces, and what uses them doesn't say that they are in another order."""
    if len(pieces) != len(originals):
        return False
    roles, of_originals = ([piece.role for piece in product] for product in (pieces, originals))
    if sorted(roles) != sorted(of_originals):
        roles, of_originals = ([role.first for role in product] for product in (roles, of_originals))
    return roles == of_originals or sorted(roles) != sorted(of_originals)


def head_sizes(network: Network, unit: Unit) -> list[int]:
    """Return the sizes of the last axes into which reshapes divide the features of a unit, except very small ones."""
    sizes: dict[int, None] = {}
    value = unit.output
    for _ in range(3):
        following = network.consumers.get(value, [])
        for node in following:
            if node.op == "reshape":
                last = node.outputs[0].shape[-1]
                if isinstance(last, int) and 2 < last < unit.size and last % 2 == 0:
                    sizes[last] = None
        moving = [node for node in following if get(node.op).traits.moves == "first"]
        if len(moving) != 1:
            break
        value = moving[0].outputs[0]
    return list(sizes)


class _Pieces:
    def __init__(self, network: Network, unit: Unit) -> None:
        self.network = network
        self.unit = unit
        self.parent = np.arange(unit.size)
        self.order: dict[int, None] = {}
        """The features in the order in which they are used."""
        self.roles: dict[int, Role] = {}
        """For features, what uses them first."""
        self.means: set[Value] = set()
        """Means of squares, and what is computed from them."""

    def pieces(self) -> list[Piece]:
        """Return the pieces."""
        numbers = self.unit.features
        tracked: dict[Value, Array] = {self.unit.output: numbers}
        if self.unit.output in self.network.program.outputs:
            self._end(numbers, Role("result"))
        start = self.network.rank[self.unit.output]
        for node in self.network.program.nodes[start + 1 :]:
            if any(value in tracked for value in node.inputs if value is not None):
                self._follow(node, tracked)
        members: dict[int, list[int]] = {}
        for feature in range(self.unit.size):
            members.setdefault(self._root(feature), []).append(feature)
        used = [features for features in members.values() if any(f in self.order for f in features)]
        idle = sorted({*range(self.unit.size)} - {f for features in used for f in features})
        rank = {feature: number for number, feature in enumerate(self.order)}
        for features in used:
            if all(feature in rank for feature in features):
                features.sort(key=rank.__getitem__)
        groups = [*used, idle] if idle else used
        return [
            Piece(np.asarray(features, np.int64), next((self.roles[f] for f in features if f in self.roles), Role()))
            for features in sorted(groups, key=min)
        ]

    def _follow(self, node: Node, tracked: dict[Value, Array]) -> None:
        """Track the features through a node, or end where it isn't linear."""
        positions = [p for p, value in enumerate(node.inputs) if value is not None and value in tracked]
        numbers = {p: tracked[value] for p in positions if (value := node.inputs[p]) is not None}
        result = self._through(node, numbers)
        if result is None:
            for position, of_operand in numbers.items():
                self._end(of_operand, self._role(node, position))
            return
        tracked[node.outputs[0]] = result
        if node.outputs[0] in self.network.program.outputs:
            self._end(result, Role("result"))

    def _role(self, node: Node, position: int) -> Role:
        paths = {(user.op, after.op) for user in self._users(node) for after in self._users(user)}
        return Role(node.op, position if node.op == "matmul" else 0, tuple(sorted(paths)))

    def _users(self, node: Node) -> Iterator[Node]:
        """Yield the nodes that use a node's result, perhaps after it was moved."""
        for user in self.network.consumers.get(node.outputs[0], []):
            if get(user.op).traits.moves == "first":
                yield from self._users(user)
            else:
                yield user

    def _is_taken_apart(self, node: Node) -> bool:
        """Whether only parts of a node's result are used, perhaps after a function of each element."""
        following = self.network.consumers.get(node.outputs[0], [])
        return bool(following) and all(
            user.op == "slice"
            or (len(user.inputs) == 1 and get(user.op).traits.elementwise and self._is_taken_apart(user))
            for user in following
        )

    def _through(self, node: Node, numbers: dict[int, Array]) -> Array | None:
        """Return the features in a node's result; None if it isn't linear in them."""
        traits = get(node.op).traits
        others = [v for p, v in enumerate(node.inputs) if v is not None and p not in numbers]
        are_static = all(value in self.network.static for value in others)
        if node.op in ("cast", "neg", "stop_gradient"):
            return next(iter(numbers.values()))
        if node.op in ("add", "sqrt", "rsqrt", "pow") and are_static and node.inputs[0] in self.means:
            self.means.add(node.outputs[0])
            return numbers[0]
        if traits.moves == "first" and numbers.keys() == {0} and are_static:
            arrays = [None if v is None or p == 0 else self._static(v) for p, v in enumerate(node.inputs)]
            return self.network.moved(node, numbers, arrays)
        if node.op == "concat":
            return self.network.moved(node, numbers, [None] * len(node.inputs))
        if node.op == "pad" and are_static:
            arrays = [None if v is None or p == 0 else self._static(v) for p, v in enumerate(node.inputs)]
            return self.network.moved(node, numbers, arrays)
        if node.op in ("mul", "div") and len(numbers) == 1 and are_static and (node.op == "mul" or 0 in numbers):
            return self._broadcast(node, next(iter(numbers.values())))
        if node.op in ("add", "sub") and len(numbers) == 2:
            first, second = (self._broadcast(node, numbers[p]) for p in (0, 1))
            self._unite_pairs(first, second)
            return np.where(first >= 0, first, second)
        if node.op in ("add", "sub") and (are_static or self._is_taken_apart(node)):
            return self._broadcast(node, next(iter(numbers.values())))
        if traits.elementwise and len(node.inputs) == 1 and self._is_taken_apart(node):
            self._set_roles(numbers[0], self._role(node, 0))
            return numbers[0]
        return self._in_norm(node, numbers)

    def _in_norm(self, node: Node, numbers: dict[int, Array]) -> Array | None:
        """Return the features in a step of a norm whose result is taken apart; those along its axes belong together."""
        if node.op == "rms_norm" and numbers.keys() == {0} and self._is_taken_apart(node):
            rank = numbers[0].ndim
            self._reduced(numbers[0], tuple(range(rank - node.attributes["axes_count"], rank)))
            return numbers[0]
        if node.op == "mul" and node.inputs[0] is node.inputs[1]:
            return numbers[0]
        if node.op == "reduce_mean" and node.attributes["keepdims"] and node.attributes["axes"]:
            self.means.add(node.outputs[0])
            return self._reduced(numbers[0], node.attributes["axes"])
        if node.op in ("mul", "div") and numbers.keys() == {0, 1} and self._is_taken_apart(node):
            first, second = (self._broadcast(node, numbers[p]) for p in (0, 1))
            if not self.means.isdisjoint(node.inputs) and self._are_together(first, second):
                return first
        return None

    def _reduced(self, numbers: Array, axes: Sequence[int]) -> Array:
        """Unite the features along axes, and return the first of each."""
        first = numbers
        for axis in axes:
            first = first.take([0], axis)
        self._unite_pairs(np.broadcast_to(first, numbers.shape), numbers)
        return first

    def _are_together(self, first: Array, second: Array) -> bool:
        pairs = np.unique(np.stack([first.reshape(-1), second.reshape(-1)]), axis=1)
        return bool(pairs.min() >= 0) and all(self._root(a) == self._root(b) for a, b in pairs.T.tolist())

    def _static(self, value: Value) -> Array:
        return self.network.static_array(value, self.network.stored, {})

    def _broadcast(self, node: Node, numbers: Array) -> Array:
        return np.broadcast_to(numbers, [int(str(dim)) for dim in node.outputs[0].shape])

    def _end(self, numbers: Array, role: Role) -> None:
        """Unite the features that an operation has together."""
        features, first = np.unique(numbers, return_index=True)
        inside = features >= 0
        features = features[inside][np.argsort(first[inside])]
        self.order.update(dict.fromkeys(features.tolist()))
        self._set_roles(features, role)
        self._unite(features.tolist())

    def _set_roles(self, features: Array, role: Role) -> None:
        for feature in np.unique(features[features >= 0]).tolist():
            self.roles.setdefault(feature, role)

    def _unite_pairs(self, first: Array, second: Array) -> None:
        pairs = np.unique(np.stack([first.reshape(-1), second.reshape(-1)]), axis=1)
        for a, b in pairs.T.tolist():
            if a >= 0 and b >= 0:
                self._unite([a, b])

    def _unite(self, features: Iterable[int]) -> None:
        roots = [self._root(feature) for feature in features]
        for root in roots[1:]:
            self.parent[root] = roots[0]
            roots[0] = self._root(roots[0])

    def _root(self, feature: int) -> int:
        while self.parent[feature] != feature:
            self.parent[feature] = self.parent[self.parent[feature]]
            feature = int(self.parent[feature])
        return feature
