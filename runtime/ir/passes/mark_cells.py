"""`mark_cells`: contiguous Cell calls and boundaries for a program whose nodes only name their Cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...errors import ProgramError
from ..program import Program
from ..sizes import symbols_used
from ..types import CellCall, Node, Value


def mark_cells(program: Program) -> Program:
    """Make the nodes of each Cell call contiguous, and mark the values that enter and leave it with boundaries.

    A Cell becomes several calls if its nodes can't be contiguous: if some of them depend on outside nodes that in turn
    depend on other nodes of the Cell.
    """
    order = _Order(program)
    root = order.run()
    return _Marker(program, root).build()


@dataclass
class _Call:
    """One call: its own nodes and the calls inside it, in order."""

    path: str
    class_name: str
    body: list[Node | _Call] = field(default_factory=list)

    def nodes(self) -> Iterator[Node]:
        for item in self.body:
            if isinstance(item, _Call):
                yield from item.nodes()
            else:
                yield item


class _Order:
    """Finds an order of the nodes that interrupts as few Cells as possible."""

    def __init__(self, program: Program) -> None:
        self.program = program
        calls = program.calls
        self.of_call: dict[int, list[Node | int]] = {number: [] for number in range(len(calls))}
        entered: set[int] = {0}
        self.inside: dict[int, list[Node]] = {number: [] for number in range(len(calls))}
        for node in program.nodes:
            number: int | None = node.cell
            self.of_call[node.cell].append(node)
            while number is not None:
                self.inside[number].append(node)
                parent = calls[number].parent
                if number not in entered and parent is not None:
                    # before the first node inside it
                    self.of_call[parent].append(number)
                entered.add(number)
                number = parent
        size_producers = {r.symbol: n for n, readings in program.symbol_readings.items() for r in readings}
        self.needs: dict[Node, set[Node]] = {}
        for node in program.nodes:
            makers = {program.producers[value] for value in node.inputs if value in program.producers}
            self.needs[node] = makers | {size_producers[name] for name in symbols_used(node) if name in size_producers}
        self.outside: dict[int, set[Node]] = {}
        for number, nodes in self.inside.items():
            own_nodes = set(nodes)
            self.outside[number] = {need for node in nodes for need in self.needs[node]} - own_nodes
        self.done: set[Node] = set()

    def run(self) -> _Call:
        """Return the call of the root, with all others inside it."""
        return self._call(0, partly=False)

    def _call(self, number: int, *, partly: bool) -> _Call:
        """Schedule the remaining nodes of a call; with `partly`, only as many as are ready."""
        call = self.program.calls[number]
        result = _Call(call.path, call.class_name)
        waiting = self.of_call[number]
        while waiting:
            ready = next((item for item in waiting if self._is_ready(item)), None)
            if ready is None:
                started = next((i for i in waiting if isinstance(i, int) and self._can_start(i)), None)
                if started is None:
                    if partly:
                        break
                    raise ProgramError("the nodes of the program depend on each other in a cycle")
                result.body.append(self._call(started, partly=True))
            elif isinstance(ready, int):
                waiting.remove(ready)
                result.body.append(self._call(ready, partly=False))
            else:
                waiting.remove(ready)
                self.done.add(ready)
                result.body.append(ready)
        return result

    def _is_ready(self, item: Node | int) -> bool:
        needs = self.outside[item] if isinstance(item, int) else self.needs[item]
        return needs <= self.done

    def _can_start(self, number: int) -> bool:
        """Whether any node of a call is ready."""
        return any(node not in self.done and self.needs[node] <= self.done for node in self.inside[number])


class _Marker:
    """Builds the program in that order, with boundaries."""

    def __init__(self, program: Program, root: _Call) -> None:
        self.program = program
        self.root = root
        self.stored = set(program.constant_data)
        self.calls: list[CellCall] = []
        self.nodes: list[Node] = []
        self.names = {value.name for value in (*program.inputs, *program.constant_data, *program.producers)}
        self.indices: dict[str, int] = {}
        self.numbers: Counter[str] = Counter()
        self.current: dict[Value, Value] = {}  # the name of each value in the current call
        self.before: list[tuple[Value, Value]] = []  # undo log of `current`
        results = (*program.outputs, *program.updates.values())
        self.uses: dict[Value, int] = {}
        for value in (*results, *(v for node in program.nodes for v in node.inputs if v is not None)):
            self.uses[value] = self.uses.get(value, 0) + 1

    def build(self) -> Program:
        """Return the program."""
        program = self.program
        outputs = self._call(self.root, None, program.inputs, program.outputs)
        buffers = {
            name: buffer if buffer.update is None else type(buffer)(buffer.value, buffer.data, self._now(buffer.update))
            for name, buffer in program.buffers.items()
        }
        return program.replace(
            nodes=tuple(self.nodes), calls=tuple(self.calls), outputs=tuple(outputs), buffers=buffers
        )

    def _now(self, value: Value) -> Value:
        return self.current.get(value, value)

    def _call(
        self, call: _Call, parent: int | None, entering: Iterable[Value], leaving: Sequence[Value]
    ) -> list[Value]:
        """Append a call and return its outputs, each with its own boundary even if a value is returned twice."""
        number = len(self.calls)
        index = self.indices.get(call.path, 0)
        self.indices[call.path] = index + 1
        self.calls.append(CellCall(call.path, call.class_name, index, parent))
        began = len(self.before)
        for position, value in enumerate(entering):
            self._cross(value, self._now(value), number, "input", _identifier(value.name, position))
        for item in call.body:
            if isinstance(item, _Call):
                self._call(item, number, *self._boundary(item))
            else:
                inputs = tuple(None if value is None else self._now(value) for value in item.inputs)
                self.nodes.append(Node(item.op, inputs, item.attributes, item.outputs, number, item.source))
        inside = [self._now(value) for value in leaving]
        slots = ["result"] if len(inside) == 1 else [f"[{position}]" for position in range(len(inside))]
        crossed = [
            self._cross(value, inner, number, "output", slot)
            for value, inner, slot in zip(leaving, inside, slots, strict=True)
        ]
        results = {value: self._now(value) for value in leaving}
        while len(self.before) > began:
            value, name = self.before.pop()
            self.current[value] = name
        for value, name in results.items():
            self._bind(value, name)
        return crossed

    def _cross(self, value: Value, inner: Value, number: int, kind: str, slot: str) -> Value:
        crossed = Value(self._name(f"{value.name}_{kind}"), value.type)
        attributes = {"call": number, "kind": kind, "slot": slot}
        self.nodes.append(Node("boundary", (inner,), attributes, (crossed,), number))
        self._bind(value, crossed)
        return crossed

    def _bind(self, value: Value, name: Value) -> None:
        self.before.append((value, self._now(value)))
        self.current[value] = name

    def _name(self, stem: str) -> str:
        name = stem
        while name in self.names:
            self.numbers[stem] += 1
            name = f"{stem}_{self.numbers[stem]}"
        self.names.add(name)
        return name

    def _boundary(self, call: _Call) -> tuple[list[Value], list[Value]]:
        """Return the values that enter a call, in order of use, and those that leave it."""
        nodes = list(call.nodes())
        results = {value for node in nodes for value in node.outputs}
        use_counts: dict[Value, int] = {}
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    use_counts[value] = use_counts.get(value, 0) + 1
        entering = [value for value in use_counts if value not in results and value not in self.stored]
        leaving = [v for node in nodes for v in node.outputs if self.uses.get(v, 0) > use_counts.get(v, 0)]
        return entering, leaving


def _identifier(name: str, position: int) -> str:
    """Return a value's name as an identifier for a parameter of a function."""
    plain = re.sub(r"\W", "_", name)
    return plain if plain.isidentifier() else f"input_{position}"
