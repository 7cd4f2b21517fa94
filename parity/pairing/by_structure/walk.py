"""The walk through the candidate, in the order in which it computes: each unit is given the reference's elements.

A unit whose data are a value of the reference does what one of the units there does that this value enters. Which one
of several, and in what order of rows, is tried: the one is taken with which most of what follows agrees. If, in the
end, what enters a later unit is no value of the reference, the walk goes back to the choices that this depends on. If
none of them helps, there is a difference in the code; then the best choices stay, the reference's value is put in its
place, and the walk goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....runtime.ir.types import Value, is_floating
from ....runtime.ops.registry import get
from ...sides.records import Array
from .fillings import Option
from .following_values import FollowingValues
from .network import Network
from .options import Options
from .reference import Reference
from .state import Choice, Result, State, in_shape
from .structure import Partners, may_share_work
from .units import MATRIX, OTHER, TABLE, VECTOR, Unit, units_of

MOST_RETURNS = 80
"""How often the walk goes back for one value that doesn't agree."""
MOST_TRIED = 40
"""The most options of a choice that are tried."""


class Walk:
    """The walk.

    Args:
        reference: the reference.
        network: the candidate.
    """

    def __init__(self, reference: Reference, network: Network) -> None:
        self.reference = reference
        self.network = network
        self.units = units_of(network)
        self.options = Options(reference, network)
        self.partners = Partners(reference.units, self.units)
        self.following = FollowingValues(reference, network, self.units, self.options)
        self.ancestors = self.following.ancestors
        self.stack: list[Choice] = []
        self.tried = 0
        self.returns = 0
        self.best: tuple[int, State, list[Choice]] | None = None
        self.settled: set[int] = set()
        self.differences: list[Unit] = []
        self.failing = -1

    def run(self) -> Result:
        """Walk to the end."""
        inputs = {
            value: [arrays[position] for arrays in self.network.samples]
            for position, value in enumerate(self.network.program.inputs)
        }
        index = self.reference.network.index
        empty = {name: np.full(array.shape, -1, index) for name, array in self.network.stored.items()}
        state = State(inputs, empty)
        unfilled: dict[int, Unit] = {}
        self.following.advance(state)
        while True:
            unit = self._next(state)
            if unit is None:
                missing = self._missing_output(state)
                if missing is None or (back := self._back(state, missing)) is None:
                    break
                state = back
                continue
            if unit.kind == MATRIX and unit.number not in self.settled and not self._is_known(state, unit):
                back = self._back(state, unit.data)
                if back is not None:
                    state = back
                    continue
                self.settled.add(unit.number)
                continue
            state, filled = self._fill(state, unit)
            if not filled:
                unfilled[unit.number] = unit
        left = [unit for number, unit in unfilled.items() if number in state.done]
        return Result(state.numbers, self.tried, self.differences, left)

    # --- units in order ---------------------------------------------------------------------------------------------

    def _next(self, state: State) -> Unit | None:
        """Return the first unit that isn't filled, and whose data are known."""
        for unit in self.units:
            if unit.number not in state.done and (unit.data is None or unit.data in state.values):
                return unit
        return None

    def _is_known(self, state: State, unit: Unit) -> bool:
        """Whether what enters a unit is a value of the reference; if it enters such a unit there, choices stay."""
        if unit.data is None or unit.data in self.network.program.inputs:
            return True
        if not self._is_made_of_known(state, unit.data) and not self.options.absorbed.before(unit, state.values):
            return False
        bits = self.ancestors.get(unit.data, 0)
        if any(may_share_work(unit, original) for original in self._known_others(state, unit)):
            self.stack = [choice for choice in self.stack if not bits >> choice.unit.number & 1]
        if unit.number > self.failing:
            self.best, self.returns, self.failing = None, 0, unit.number
        return True

    def _is_made_of_known(self, state: State, value: Value) -> bool:
        """Whether a value is one of the reference's, or only put together of such, or taken from one."""
        if state.agrees.get(value, value in self.network.program.inputs or value in self.network.static):
            return True
        node = self.network.program.producers.get(value)
        if node is None or not (get(node.op).traits.moves == "first" or node.op in ("concat", "pad", "cast")):
            return False
        return all(v is None or self._is_made_of_known(state, v) for v in node.inputs)

    def _entering(self, state: State, value: Value) -> Value:
        """Return the value of which a value that is no value of the reference is a padded one."""
        node = self.network.program.producers.get(value)
        while (
            node is not None and node.op == "pad" and not state.agrees.get(value, False) and node.inputs[0] is not None
        ):
            value = node.inputs[0]
            node = self.network.program.producers.get(value)
        return value

    def _missing_output(self, state: State) -> Value | None:
        """Return an output that isn't one of the reference's; None if all are."""
        for value in self.network.program.outputs:
            if not state.agrees.get(value, True):
                return value
        return None

    # --- filling ----------------------------------------------------------------------------------------------------

    def _fill(self, state: State, unit: Unit) -> tuple[State, bool]:
        """Return the state after a unit is filled, and whether the reference has something for it."""
        trace = self.network.trace(unit.operand)
        if trace is not None and self._is_full(state, unit):
            return self.following.end(state.copy(), unit), True
        known = self._known_others(state, unit)
        data = None if unit.data is None else state.values[self._entering(state, unit.data)]
        if not known and data is not None:
            find = self.options.distances if is_floating(data[0].dtype) else self.options.joined
            options = find(unit, data) or self.options.in_another_association(unit, state.values, state.taken)
            if options:
                return self._choose(state, Choice(unit, None, state, options)), True
        is_sure = unit.data is not None and state.agrees.get(unit.data, False)
        for originals, entering in ((known, data), (self.partners.of(unit), None)):
            options = self.options.whole(unit, originals, entering, state.taken)
            if not known and is_sure:
                options += self.options.zeros(unit) if originals is not known else []
            stack = list(self.stack)
            is_guess = not known and unit.kind in (VECTOR, OTHER) and (is_sure or self._follows_guess(unit))
            whole = self._choose(state, Choice(unit, None, state, options, is_guess=is_guess)) if options else None
            if whole is not None and unit.kind == VECTOR and whole.apart > state.apart:
                whole = self._reordered(state, unit, originals, whole) if entering is not None else whole
            fresh = frozenset() if whole is None else whole.taken - state.taken
            fits = any(
                option.fits and option.taken.isdisjoint(state.taken) and option.taken <= fresh for option in options
            )
            if whole is not None and fits and whole.apart == state.apart:
                return whole, True
            stack_of_whole, self.stack = self.stack, stack
            in_pieces = self._fill_pieces(state, unit, originals, entering)
            if in_pieces is not None and (whole is None or whole.agreeing - in_pieces.agreeing < (not fits)):
                return in_pieces, True
            if whole is not None:
                self.stack = stack_of_whole
                return whole, True
        return self.following.end(state.copy(), unit), False

    def _reordered(self, state: State, unit: Unit, originals: Sequence[Unit], whole: State) -> State:
        """Return the state with the rows of a product before a vector in the order with which more agrees behind it.

        The rows of queries or keys that are normed agree in any order, up to the gain that follows; what a rotary
        embedding turns doesn't. So the order shows here first, and each product's by itself.
        """
        best: tuple[State, int, Option] | None = None
        bits = self.ancestors.get(unit.data, 0) if unit.data is not None else 0
        for place, choice in enumerate(self.stack):
            orders = choice.spare if bits >> choice.unit.number & 1 else ()
            for order in (order for order in orders if order.taken <= state.taken):
                before = self.following.exchanged(state, choice, order)
                entering = before.values.get(unit.data) if unit.data is not None else None
                for option in self.options.whole(unit, originals, entering, before.taken)[:1]:
                    result = self.following.with_option(Choice(unit, None, before, []), option)
                    self.tried += 1
                    if result is not None and result.agreeing > (whole if best is None else best[0]).agreeing:
                        best = (result, place, order)
        if best is None:
            return whole
        result, place, order = best
        choice = self.stack[place]
        for number in range(place + 1, len(self.stack)):
            later = self.stack[number]
            self.stack[number] = replace(later, before=self.following.exchanged(later.before, choice, order))
        self.stack[place] = replace(choice, spare=[option for option in choice.spare if option is not order])
        return result

    def _follows_guess(self, unit: Unit) -> bool:
        """Whether what enters a unit depends on a guess."""
        bits = 0 if unit.data is None else self.ancestors.get(unit.data, 0)
        return any(choice.is_guess and bits >> choice.unit.number & 1 for choice in self.stack)

    def _fill_pieces(
        self, state: State, unit: Unit, originals: Sequence[Unit], entering: Sequence[Array] | None
    ) -> State | None:
        """Return the state after the pieces of a unit are filled; None if the reference has nothing for any of them."""
        count = len(self.options.pieces(unit)) if originals and unit.kind in (MATRIX, TABLE) else 0
        filled = False
        for number in range(count):
            if (unit.number, number) in state.pieces:
                filled = True
                continue
            options = self.options.piece(unit, number, originals, entering, state.taken)
            if options:
                state = self._choose(state, Choice(unit, number, state, options))
                filled = True
        if not filled:
            return None
        return state if unit.number in state.done else self.following.end(state.copy(), unit)

    def _is_full(self, state: State, unit: Unit) -> bool:
        """Whether all elements that a unit uses are chosen, since another one uses them, too."""
        operands = [unit.operand] if unit.bias_operand is None else [unit.operand, unit.bias_operand]
        for operand in operands:
            trace = self.network.trace(operand)
            if trace is None:
                return False
            places = trace.places[trace.places >= 0]
            if np.any(state.numbers[trace.name].reshape(-1)[places] < 0):
                return False
        return True

    def _known_others(self, state: State, unit: Unit) -> list[Unit]:
        """Return the units of the reference that what enters a unit enters, too."""
        if unit.data is None:
            return []
        arrays = state.values[self._entering(state, unit.data)]
        if is_floating(arrays[0].dtype):
            originals = self.reference.units_of_data(arrays)
        else:
            originals = [
                original
                for original in self.reference.units
                if original.kind == TABLE and self._is_same_place(arrays, original)
            ]
        fitting = [
            original
            for original in originals
            if original.kind == unit.kind or {unit.kind, original.kind} <= {VECTOR, OTHER}
        ]
        return self.partners.sorted(unit, fitting)

    def _is_same_place(self, arrays: Sequence[Array], original: Unit) -> bool:
        """Whether whole numbers are those that enter a table of the reference, or are apart from them by one number."""
        original_data = None if original.data is None else self.reference.arrays.get(original.data)
        if original_data is None or original_data[0].size != arrays[0].size:
            return False
        apart = [
            a.reshape(-1).astype(np.int64) - b.reshape(-1).astype(np.int64)
            for a, b in zip(arrays, original_data, strict=True)
        ]
        return all(x.size == 0 or np.all(x == apart[0][0]) for x in apart)

    def _choose(self, state: State, choice: Choice) -> State:
        """Try the options of a choice, and return the state with the best."""
        results: list[tuple[int, int, State]] = []
        options = choice.options[:MOST_TRIED]
        for number, option in enumerate(options):
            result = self.following.with_option(choice, option)
            if result is None:
                continue
            results.append((result.agreeing - state.agreeing, number, result))
            self.tried += number > 0
            if result.apart == state.apart and result.agreeing > state.agreeing:
                break  # all that follows agrees
        if not results:
            return self.following.end(state.copy(), choice.unit)
        tried = {number for _, number, _ in results}
        results.sort(key=lambda item: (-item[0], item[1]))
        plain = max((gain for gain, number, _ in results if not options[number].is_reordered), default=-1)
        best = results[0][0]
        left = [(gain, options[n]) for gain, n, _ in results[1:] if not options[n].is_reordered or gain > plain]
        equal = [option for gain, option in left if gain == best]
        equal += [option for number, option in enumerate(options) if number not in tried and not option.is_reordered]
        worse = [option for gain, option in left if gain < best]
        spare = [o for o in options if o not in equal and o not in worse and o is not options[results[0][1]]]
        if equal or worse or spare:
            of_best = results[0][2].agreeing
            self.stack.append(replace(choice, options=equal, worse=worse, spare=spare, agreeing=of_best))
        return results[0][2]

    # --- going back -------------------------------------------------------------------------------------------------

    def _back(self, state: State, value: Value | None) -> State | None:
        """Return the state after another option of the last choice that a value depends on; None if it is given up."""
        bits = 0 if value is None else self.ancestors.get(value, 0)
        if self.best is None or state.agreeing > self.best[0]:
            self.best = (state.agreeing, state, list(self.stack))
        while self.returns < MOST_RETURNS:
            relevant = [choice for choice in self.stack if bits >> choice.unit.number & 1]
            result = self._as_good(relevant)
            if result is not None:
                return result
            choice = next((c for c in reversed(relevant) if c.worse and not c.is_guess), None)
            choice = choice or next((c for c in reversed(relevant) if c.worse), None)
            choice = choice or next((c for c in reversed(relevant) if c.spare), None)
            if choice is None:
                break
            option, *rest = choice.worse or choice.spare
            left = replace(choice, worse=rest) if choice.worse else replace(choice, spare=rest)
            self.returns += 1
            self.tried += 1
            del self.stack[self.stack.index(choice) :]
            result = self.following.with_option(choice, option)
            self.stack.append(left)
            if result is not None:
                return result
        _, best, stack = self.best
        self.stack = [choice for choice in stack if not bits >> choice.unit.number & 1]
        self.best, self.returns = None, 0
        self._give_up(best, value)
        state.values, state.numbers, state.taken = best.values, best.numbers, best.taken
        state.done, state.pieces, state.agrees = best.done, best.pieces, best.agrees
        return None

    def _as_good(self, relevant: Sequence[Choice]) -> State | None:
        """Return the state after another option of the last choice that has one with which as much agrees."""
        for is_guess in (False, True):
            for choice in reversed(relevant):
                while choice.options and choice.is_guess == is_guess:
                    option = choice.options.pop(0)
                    self.tried += 1
                    result = self.following.with_option(choice, option)
                    if result is not None and result.agreeing >= choice.agreeing:
                        self.returns += 1
                        del self.stack[self.stack.index(choice) + 1 :]
                        return result
                    if result is not None:
                        choice.worse.append(option)
        return None

    def _give_up(self, state: State, value: Value | None) -> None:
        """Note a difference, and put the reference's value in its place if the structure tells which one it is."""
        unit = next((unit for unit in self.units if unit.data is value), None)
        if unit is None or value is None:
            return
        self.differences.append(unit)
        self.settled.add(unit.number)
        partners = [original for original in self.partners.of(unit) if original.data is not None]
        for original in partners[:1]:
            assert original.data is not None, "it has data"
            arrays = self.reference.arrays.get(original.data)
            shape = tuple(int(str(dim)) for dim in value.shape)
            if arrays is not None and (fed := in_shape(arrays, shape)) is not None:
                state.values[value] = fed
                state.agrees[value] = True
