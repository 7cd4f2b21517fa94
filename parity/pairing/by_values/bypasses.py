"""Values of a file that get past a Cell's boundaries, so that gradients there aren't those of the module.

An optimizer of files computes one product for three Cells and divides the result, or leaves a copy of a tensor in
another layout for the residual beside a block. Forward, each Cell is still given what the module gives it. Backward,
part of a gradient takes the other way: it is missing at one boundary, and comes in addition to what is fed at others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ...sides.records import INPUT, OUTPUT, Key
from .ownership import Ownership


def bypassed_gradients(
    program: Program, ownership: Ownership, trained: Collection[Key]
) -> tuple[frozenset[Key], frozenset[str]]:
    """Return the boundaries at which gradients can't be judged, and the Cells of which those of parameters can't.

    Args:
        program: the program of a file.
        ownership: the Cells that own its nodes.
        trained: the boundaries at which a gradient arrives in the module.
    """
    return _Bypasses(program, ownership, trained).excused()


class _Bypasses:
    def __init__(self, program: Program, ownership: Ownership, trained: Collection[Key]) -> None:
        self.program = program
        self.ownership = ownership
        self.trained = trained
        self.at: dict[Value, list[tuple[int, Key]]] = {}
        self.ways: dict[tuple[int, str], list[Key]] = {}
        self.given: dict[int, list[Value]] = {}
        self.passed_on: dict[Value, list[int]] = {}
        for number, key, value in ownership.events:
            if key.kind == OUTPUT:
                for part in self._parts(value):
                    self.passed_on.setdefault(part, []).append(number)
            self.at.setdefault(value, []).append((number, key))
            self.ways.setdefault((number, key.kind), []).append(key)
            if key.kind == INPUT:
                self.given.setdefault(number, []).append(value)
        self.keys: set[Key] = set()
        self.paths: set[str] = set()

    def excused(self) -> tuple[frozenset[Key], frozenset[str]]:
        """Return the boundaries and the paths."""
        polluted: dict[Value, None] = {}
        for value, using in self._uses():
            left, entered = self._missing(value, using)
            left += self._taken_before(value, using)
            if left or entered:
                polluted[value] = None
            # what is fed at the inputs of these calls comes in addition to what their values get another way
            polluted |= {given: None for call in entered for given in self.given.get(call, ())}
            for way in (*((call, OUTPUT) for call in left), *((call, INPUT) for call in entered)):
                self.keys.update(self.ways.get(way, ()))
        for value, call in self._stored_beside():
            polluted[value] = None
            self.keys.update(self.ways[call, INPUT])
            self.paths.update(
                self.ownership.calls[number].path for number in (0, *self._around(call)) if number != call
            )
        self._follow_back(list(polluted))
        for call in (*self._unused(), *self._changing()):
            self.keys.update(self.ways.get((call, OUTPUT), ()))
        return frozenset(self.keys), frozenset(self.paths)

    def _uses(self) -> Iterator[tuple[Value, int]]:
        """Yield each value that has a gradient, with each call that uses it; the root uses results."""
        trained = (p.value for p in self.program.parameters.values() if p.trainable)
        varying = {value for value in (*self.program.inputs, *trained) if is_floating(value.dtype)}
        for node in self.program.nodes:
            if not varying.isdisjoint(node.inputs):
                varying.update(value for value in node.outputs if is_floating(value.dtype))
        needed = set(self.program.outputs)
        for node in reversed(self.program.nodes):
            if needed.isdisjoint(node.outputs):
                continue
            needed.update(value for value in node.inputs if value is not None)
            for value in node.inputs:
                if value is not None and value not in self.program.constant_data and value in varying:
                    yield value, self.ownership.owner.get(node, 0)
        yield from ((value, 0) for value in self.program.outputs if value in varying)

    def _unused(self) -> Iterator[int]:
        """Yield the calls of which a result that is trained in the module is a value that nothing is computed from.

        A layer returns its states and the last one. Of a single step they are equal, so that a port may use one of them
        for both: all of the gradient arrives there.
        """
        needed: set[Value | None] = set(self.program.outputs)
        for node in reversed(self.program.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
        for number, key, value in self.ownership.events:
            if number and key.kind == OUTPUT and key in self.trained and value not in needed:
                yield number

    def _changing(self) -> Iterator[int]:
        """Yield the calls whose result the module also takes from inside a Cell around them that doesn't return it.

        An activation in place at the head of a block changes what the block is given, for the residual beside it, too.
        """
        for around in self.ownership.changing:
            for call, given in self.given.items():
                is_inside = call != around and self.ownership.is_inside(call, around)
                if is_inside and not set(given).isdisjoint(self.given.get(around, ())):
                    yield call

    def _stored_beside(self) -> Iterator[tuple[Value, int]]:
        """Yield the values that calls are given and that parameters alone make, with the calls that take these, too.

        The module gives queries to each of its layers, repeated for the batch. A port that adds the parameter itself
        to zeros first has the repeated queries as a value, but uses it once.
        """
        sources = {p.value: frozenset({p.value}) for p in self.program.parameters.values() if p.trainable}
        varying = set(self.program.inputs)
        users: dict[Value, set[int]] = {}
        for node in self.program.nodes:
            owner, computed = self.ownership.owner.get(node, 0), frozenset[Value]()
            for value in node.inputs:
                if value is not None and value in sources:
                    users.setdefault(value, set()).add(owner)
                    computed |= sources[value]
            if varying.isdisjoint(node.inputs):
                sources |= dict.fromkeys(node.outputs, computed)
            else:
                varying.update(node.outputs)
        for given in self.at.keys() & (sources.keys() - self.program.constant_data.keys()):
            beside = [value for value in users if value is not given and sources[value] & sources[given]]
            for call in {call for call, key in self.at[given] if key.kind == INPUT and call}:
                if any(self._gets_past(value, call, users[value]) for value in beside):
                    yield given, call

    def _gets_past(self, value: Value, call: int, users: Collection[int]) -> bool:
        """Whether a value from outside is used inside a call without being given to it."""
        if (call, INPUT) in {(number, key.kind) for number, key in self.at.get(value, ())}:
            return False
        is_own = self.ownership.is_inside(self._computing(value), call) and value in self.program.producers
        return not is_own and any(self.ownership.is_inside(user, call) for user in users)

    def _computing(self, value: Value) -> int:
        node = self.program.producers.get(value)
        return 0 if node is None else self.ownership.owner.get(node, 0)

    def _missing(self, value: Value, using: int) -> tuple[list[int], list[int]]:
        """Return the calls that a value leaves, and those that it enters, without crossing their boundaries."""
        computing = self._computing(value)
        crossed = {(number, key.kind) for number, key in self.at.get(value, ())}
        left = [call for call in self._around(computing) if not self.ownership.is_inside(using, call)]
        entered = [call for call in self._around(using) if not self.ownership.is_inside(computing, call)]
        return (
            [call for call in left if (call, OUTPUT) not in crossed],
            [call for call in entered if (call, INPUT) not in crossed],
        )

    def _parts(self, value: Value) -> Iterator[Value]:
        """Yield the values of which a result is put together."""
        node = self.program.producers.get(value)
        if node is not None and node.op == "concat":
            yield from (operand for operand in node.inputs if operand is not None)

    def _taken_before(self, value: Value, using: int) -> list[int]:
        """Return the calls that pass on a value of others as a part of their result, where it isn't taken from that.

        A dense block returns what it was given beside what it has computed. A network that puts these together in
        another order takes the first part from where the block did.
        """
        computing = self._computing(value)
        return [
            call
            for call in self.passed_on.get(value, ())
            if not self.ownership.is_inside(using, call) and not self.ownership.is_inside(computing, call)
        ]

    def _around(self, call: int) -> Iterator[int]:
        """Yield a call and those around it, without the root."""
        number: int | None = call
        while number:
            yield number
            number = self.ownership.calls[number].parent

    def _follow_back(self, waiting: list[Value]) -> None:
        """Follow gradients back as far as the next boundaries, where they are replaced."""
        visited: set[Value] = set()
        while waiting:
            value = waiting.pop()
            if value in visited:
                continue
            visited.add(value)
            self.keys |= {key for _, key in self.at.get(value, ())}
            computing = self._computing(value)
            if any(number == computing and key.kind == OUTPUT for number, key in self.at.get(value, ())):
                continue
            node = self.program.producers.get(value)
            if node is None:
                continue
            operands = [operand for operand in node.inputs if operand is not None]
            if any(operand in self.program.constant_data for operand in operands):
                self.paths.add(self.ownership.calls[computing].path)
            for operand in operands:
                if operand in self.program.constant_data or not is_floating(operand.dtype):
                    continue
                boundaries = [key for _, key in self.at.get(operand, ())]
                self.keys.update(boundaries)
                # what is fed where an output leaves a Cell is whole; what is fed at an input is that Cell's part alone
                if not any(key.kind == OUTPUT for key in boundaries):
                    waiting.append(operand)
