"""Loops: those over Python's items, which are unrolled, and those by tensors, which become a `loop`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...common.dtype import int64, shown
from ...common.nested import leaves, mapped, refilled
from ...common.tensor import Tensor, wrapped
from ...eager import tape
from ...errors import UnsupportedPython
from ...ir.types import INT64, Type
from ...ops import comparison, elementwise
from ...ops.higher_order.loops import loop
from ...ops.higher_order.subprogram_rules import as_tuple
from ..current import Recording, current_recording
from ..objects import is_same
from ..printing import Printed, Repeated, repeated
from .conditions import either_of, is_symbolic, truth
from .joining import described, like, number_dtype
from .regions import Region, as_value, assembled, operands
from .rewriting import GO_ON, RETURNED
from .state import Place, State, Undefined, Variable

_ENDLESS = np.iinfo(np.int64).max
_MAX_ATTEMPTS = 50
_NUMBERS = (bool, int, float, np.generic)


@dataclass(frozen=True)
class TensorRange:
    """`range` with bounds that are tensors: int64, without dimensions.

    Attributes:
        start: the first number.
        step: the distance of two.
        count: how many there are.
    """

    start: Tensor
    step: Tensor
    count: Tensor

    @classmethod
    def of(cls, *bounds: Any) -> TensorRange:
        """As `range(stop)` or `range(start, stop, step)`; `TypeError` if a bound is no integer."""
        given = [_as_integer(bound) for bound in bounds]
        start, stop, step = [Tensor(0), *given, Tensor(1)] if len(given) == 1 else [*given, Tensor(1)][:3]
        if not is_symbolic(step) and int(step) == 0:
            raise ValueError("range() arg 3 must not be zero")
        count = -((start - stop) // step)  # rounded up, whatever the signs are
        return cls(start, step, elementwise.maximum(count, np.asarray(0, np.int64)))


def _as_integer(bound: Any) -> Tensor:
    tensor = bound if isinstance(bound, Tensor) else Tensor(bound)
    if tensor.dtype.kind not in "iu" or tensor.size != 1:
        raise TypeError(f"a bound of a range must be an integer, but got {described(bound)}")
    flat: Tensor = elementwise.cast(tensor.reshape(()), dtype=int64)
    return flat


def concrete_loop(items: Iterable[Any], body: Callable[[Any], Any]) -> Any:
    """Run a body for each item; once a tensor decides whether the loop goes on, under that condition."""
    signal: Any = GO_ON
    for item in items:
        if is_symbolic(signal):
            signal = _unless_left(signal, item, body)
        else:
            signal = body(item)
            if not is_symbolic(signal) and signal != GO_ON:
                return signal
    return signal


def _unless_left(signal: Tensor, item: Any, body: Callable[[Any], Any]) -> Any:
    return either_of(_goes_on(signal), lambda: body(item), lambda: signal)


def _goes_on(signal: Any) -> Any:
    return comparison.equal(signal, np.asarray(GO_ON, np.int64)) if is_symbolic(signal) else signal == GO_ON


def attempted(trace: Recording, body: Callable[[], Any]) -> Any:
    """Run a body; if a tensor decides whether its loop goes on, as if it hadn't run."""
    state, recording = State(trace, (body,)), tape.current()
    nodes, calls, printed, made = len(trace.builder.nodes), len(trace.calls), len(trace.printed), dict(trace.made)
    entries = len(recording.entries) if recording else 0
    signal = body()
    if is_symbolic(signal):
        state.restore(state.changes())
        trace.enclosed.update(value for node in trace.builder.nodes[nodes:] for value in node.outputs)
        del trace.builder.nodes[nodes:], trace.calls[calls:], trace.printed[printed:]
        trace.made = made
        if recording:
            del recording.entries[entries:]
    return signal


def counted_loop(numbers: TensorRange, body: Callable[[Any], Any]) -> Any:
    """A loop over a range with bounds that are tensors; the signal of the last iteration."""

    def step(iteration: Tensor) -> tuple[Any, Any]:
        signal = body(numbers.start + iteration * numbers.step)
        return signal, _goes_on(signal)

    return _Loop(numbers.count, True, step, (body,)).run()


def loop_until(going: Any, test: Callable[[], Any], body: Callable[[], Any]) -> Any:
    """A loop that a tensor ends; the signal of the last iteration.

    Args:
        going: the condition before the first iteration.
        test: computes it anew.
        body: one iteration.
    """

    def step(iteration: Tensor) -> tuple[Any, Any]:
        signal = body()
        if is_symbolic(signal):
            return signal, either_of(_goes_on(signal), lambda: truth(test()), lambda: False)
        return signal, truth(test()) if signal == GO_ON else False

    return _Loop(wrapped(np.asarray(_ENDLESS, np.int64)), going, step, (test, body)).run()


@dataclass
class _Signal:
    """What the body gave last, as a place."""

    value: Any = GO_ON

    def get(self) -> Any:
        """It."""
        return self.value

    def put(self, value: Any) -> None:
        """Another."""
        self.value = value

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two signals are equal."""
        return is_same(a, b)

    def __str__(self) -> str:
        return "whether the loop goes on"


class _Number(Tensor):
    """A Python number as the tensor that a loop carries."""

    def __init__(self, number: Any, dtype: Any) -> None:
        super().__init__(np.asarray(number, dtype))
        self.number = number


class _Loop:
    """A loop of the program.

    Its body is run on symbolic variables until it changes none but those that were symbolic.

    Args:
        limit: how many iterations there are at most.
        going: whether there is a first one.
        step: one iteration, of its number: the signal, and whether another follows.
        functions: those whose variables it may change.
    """

    def __init__(
        self,
        limit: Tensor,
        going: Any,
        step: Callable[[Tensor], tuple[Any, Any]],
        functions: tuple[Callable[..., Any], ...],
    ) -> None:
        trace = current_recording()
        self._trace = trace
        self._limit, self._going, self._step = limit, going, step
        self._signal = _Signal()
        self._state = State(trace, functions, {"signal": self._signal})
        self._carried: dict[Any, tuple[Place, Any]] = {}

    def run(self) -> Any:
        """Run it, into the program."""
        for _ in range(_MAX_ATTEMPTS):
            region, entered, iteration = self._attempt()
            if not self._widen(region):
                return self._record(region, entered, iteration)
        raise self._refusal("what the loop carries from one iteration to the next doesn't settle")

    def _attempt(self) -> tuple[Region, list[Tensor], Tensor]:
        """Run one iteration on symbolic variables."""
        builder = self._trace.builder
        entered: list[Tensor] = []

        def enter(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            entered.append(wrapped(builder.new_value("carried", Type(leaf.dtype, tuple(leaf.shape)))))
            return entered[-1]

        iteration = wrapped(builder.new_value("iteration", Type(INT64, ())))

        def run() -> Any:
            for place, initial in self._carried.values():
                place.put(mapped(initial, enter))
            self._signal.value, going = self._step(iteration)
            return going

        region = Region(self._trace, self._state, {})
        region.run(run)
        return region, entered, iteration

    def _widen(self, region: Region) -> bool:
        """Let the loop carry what its body changed; whether that was something new."""
        changed = False
        for key, (place, before, now) in region.changes.items():
            if key in self._carried:
                initial = self._carried[key][1]
                wide = self._widened(initial, now, str(place))
                changed |= wide is not initial
            elif isinstance(before, Undefined):
                if not (isinstance(place, Variable) and place.is_ours and place.name.endswith(RETURNED)):
                    continue
                wide, changed = like(now), True
            else:
                wide, changed = self._widened(before, now, str(place)), True
            self._carried[key] = place, wide
        return changed

    def _widened(self, initial: Any, now: Any, what: str) -> Any:
        """What the loop begins with: itself, or with tensors in place of numbers that change."""
        if is_same(initial, now):
            return initial
        if isinstance(initial, (tuple, list, dict)) and type(initial) is type(now):
            keys = [*initial] if isinstance(initial, dict) else range(len(initial))
            if len(initial) == len(now) and (not isinstance(initial, dict) or [*now] == keys):
                items = [self._widened(initial[k], now[k], f"{what}[{k!r}]") for k in keys]
                same = all(a is initial[k] for a, k in zip(items, keys, strict=True))
                return initial if same else refilled(initial, items)
        elif isinstance(now, (Tensor, *_NUMBERS)) and isinstance(initial, (Tensor, *_NUMBERS)):
            return self._widened_number(initial, now, what)
        raise self._refusal(f"{what} is {described(initial)} before an iteration and {described(now)} after it")

    def _widened_number(self, initial: Any, now: Any, what: str) -> Any:
        wanted = now.dtype if isinstance(now, Tensor) else number_dtype(now)
        if not isinstance(initial, Tensor):
            return _Number(initial, wanted)
        shape = tuple(now.shape) if isinstance(now, Tensor) else ()
        if shape != tuple(initial.shape):
            raise self._refusal(f"{what} has shape {tuple(initial.shape)} before an iteration and {shape} after it")
        if wanted == initial.dtype or (not isinstance(now, Tensor) and np.can_cast(wanted, initial.dtype, "same_kind")):
            return initial
        if isinstance(initial, _Number) and np.can_cast(initial.dtype, wanted, "same_kind"):
            return _Number(initial.number, wanted)
        raise self._refusal(f"{what} is {shown(initial.dtype)} before an iteration and {shown(wanted)} after it")

    def _refusal(self, what: str) -> Exception:
        return self._trace.guard.refusal(
            UnsupportedPython,
            f"a loop that a tensor ends carries what has one dtype and shape: {what}",
            "give it that dtype and shape before the loop, and keep them in it (`.astype`, `ops.zeros`)",
        )

    def _record(self, region: Region, entered: list[Tensor], iteration: Tensor) -> Any:
        """Record the loop, and give everything the value that it has afterwards."""
        trace, builder = self._trace, self._trace.builder
        for place, before, _ in region.changes.values():
            if isinstance(before, Undefined) and isinstance(place, Variable):
                trace.one_sided.setdefault(place.name, "is defined in a loop only, which may have no iteration")
        initials = [x for _, initial in self._carried.values() for x in leaves(initial) if isinstance(x, Tensor)]
        ends = [region.changes[key][2] if key in region.changes else None for key in self._carried]
        results = []
        for (_, initial), end in zip(self._carried.values(), ends, strict=True):
            for before, after in zip(leaves(initial), leaves(initial if end is None else end), strict=True):
                if isinstance(before, Tensor):
                    results.append(after._data if isinstance(after, Tensor) else np.asarray(after, before.dtype))
        printed = [entry for entry in region.printed if isinstance(entry, Printed)]
        if len(printed) < len(region.printed):
            raise trace.guard.refusal(
                UnsupportedPython,
                "a loop within a loop prints, and both are ended by tensors",
                "print in the outer one",
            )
        stacked = [value for entry in printed for value in repeated(entry)]
        if not results and not stacked:
            return self._signal.value
        going = region.result._data if isinstance(region.result, Tensor) else np.asarray(bool(region.result))
        values = [as_value(builder, x) for x in (going, *results, *stacked)]
        given = [iteration._data.value, *(x._data.value for x in entered)]
        taken = operands(trace, [region], values, given)
        body = assembled(trace, region, given, taken, values, "body")
        first = self._going if isinstance(self._going, Tensor) else wrapped(np.asarray(self._going))
        made = loop(
            self._limit,
            first,
            *initials,
            *(operand.tensor for operand in taken),
            body=body,
            carried=len(initials),
            symbols=(builder.new_symbol("iterations"),) if stacked else (),
        )
        outputs = iter(as_tuple(made))
        for place, initial in self._carried.values():
            place.put(mapped(initial, lambda leaf: next(outputs) if isinstance(leaf, Tensor) else leaf))
        if printed:
            rows = tuple(
                replace(entry, reached=next(outputs), values=tuple(next(outputs) for _ in entry.values))
                for entry in printed
            )
            trace.printed.append(Repeated(rows))
        return self._signal.value
