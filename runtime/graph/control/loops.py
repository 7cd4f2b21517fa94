"""Loops: a loop over Python items is unrolled; a loop that depends on tensors becomes the op `loop`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...common import tape
from ...common.dtype import dtype_name, int64
from ...common.tensor import Tensor, from_array
from ...errors import UnsupportedPython
from ...ir.types import INT64, Type
from ...ops import comparison, elementwise
from ...ops.higher_order.loops import loop
from ...ops.higher_order.subprogram_rules import as_tuple
from ...tree import leaves, map_leaves, rebuild
from ..current import Recording, current_recording
from ..objects import is_same
from ..printing import LoopPrints, PrintCall, loop_outputs
from .conditions import is_symbolic, record_branches, truth
from .joining import describe, number_dtype, zeros_like_nested
from .regions import Region, as_value, build_subprogram, operands
from .rewriting import NEXT, RESULT
from .state import Place, State, Undefined, Variable

_ENDLESS = np.iinfo(np.int64).max
_MAX_ATTEMPTS = 50
_NUMBERS = (bool, int, float, np.generic)


@dataclass(frozen=True)
class TensorRange:
    """A `range` whose bounds are int64 tensors without dimensions.

    Attributes:
        start: the first number.
        step: the difference between successive numbers.
        count: the number of numbers.
    """

    start: Tensor
    step: Tensor
    count: Tensor

    @classmethod
    def of(cls, *bounds: Any) -> TensorRange:
        """Like `range(stop)` or `range(start, stop, step)`; raises `TypeError` if a bound isn't an integer."""
        values = [_as_integer(bound) for bound in bounds]
        start, stop, step = [Tensor(0), *values, Tensor(1)] if len(values) == 1 else [*values, Tensor(1)][:3]
        if not is_symbolic(step) and int(step) == 0:
            raise ValueError("range() arg 3 must not be zero")
        count = -((start - stop) // step)  # rounds up, whatever the signs are
        return cls(start, step, elementwise.maximum(count, np.asarray(0, np.int64)))


def _as_integer(bound: Any) -> Tensor:
    tensor = bound if isinstance(bound, Tensor) else Tensor(bound)
    if tensor.dtype.kind not in "iu" or tensor.size != 1:
        raise TypeError(f"a bound of a range must be an integer, but got {describe(bound)}")
    flat: Tensor = elementwise.cast(tensor.reshape(()), dtype=int64)
    return flat


def concrete_loop(items: Iterable[Any], body: Callable[[Any], Any]) -> Any:
    """Run a body for each item; once a tensor decides whether the loop continues, run it under that condition."""
    signal: Any = NEXT
    for item in items:
        if is_symbolic(signal):
            signal = _run_unless_exited(signal, item, body)
        else:
            signal = body(item)
            if not is_symbolic(signal) and signal != NEXT:
                return signal
    return signal


def _run_unless_exited(signal: Tensor, item: Any, body: Callable[[Any], Any]) -> Any:
    return record_branches(_continues(signal), lambda: body(item), lambda: signal)


def _continues(signal: Any) -> Any:
    return comparison.equal(signal, np.asarray(NEXT, np.int64)) if is_symbolic(signal) else signal == NEXT


def try_iteration(trace: Recording, body: Callable[[], Any]) -> Any:
    """Run a body; if a tensor decides whether the loop continues, undo the run."""
    state, recording = State(trace, (body,)), tape.current()
    nodes, calls, printed, memo = len(trace.builder.nodes), len(trace.calls), len(trace.print_entries), dict(trace.memo)
    entries = len(recording.entries) if recording else 0
    signal = body()
    if is_symbolic(signal):
        state.restore(state.changes())
        trace.region_values.update(value for node in trace.builder.nodes[nodes:] for value in node.outputs)
        del trace.builder.nodes[nodes:], trace.calls[calls:], trace.print_entries[printed:]
        trace.memo = memo
        if recording:
            del recording.entries[entries:]
    return signal


def counted_loop(numbers: TensorRange, body: Callable[[Any], Any]) -> Any:
    """Record a loop over a range with tensor bounds, and return the signal of the last iteration."""

    def step(iteration: Tensor) -> tuple[Any, Any]:
        signal = body(numbers.start + iteration * numbers.step)
        return signal, _continues(signal)

    return _Loop(numbers.count, True, step, (body,)).run()


def loop_until(condition: Any, test: Callable[[], Any], body: Callable[[], Any]) -> Any:
    """Record a loop whose end a tensor determines, and return the signal of the last iteration.

    Args:
        condition: the condition before the first iteration.
        test: computes the condition again.
        body: runs one iteration.
    """

    def step(iteration: Tensor) -> tuple[Any, Any]:
        signal = body()
        if is_symbolic(signal):
            return signal, record_branches(_continues(signal), lambda: truth(test()), lambda: False)
        return signal, truth(test()) if signal == NEXT else False

    return _Loop(from_array(np.asarray(_ENDLESS, np.int64)), condition, step, (test, body)).run()


@dataclass
class _Signal:
    """The last signal of the body, as a place."""

    value: Any = NEXT

    def get(self) -> Any:
        """Return the signal."""
        return self.value

    def put(self, value: Any) -> None:
        """Replace the signal."""
        self.value = value

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two signals are equal."""
        return is_same(a, b)

    def __str__(self) -> str:
        return "whether the loop continues"


class _Number(Tensor):
    """A Python number as the tensor that a loop carries."""

    def __init__(self, number: Any, dtype: Any) -> None:
        super().__init__(np.asarray(number, dtype))
        self.number = number


class _Loop:
    """Records a loop of the program.

    The body is run on symbolic variables, repeatedly, until it changes only variables that were symbolic.

    Args:
        limit: the largest number of iterations.
        condition: the condition of the first iteration.
        step: runs the iteration with a given number, and returns the signal and whether another iteration follows.
        functions: the functions whose variables the loop may change.
    """

    def __init__(
        self,
        limit: Tensor,
        condition: Any,
        step: Callable[[Tensor], tuple[Any, Any]],
        functions: tuple[Callable[..., Any], ...],
    ) -> None:
        trace = current_recording()
        self._trace = trace
        self._limit, self._condition, self._step = limit, condition, step
        self._signal = _Signal()
        self._state = State(trace, functions, {"signal": self._signal})
        self._carried: dict[Any, tuple[Place, Any]] = {}

    def run(self) -> Any:
        """Append the loop to the program, and return its signal."""
        for _ in range(_MAX_ATTEMPTS):
            region, variables, iteration = self._attempt()
            if not self._update_carried(region):
                return self._record(region, variables, iteration)
        raise self._refusal("the types of the carried values keep changing")

    def _attempt(self) -> tuple[Region, list[Tensor], Tensor]:
        """Run one iteration on symbolic variables."""
        builder = self._trace.builder
        variables: list[Tensor] = []

        def enter(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            variables.append(from_array(builder.new_value("carried", Type(leaf.dtype, tuple(leaf.shape)))))
            return variables[-1]

        iteration = from_array(builder.new_value("iteration", Type(INT64, ())))

        def run() -> Any:
            for place, initial in self._carried.values():
                place.put(map_leaves(enter, initial))
            self._signal.value, condition = self._step(iteration)
            return condition

        region = Region(self._trace, self._state, {})
        region.run(run)
        return region, variables, iteration

    def _update_carried(self, region: Region) -> bool:
        """Add the state that the body changed to the carried state; return whether there was anything to add."""
        changed = False
        for key, (place, before, now) in region.changes.items():
            if key in self._carried:
                initial = self._carried[key][1]
                wide = self._common_initial(initial, now, str(place))
                changed |= wide is not initial
            elif isinstance(before, Undefined):
                if not (isinstance(place, Variable) and place.is_generated and place.name.endswith(RESULT)):
                    continue
                wide, changed = zeros_like_nested(now), True
            else:
                wide, changed = self._common_initial(before, now, str(place)), True
            self._carried[key] = place, wide
        return changed

    def _common_initial(self, initial: Any, now: Any, what: str) -> Any:
        """Return the initial value that the loop carries: numbers that change become tensors."""
        if is_same(initial, now):
            return initial
        if isinstance(initial, (tuple, list, dict)) and type(initial) is type(now):
            keys = [*initial] if isinstance(initial, dict) else range(len(initial))
            if len(initial) == len(now) and (not isinstance(initial, dict) or [*now] == keys):
                items = [self._common_initial(initial[k], now[k], f"{what}[{k!r}]") for k in keys]
                same = all(a is initial[k] for a, k in zip(items, keys, strict=True))
                return initial if same else rebuild(initial, items)
        elif isinstance(now, (Tensor, *_NUMBERS)) and isinstance(initial, (Tensor, *_NUMBERS)):
            return self._common_initial_number(initial, now, what)
        raise self._refusal(f"{what} is {describe(initial)} before an iteration and {describe(now)} after it")

    def _common_initial_number(self, initial: Any, now: Any, what: str) -> Any:
        dtype = now.dtype if isinstance(now, Tensor) else number_dtype(now)
        if not isinstance(initial, Tensor):
            return _Number(initial, dtype)
        shape = tuple(now.shape) if isinstance(now, Tensor) else ()
        if shape != tuple(initial.shape):
            raise self._refusal(f"{what} has shape {tuple(initial.shape)} before an iteration and {shape} after it")
        if dtype == initial.dtype or (not isinstance(now, Tensor) and np.can_cast(dtype, initial.dtype, "same_kind")):
            return initial
        if isinstance(initial, _Number) and np.can_cast(initial.dtype, dtype, "same_kind"):
            return _Number(initial.number, dtype)
        raise self._refusal(
            f"{what} is {dtype_name(initial.dtype)} before an iteration and {dtype_name(dtype)} after it"
        )

    def _refusal(self, what: str) -> Exception:
        return self._trace.guard.refusal(
            UnsupportedPython,
            f"in a loop that a tensor ends, carried values must keep their dtype and shape: {what}",
            "give it that dtype and shape before the loop, and keep them in it (`.astype`, `ops.zeros`)",
        )

    def _record(self, region: Region, variables: list[Tensor], iteration: Tensor) -> Any:
        """Append the loop, and set all carried state to its final value."""
        trace, builder = self._trace, self._trace.builder
        for place, before, _ in region.changes.values():
            if isinstance(before, Undefined) and isinstance(place, Variable):
                trace.undefined_in_branch.setdefault(
                    place.name, "is defined only in a loop, which may run no iteration"
                )
        initials = [x for _, initial in self._carried.values() for x in leaves(initial) if isinstance(x, Tensor)]
        ends = [region.changes[key][2] if key in region.changes else None for key in self._carried]
        results = []
        for (_, initial), end in zip(self._carried.values(), ends, strict=True):
            for before, after in zip(leaves(initial), leaves(initial if end is None else end), strict=True):
                if isinstance(before, Tensor):
                    results.append(after._data if isinstance(after, Tensor) else np.asarray(after, before.dtype))
        printed = [entry for entry in region.printed if isinstance(entry, PrintCall)]
        if len(printed) < len(region.printed):
            raise trace.guard.refusal(
                UnsupportedPython,
                "a loop inside a loop prints, and tensors end both",
                "print in the outer loop",
            )
        stacked = [value for entry in printed for value in loop_outputs(entry)]
        if not results and not stacked:
            return self._signal.value
        condition = region.result._data if isinstance(region.result, Tensor) else np.asarray(bool(region.result))
        values = [as_value(builder, x) for x in (condition, *results, *stacked)]
        inputs = [iteration._data.value, *(x._data.value for x in variables)]
        imports = operands(trace, [region], values, inputs)
        body = build_subprogram(trace, region, inputs, imports, values, "body")
        first = self._condition if isinstance(self._condition, Tensor) else from_array(np.asarray(self._condition))
        results_of_loop = loop(
            self._limit,
            first,
            *initials,
            *(operand.tensor for operand in imports),
            body=body,
            carried=len(initials),
            symbols=(builder.new_symbol("iterations"),) if stacked else (),
        )
        outputs = iter(as_tuple(results_of_loop))
        for place, initial in self._carried.values():
            place.put(map_leaves(lambda leaf: next(outputs) if isinstance(leaf, Tensor) else leaf, initial))
        if printed:
            rows = tuple(
                replace(entry, reached=next(outputs), values=tuple(next(outputs) for _ in entry.values))
                for entry in printed
            )
            trace.print_entries.append(LoopPrints(rows))
        return self._signal.value
