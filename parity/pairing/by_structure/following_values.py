"""`FollowingValues`: what the candidate computes with the elements that are chosen for its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Node, Value, is_floating
from ...sides.records import Array
from .fillings import Filling, Option
from .network import Network
from .options import Options
from .reference import Reference
from .state import Choice, State, Stored
from .units import Unit


class FollowingValues:
    """Computes states of a walk further.

    Args:
        reference: the reference, whose values the computed ones are compared with.
        network: the candidate.
        units: its units.
        options: what its units may be filled with.

    Attributes:
        ancestors: for each value the units that it depends on, as bits.
    """

    def __init__(self, reference: Reference, network: Network, units: Sequence[Unit], options: Options) -> None:
        self._reference = reference
        self._network = network
        self._options = options
        self._by_node: dict[Node, list[Unit]] = {}
        for unit in units:
            for node in unit.nodes:
                self._by_node.setdefault(node, []).append(unit)
        self._products = {unit.product for unit in units if unit.bias is not None}
        self.ancestors = self._ancestors()

    def _ancestors(self) -> dict[Value, int]:
        """Return for each value the units that it depends on, as bits."""
        bits_by_value: dict[Value, int] = {}
        for node in self._network.program.nodes:
            bits = 0
            for value in node.inputs:
                bits |= 0 if value is None else bits_by_value.get(value, 0)
            for unit in self._by_node.get(node, []):
                bits |= 1 << unit.number
            if bits:
                bits_by_value.update(dict.fromkeys(node.outputs, bits))
        return bits_by_value

    def with_option(self, choice: Choice, option: Option) -> State | None:
        """Return the state with an option; None if the network doesn't run with it."""
        state = choice.before.copy()
        for filling in option.fillings:
            _fill(state, filling, state)
        state.taken |= option.taken
        if choice.piece is not None:
            state.pieces |= {(choice.unit.number, choice.piece)}
        try:
            is_last = choice.piece is None or choice.piece == len(self._options.pieces(choice.unit)) - 1
            return self.end(state, choice.unit) if is_last else self.advance(state, choice.unit)
        except CellbridgeError:
            return None

    def end(self, state: State, unit: Unit) -> State:
        """Mark a unit as filled, and compute what follows."""
        state.done |= {unit.number}
        return self.advance(state)

    def advance(self, state: State, partly: Unit | None = None) -> State:
        """Compute what can be computed; of a unit that is filled in part, for this state alone."""
        trial = state if partly is None else state.copy()
        done = trial.done if partly is None else trial.done | {partly.number}
        stored = Stored(self._network, self._reference, trial.numbers)
        known: dict[Value, Array] = {}
        for node in self._network.program.nodes:
            if not node.outputs or node.outputs[0] in trial.values or node.outputs[0] in self._network.static:
                continue
            if any(unit.number not in done for unit in self._by_node.get(node, ())):
                continue
            if any(v is not None and v not in trial.values and v not in self._network.static for v in node.inputs):
                continue
            results: list[tuple[Array, ...]] = []
            for number in range(len(self._network.samples)):
                values = {v: trial.values[v][number] for v in node.inputs if v is not None and v in trial.values}
                results.append(self._network.apply(node, self._network.operands(node, values, stored, known)))
            for position, value in enumerate(node.outputs):
                trial.values[value] = [result[position] for result in results]
                if is_floating(value.dtype) and value not in self._products:  # a unit is one with its bias
                    originals = self._reference.index.find(trial.values[value])
                    if value in self._network.program.outputs and not self._network.consumers.get(value):
                        # what lacks only the factor that the reference multiplies its output with is none
                        originals = [original for original in originals if original in self._reference.outputs]
                    state.agrees[value] = bool(originals)
        return state

    def exchanged(self, state: State, choice: Choice, option: Option) -> State:
        """Return a later state with another option of a choice."""
        state = state.copy()
        for filling in option.fillings:
            _fill(state, filling, choice.before)
        for value in [v for v in state.values if self.ancestors.get(v, 0) >> choice.unit.number & 1]:
            del state.values[value]
            state.agrees.pop(value, None)
        return self.advance(state)


def _fill(state: State, filling: Filling, before: State) -> None:
    """Choose the elements of a filling that weren't chosen before."""
    places, chosen = filling.places.reshape(-1), filling.numbers.reshape(-1)
    fresh = before.numbers[filling.name].reshape(-1)[places] < 0
    numbers = state.numbers[filling.name].copy()
    numbers.reshape(-1)[places[fresh]] = chosen[fresh]
    state.numbers[filling.name] = numbers
