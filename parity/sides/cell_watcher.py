"""Watching Cells run: every tensor that crosses a boundary is recorded, and replaced if a value is fed there."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...converter.capture.replaced_method import replaced_method
from ...runtime.errors import CellbridgeError
from ...runtime.ir.types import CellCall, as_dtype, is_floating
from ..correspondence.cells import Pairing
from ..correspondence.layouts import Layout
from ..dtypes import cast_floating
from ..support.messages import times_in_words
from ..support.user_code import user_line
from ..weights.mapping import Weights
from .cell_arguments import input_tensors, nest_outputs, output_tensors, reference_slots, result_structure
from .feeding import feed_value
from .frameworks import Framework, Pull, hook_cell
from .records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Draw, Key, Mismatch, Records
from .replay import Replay
from .run import Run
from .slots import output_slots


@dataclass
class _ActiveCall:
    """A call that is running, and the inputs that were passed on to it."""

    call: CellCall
    number: int
    inputs: list[Any] = field(default_factory=list)
    has_raised: bool = False


@dataclass(eq=False)
class Watcher:
    """Records one run of a Cell."""

    framework: Framework
    cell: Any
    pairing: Pairing
    weights: Weights
    layouts: Mapping[Key, Layout]
    run: Run

    def __post_init__(self) -> None:
        self.restart(self.run)

    def restart(self, run: Run) -> None:
        """Discard all records, for a new run with these settings."""
        self.run = run
        self.records = Records()
        self.replay = Replay(self.run)
        self.active_calls: list[_ActiveCall] = []
        self.fed_tensors: list[Any] = []  # tensors whose gradient is fed, even if nothing uses them
        self.root_slots: list[str | None] = []
        self._calls: dict[str, int] = {}
        self._backward: list[CellCall] = []  # calls whose backward pass is running, innermost last
        self._draws: dict[tuple[str, int], int] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within the context, watch the Cell."""
        shared = self._shared_parameters()
        cells = dict(self.cell.cells_and_names())
        with contextlib.ExitStack() as stack:
            for pair in self.pairing.pairs:
                cell = cells[pair.cell]
                before, after = self._hooks(pair.module, cell)
                shares = {name: self._share(p, pair.module) for name, p in shared.get(pair.cell, {}).items()}
                stack.enter_context(hook_cell(self.framework, cell, before, after, shares))
                stack.enter_context(self._catch_exceptions(cell))
            if self.framework.replays:
                stack.enter_context(self.framework.observe_draws(self._replay_draw))
            yield

    def run_cell(self, function: Callable[[], Any]) -> list[Any]:
        """Run the Cell; return the tensors of its result, and those whose gradient is fed."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001  any exception of the user's code is a finding
            self._note_exception(error)
            return list(self.fed_tensors)
        finally:
            self._check_call_counts()
        _, tensors, _ = output_tensors(result, self.framework.is_tensor)
        return [*tensors, *self.fed_tensors]

    def seeds(self, outputs: Sequence[Any]) -> list[Array | None]:
        """Return the gradients of `run_cell`'s tensors: cotangents by the reference's slots, zeros for fed tensors."""
        output_count = len(outputs) - len(self.fed_tensors)
        slots = self.run.reference.slots.get(("", 0, OUTPUT), [])
        cotangents = dict(zip(slots, self.run.reference.cotangents or [], strict=False))
        result: list[Array | None] = []
        for output, slot in zip(outputs[:output_count], self.root_slots, strict=False):
            cotangent = cotangents.get(slot) if slot is not None else None
            fits = cotangent is not None and cotangent.shape == tuple(output.shape)
            result.append(cotangent if fits else None)
        result += [None] * (output_count - len(result))
        self.records.gradients.cotangents = list(self.run.reference.cotangents or [])
        return result + [np.zeros(tuple(x.shape)) for x in self.fed_tensors]

    def _check_call_counts(self) -> None:
        """Note the Cells that are called more or less often than in the reference."""
        reference_counts: dict[str, int] = {}
        for path, index, _ in self.run.reference.slots:
            reference_counts[path] = max(reference_counts.get(path, 0), index + 1)
        skipped = self._cells_skipped_by_exceptions()
        for path in dict.fromkeys([*reference_counts, *self._calls]) if reference_counts else ():
            candidate_count, count = self._calls.get(path, 0), reference_counts.get(path, 0)
            if candidate_count > count or (
                candidate_count < count and path not in skipped and self.run.feed is not None
            ):
                times, of_candidate = times_in_words(count), times_in_words(candidate_count)
                reason = f"called {of_candidate} in the candidate, {times} in the reference"
                self.records.faults.mismatches.append(Mismatch(path, min(candidate_count, count), "call", "", reason))

    def _cells_skipped_by_exceptions(self) -> set[str]:
        """Paths of the Cells that may not have been called because their caller raised an exception."""
        calls = [] if self.run.feed is None else self.run.feed.calls
        skipped: set[int] = set()
        for number, call in enumerate(calls):
            if call.parent is not None and (
                call.parent in skipped or calls[call.parent].path in self.records.faults.raising
            ):
                skipped.add(number)
        return {calls[number].path for number in skipped}

    # ---- boundaries ----

    def _hooks(self, path: str, cell: Any) -> tuple[Any, Any]:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            index = self._calls.get(path, 0)
            self._calls[path] = index + 1
            parent = self.active_calls[-1].number if self.active_calls else None
            call = CellCall(path, cell.cls_name, index, parent)
            active = _ActiveCall(call, len(self.records.calls))
            self.records.calls.append(call)
            self.active_calls.append(active)
            slots, tensors, rebuild = input_tensors(cell.construct, args, kwargs, self.framework.is_tensor)
            reference = self.run.reference.slots.get((call.path, call.index, INPUT), [])
            self._check_tensor_count(call, "takes", slots, reference)
            active.inputs = self._cross_all(call, INPUT, INPUT_GRADIENT, reference_slots(slots, reference), tensors)
            if getattr(cell, "bprop", None) is not None and self.framework.is_recording():
                self.records.gradients.opaque.add(path)
            return rebuild(active.inputs)

        def after(output: Any) -> Any:
            active = self.active_calls.pop()
            if active.has_raised:
                return output
            slots, tensors, rebuild = output_tensors(output, self.framework.is_tensor)
            names = self._output_names(active.call, slots, output)
            outputs = self._cross_all(active.call, OUTPUT, OUTPUT_GRADIENT, names, tensors)
            if self.run.feed is not None:
                self.fed_tensors += [x for x in outputs if self.framework.is_tracked(x)]
            return rebuild(outputs)

        return before, after

    def _output_names(self, call: CellCall, slots: Sequence[str], output: Any) -> list[str | None]:
        """Return the reference's slots for the outputs of a call; None for outputs that it doesn't have."""
        reference = self.run.reference.slots.get((call.path, call.index, OUTPUT), [])
        if call.path or self.run.reference.result is None:
            self._check_tensor_count(call, "returns", slots, reference)
            return [name if name in reference else None for name in output_slots(slots, reference)]
        result = result_structure(output, self.framework.is_tensor)
        match = self.run.reference.match_result(result, is_port=True)
        self.records.record_result(result, match)
        self.root_slots = [None if partner is None else reference[partner] for partner in match.partners]
        return self.root_slots

    def _check_tensor_count(self, call: CellCall, what: str, slots: Sequence[str], reference: Sequence[str]) -> None:
        """Note a call that has more or fewer tensors than the reference's."""
        if (call.path, call.index, OUTPUT) in self.run.reference.slots and len(slots) != len(reference):
            in_candidate, in_reference = (
                f"{len(names)} tensor{'' if len(names) == 1 else 's'} ({', '.join(names)})"
                for names in (slots, reference)
            )
            self.records.faults.mismatches.append(
                Mismatch(
                    call.path,
                    call.index,
                    "call",
                    "",
                    f"{what} {in_candidate} in the candidate, {in_reference} in the reference",
                )
            )

    def _cross_all(
        self, call: CellCall, kind: str, gradient_kind: str, names: Sequence[str | None], tensors: Sequence[Any]
    ) -> list[Any]:
        return [
            tensor if name is None else self._cross(call, Key(call.path, call.index, kind, name), gradient_kind, tensor)
            for name, tensor in zip(names, tensors, strict=True)
        ]

    def _cross(self, call: CellCall, key: Key, gradient_kind: str, tensor: Any) -> Any:
        array = passed = self.framework.array(tensor)
        layout = self.layouts.get(key)
        recorded = _as_in_module(array, layout)
        if key in self.run.reference.choices:
            recorded = self.replay.value(key, recorded)
            passed = recorded if layout is None else layout.inverse.read(recorded)
        fed = feed_value(self.run.feed, key)
        if fed is not None:
            if is_floating(array.dtype) == is_floating(fed.dtype):
                # a Cell computes in its own dtype, but its imprecision must not affect the Cells after it
                wider = max(array.dtype, as_dtype(self.run.dtype), key=lambda dtype: dtype.itemsize)
                passed = fed.astype(array.dtype if key.kind == INPUT else wider)
                passed = passed if layout is None else layout.inverse.read(passed)
            elif recorded.shape == fed.shape and np.array_equal(recorded.astype(float), fed.astype(float)):
                recorded = fed  # a mask of ones and zeros is equivalent to one of bools
        self._record(key, recorded)
        shape, dtype = array.shape, array.dtype
        gradient_key = key._replace(kind=gradient_kind)

        if not self.framework.is_tracked(tensor):
            self.records.boundaries.untracked.add(key)

        def pull(gradient: Array) -> Array:
            self._step_back(call, gradient_key.kind)
            self._record(gradient_key, _as_in_module(gradient, layout))
            fed = feed_value(self.run.feed, gradient_key)
            if fed is not None and layout is not None:
                fed = layout.inverse.read(fed)
            if fed is not None and fed.shape == gradient.shape:
                gradient = fed
            if key in self.run.reference.choices:
                whole = _as_in_module(gradient, layout)
                whole = self.replay.gradient(gradient_key, whole)
                gradient = whole if layout is None else layout.inverse.read(whole)
            # the gradient of a value with another shape than the reference's means nothing
            return gradient.astype(dtype) if gradient.shape == shape else np.zeros(shape, dtype)

        return self.framework.cross(tensor, passed, pull)

    def _record(self, key: Key, array: Array) -> None:
        if self.run.wanted.inner or not key.path:
            self.records.add(key, array)

    # ---- exceptions ----

    def _step_back(self, call: CellCall, kind: str) -> None:
        """Update the running backward calls: a gradient arrives at an output of a call, or leaves through an input."""
        self._backward = [other for other in self._backward if other is not call]
        if kind == OUTPUT_GRADIENT:
            self._backward.append(call)

    def note_backward_exception(self, error: Exception) -> bool:
        """Attribute an exception to the Cell whose backward pass was running; return False if there was none."""
        if not self._backward:
            return False
        call = self._backward[-1]
        reason = f"raises {_format_exception(error)} in its backward pass; the gradients before it are not known"
        self.records.faults.mismatches.append(Mismatch(call.path, call.index, "call", "", reason, user_line(error)))
        self.records.faults.broken = True
        return True

    @contextlib.contextmanager
    def _catch_exceptions(self, cell: Any) -> Iterator[None]:
        """Within the context, a fed Cell that raises is noted and returns the reference's outputs instead."""
        construct = cell.construct

        @functools.wraps(construct)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            depth = len(self.active_calls)
            try:
                return construct(*args, **kwargs)
            except Exception as error:
                self._note_exception(error)
                active = self.active_calls[depth - 1]
                outputs = self._reference_outputs(active.call)
                if outputs is None:
                    raise
                del self.active_calls[depth:]
                active.has_raised = True
                self.fed_tensors += [x for x in active.inputs if self.framework.is_tracked(x)]
                return outputs

        with replaced_method(cell, "construct", guarded):
            yield

    def _note_exception(self, error: Exception) -> None:
        """Attribute an exception to the innermost running call; note it once, however far it propagates."""
        if getattr(error, "_noted", False) or not self.active_calls:
            return
        call = self.active_calls[-1].call
        error._noted = True  # type: ignore[attr-defined]
        source = "" if isinstance(error, CellbridgeError) else user_line(error)
        mismatch = Mismatch(call.path, call.index, "call", "", f"raises {_format_exception(error)}", source)
        self.records.faults.mismatches.append(mismatch)
        self.records.faults.raising.add(call.path)

    def _reference_outputs(self, call: CellCall) -> Any:
        slots = self.run.reference.slots.get((call.path, call.index, OUTPUT))
        feed = self.run.feed
        if slots is None or feed is None:
            return None
        dtype = as_dtype(self.run.dtype)
        arrays = [feed.values[Key(call.path, call.index, OUTPUT, slot)] for slot in slots]
        tensors = [self.framework.tensor(cast_floating(a, dtype)) for a in arrays]
        return nest_outputs(slots, tensors)

    # ---- shared Parameters ----

    def _shared_parameters(self) -> dict[str, dict[str, Any]]:
        """The Parameters that several watched Cells hold, or copies of, by path of the Cell and attribute."""
        holders: dict[int, list[tuple[str, str, Any]]] = {}
        watched = {pair.cell for pair in self.pairing.pairs}
        for path, cell in self.cell.cells_and_names():
            if path in watched:
                for name, parameter in cell.parameters_and_names(expand=False):
                    holders.setdefault(id(parameter), []).append((path, name, parameter))
        copies = {id(entry.parameter) for name in self.weights.copied for entry in self.weights.of(name)}
        result: dict[str, dict[str, Any]] = {}
        for places in holders.values():
            parameter = places[0][2]
            is_shared = len(places) > 1 or id(parameter) in copies
            for path, name, _ in places if is_shared and parameter.requires_grad else ():
                result.setdefault(path, {})[name] = parameter
        return result

    def _share(self, parameter: Any, module: str) -> Pull:
        entry = next(e for e in self.weights.unique() if e.parameter is parameter)

        def pull(gradient: Array) -> Array:
            if entry.arrangement is not None:
                for source, part in entry.arrangement.to_module(gradient).items():
                    self.records.gradients.add_share(source, module, part)
            return gradient

        return pull

    # ---- random draws ----

    def _replay_draw(self, kind: str, array: Array) -> Array:
        call = self.active_calls[-1].call if self.active_calls else CellCall("", "", 0, None)
        cell = (call.path, call.index)
        draw = Draw(*cell, self._draws.get(cell, 0))
        self._draws[cell] = draw.number + 1
        recorded = self.run.reference.draws.get(draw)
        if recorded is not None and recorded.size == array.size:
            layouts = [
                self.layouts.get(Key(*cell, INPUT, slot)) for slot in self.run.reference.slots.get((*cell, INPUT), [])
            ]
            for layout in layouts:
                if layout is not None and (layout.target, layout.source) == (recorded.shape, array.shape):
                    recorded = layout.inverse.read(recorded)
            array = recorded.reshape(array.shape).astype(array.dtype)
        self.records.draws[draw] = array
        return array


def _as_in_module(array: Array, layout: Layout | None) -> Array:
    """Return a Cell's tensor in the module's layout; of another shape than the layout's, it is left as it is."""
    return array if layout is None or array.shape != layout.source else layout.read(array)


def _format_exception(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
