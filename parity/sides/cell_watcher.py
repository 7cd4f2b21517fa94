"""Watching Cells run: every tensor that crosses a boundary is recorded, and replaced by the one that is fed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...runtime.errors import CellbridgeError
from ...runtime.ir.types import CellCall, as_dtype, is_floating
from ..dtypes import cast_floating
from ..pairing.cells import Pairing
from ..support.user_code import user_line
from ..weights.mapping import Weights
from .cell_arguments import counterparts, input_tensors, nested, output_tensors, result_structure
from .frameworks import Framework, Pull, hooked
from .layouts import Layout
from .records import (
    INPUT,
    INPUT_GRADIENT,
    OUTPUT,
    OUTPUT_GRADIENT,
    Array,
    Draw,
    Key,
    Mismatch,
    Records,
    Run,
    fed,
    output_slots,
)


@dataclass
class _Running:
    """A call that is running, and its inputs as they went on."""

    call: CellCall
    number: int
    inputs: list[Any] = field(default_factory=list)
    raised: bool = False


class Watcher:
    """Records one run of a Cell."""

    def __init__(
        self,
        framework: Framework,
        cell: Any,
        pairing: Pairing,
        weights: Weights,
        layouts: Mapping[Key, Layout],
        run: Run,
    ) -> None:
        self.framework = framework
        self.cell = cell
        self.pairing = pairing
        self.weights = weights
        self.layouts = layouts
        self.run = run
        self.restart()

    def restart(self) -> None:
        """Begin anew: what was recorded is forgotten."""
        self.records = Records()
        self.running: list[_Running] = []
        self.fed: list[Any] = []  # tensors that a gradient is fed to, whatever becomes of them
        self.root_slots: list[str | None] = []
        self._calls: dict[str, int] = {}
        self._backward: list[CellCall] = []  # calls whose backward pass runs, innermost last
        self._draws: dict[tuple[str, int], int] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within the context, the Cell is watched."""
        shared = self._shared()
        cells = dict(self.cell.cells_and_names())
        with contextlib.ExitStack() as stack:
            for pair in self.pairing.pairs:
                cell = cells[pair.cell]
                before, after = self._hooks(pair.module, cell)
                shares = {name: self._share(p, pair.module) for name, p in shared.get(pair.cell, {}).items()}
                stack.enter_context(hooked(self.framework, cell, before, after, shares))
                stack.enter_context(self._guarded(cell))
            if self.framework.replays:
                stack.enter_context(self.framework.drawing(self._sampled))
            yield

    def called(self, function: Callable[[], Any]) -> list[Any]:
        """The tensors that the Cell returns, and those that a gradient is fed to."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001  whatever the user's code raises is a finding
            self._note_exception(error)
            return list(self.fed)
        finally:
            self._count_calls()
        _, tensors, _ = output_tensors(result, self.framework.is_tensor)
        return [*tensors, *self.fed]

    def seeds(self, outputs: Sequence[Any]) -> list[Array | None]:
        """Gradients of what `called` returned: cotangents by the reference's slots, zeros for what is fed."""
        own = len(outputs) - len(self.fed)
        slots = self.run.slots.get(("", 0, OUTPUT), [])
        given = dict(zip(slots, self.run.cotangents or [], strict=False))
        found: list[Array | None] = []
        for output, slot in zip(outputs[:own], self.root_slots, strict=False):
            cotangent = given.get(slot) if slot is not None else None
            fits = cotangent is not None and cotangent.shape == tuple(output.shape)
            found.append(cotangent if fits else None)
        found += [None] * (own - len(found))
        self.records.cotangents = list(self.run.cotangents or [])
        return found + [np.zeros(tuple(x.shape)) for x in self.fed]

    def _count_calls(self) -> None:
        """What is called more or less often than in the reference."""
        there: dict[str, int] = {}
        for path, index, _ in self.run.slots:
            there[path] = max(there.get(path, 0), index + 1)
        lost = self._behind_exceptions()
        for path in dict.fromkeys([*there, *self._calls]) if there else ():
            here, count = self._calls.get(path, 0), there.get(path, 0)
            if here > count or (here < count and path not in lost and self.run.feed is not None):
                reason = f"called {_times(here)} here, {_times(count)} there"
                self.records.mismatches.append(Mismatch(path, min(here, count), "call", "", reason))

    def _behind_exceptions(self) -> set[str]:
        """Cells that may not have been called because one that calls them raised an exception."""
        calls = [] if self.run.feed is None else self.run.feed.calls
        lost: set[int] = set()
        for number, call in enumerate(calls):
            if call.parent is not None and (call.parent in lost or calls[call.parent].path in self.records.raised):
                lost.add(number)
        return {calls[number].path for number in lost}

    # ---- boundaries ----

    def _hooks(self, path: str, cell: Any) -> tuple[Any, Any]:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            index = self._calls.get(path, 0)
            self._calls[path] = index + 1
            parent = self.running[-1].number if self.running else None
            call = CellCall(path, cell.cls_name, index, parent)
            here = _Running(call, len(self.records.calls))
            self.records.calls.append(call)
            self.running.append(here)
            slots, tensors, replaced = input_tensors(cell.construct, args, kwargs, self.framework.is_tensor)
            reference = self.run.slots.get((call.path, call.index, INPUT), [])
            self._count(call, "takes", slots, reference)
            here.inputs = self._crossed(call, INPUT, INPUT_GRADIENT, counterparts(slots, reference), tensors)
            if getattr(cell, "bprop", None) is not None and self.framework.recording():
                self.records.opaque.add(path)
            return replaced(here.inputs)

        def after(output: Any) -> Any:
            here = self.running.pop()
            if here.raised:
                return output
            slots, tensors, replaced = output_tensors(output, self.framework.is_tensor)
            names = self._output_names(here.call, slots, output)
            crossed = self._crossed(here.call, OUTPUT, OUTPUT_GRADIENT, names, tensors)
            if self.run.feed is not None:
                self.fed += [x for x in crossed if self.framework.tracked(x)]
            return replaced(crossed)

        return before, after

    def _output_names(self, call: CellCall, slots: Sequence[str], output: Any) -> list[str | None]:
        """What the reference calls the outputs of a call; None for what it hasn't."""
        reference = self.run.slots.get((call.path, call.index, OUTPUT), [])
        if call.path or self.run.result is None:
            self._count(call, "returns", slots, reference)
            return [name if name in reference else None for name in output_slots(slots, reference)]
        result = result_structure(output, self.framework.is_tensor)
        found = self.run.matched(result, is_port=True)
        self.records.returns(result, found)
        self.root_slots = [None if place is None else reference[place] for place in found.partners]
        return self.root_slots

    def _count(self, call: CellCall, what: str, slots: Sequence[str], reference: Sequence[str]) -> None:
        """Note a call with more tensors than the reference's, or fewer."""
        if (call.path, call.index, OUTPUT) in self.run.slots and len(slots) != len(reference):
            own, theirs = (f"{len(names)} tensors ({', '.join(names)})" for names in (slots, reference))
            self.records.mismatches.append(
                Mismatch(call.path, call.index, "call", "", f"{what} {own} here, {theirs} there")
            )

    def _crossed(
        self, call: CellCall, kind: str, gradient_kind: str, names: Sequence[str | None], tensors: Sequence[Any]
    ) -> list[Any]:
        return [
            tensor if name is None else self._cross(call, Key(call.path, call.index, kind, name), gradient_kind, tensor)
            for name, tensor in zip(names, tensors, strict=True)
        ]

    def _cross(self, call: CellCall, key: Key, gradient_kind: str, tensor: Any) -> Any:
        array = passed = self.framework.array(tensor)
        layout = self.layouts.get(key)
        recorded = array if layout is None else layout.back(array)
        given = fed(self.run.feed, key)
        if given is not None:
            if is_floating(array.dtype) == is_floating(given.dtype):
                # a Cell computes in its own dtype, and its imprecision isn't that of the Cells behind it
                wider = max(array.dtype, as_dtype(self.run.dtype), key=lambda dtype: dtype.itemsize)
                passed = given.astype(array.dtype if key.kind == INPUT else wider)
                passed = passed if layout is None else layout.there(passed)
            elif recorded.shape == given.shape and np.array_equal(recorded.astype(float), given.astype(float)):
                recorded = given  # a mask of ones and zeros is as good as one of bools
        self._record(key, recorded)
        shape, dtype = array.shape, array.dtype
        gradient_key = key._replace(kind=gradient_kind)

        if not self.framework.tracked(tensor):
            self.records.untracked.add(key)

        def pull(gradient: Array) -> Array:
            self._step_back(call, gradient_key.kind)
            self._record(gradient_key, gradient if layout is None else layout.back(gradient))
            given = fed(self.run.feed, gradient_key)
            if given is not None and layout is not None:
                given = layout.there(given)
            if given is not None and given.shape == gradient.shape:
                gradient = given
            # behind a value of another shape than the reference's nothing meaningful goes back
            return gradient.astype(dtype) if gradient.shape == shape else np.zeros(shape, dtype)

        return self.framework.cross(tensor, passed, pull)

    def _record(self, key: Key, array: Array) -> None:
        if self.run.inner or not key.path:
            self.records.add(key, array)

    # ---- exceptions ----

    def _step_back(self, call: CellCall, kind: str) -> None:
        """A gradient comes to an output of a call, or leaves it by an input."""
        self._backward = [other for other in self._backward if other is not call]
        if kind == OUTPUT_GRADIENT:
            self._backward.append(call)

    def note_backward_exception(self, error: Exception) -> bool:
        """Note an exception of the backward pass as that of the Cell whose backward ran; False if none did."""
        if not self._backward:
            return False
        call = self._backward[-1]
        reason = f"raises {_said(error)} in its backward pass; the gradients before it are not known"
        self.records.mismatches.append(Mismatch(call.path, call.index, "call", "", reason, user_line(error)))
        self.records.broken = True
        return True

    @contextlib.contextmanager
    def _guarded(self, cell: Any) -> Iterator[None]:
        """Within the context, a Cell that raises while it is fed returns what the reference did, and all goes on."""
        construct = cell.construct

        @functools.wraps(construct)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            depth = len(self.running)
            try:
                return construct(*args, **kwargs)
            except Exception as error:
                self._note_exception(error)
                here = self.running[depth - 1]
                fed = self._reference_outputs(here.call)
                if fed is None:
                    raise
                del self.running[depth:]
                here.raised = True
                self.fed += [x for x in here.inputs if self.framework.tracked(x)]
                return fed

        own = vars(cell).get("construct")
        vars(cell)["construct"] = guarded
        try:
            yield
        finally:
            if own is None:
                del vars(cell)["construct"]
            else:
                vars(cell)["construct"] = own

    def _note_exception(self, error: Exception) -> None:
        """Whose fault it is: the innermost call that is running; told once, however far it goes up."""
        if getattr(error, "_noted", False) or not self.running:
            return
        call = self.running[-1].call
        error._noted = True  # type: ignore[attr-defined]
        source = "" if isinstance(error, CellbridgeError) else user_line(error)
        mismatch = Mismatch(call.path, call.index, "call", "", f"raises {_said(error)}", source)
        self.records.mismatches.append(mismatch)
        self.records.raised.add(call.path)

    def _reference_outputs(self, call: CellCall) -> Any:
        slots = self.run.slots.get((call.path, call.index, OUTPUT))
        feed = self.run.feed
        if slots is None or feed is None:
            return None
        dtype = as_dtype(self.run.dtype)
        arrays = [feed.values[Key(call.path, call.index, OUTPUT, slot)] for slot in slots]
        tensors = [self.framework.tensor(cast_floating(a, dtype)) for a in arrays]
        return nested(slots, tensors)

    # ---- shared Parameters ----

    def _shared(self) -> dict[str, dict[str, Any]]:
        """The Parameters that several watched Cells hold: by path of the Cell and attribute."""
        holders: dict[int, list[tuple[str, str, Any]]] = {}
        watched = {pair.cell for pair in self.pairing.pairs}
        for path, cell in self.cell.cells_and_names():
            if path in watched:
                for name, parameter in cell.parameters_and_names(expand=False):
                    holders.setdefault(id(parameter), []).append((path, name, parameter))
        found: dict[str, dict[str, Any]] = {}
        for places in holders.values():
            for path, name, parameter in places if len(places) > 1 and places[0][2].requires_grad else ():
                found.setdefault(path, {})[name] = parameter
        return found

    def _share(self, parameter: Any, module: str) -> Pull:
        entry = next(e for e in self.weights.unique() if e.parameter is parameter)

        def pull(gradient: Array) -> Array:
            if entry.arrangement is not None:
                for source, part in entry.arrangement.back(gradient).items():
                    self.records.add_share(source, module, part)
            return gradient

        return pull

    # ---- random draws ----

    def _sampled(self, kind: str, array: Array) -> Array:
        call = self.running[-1].call if self.running else CellCall("", "", 0, None)
        cell = (call.path, call.index)
        draw = Draw(*cell, self._draws.get(cell, 0))
        self._draws[cell] = draw.number + 1
        recorded = self.run.draws.get(draw)
        if recorded is not None and recorded.size == array.size:
            layouts = [self.layouts.get(Key(*cell, INPUT, slot)) for slot in self.run.slots.get((*cell, INPUT), [])]
            for layout in layouts:
                if layout is not None and (layout.before, layout.after) == (recorded.shape, array.shape):
                    recorded = layout.there(recorded)
            array = recorded.reshape(array.shape).astype(array.dtype)
        self.records.draws[draw] = array
        return array


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
