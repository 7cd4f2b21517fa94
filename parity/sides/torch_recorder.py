"""`Recorder`: records, feeds and jitters the values at each module boundary while torch runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...converter.capture.cell_hooks import Visitor, count_call
from ...converter.capture.containers import structure
from ...converter.dtypes import as_tensor, is_inexact, torch_dtype
from ...runtime.ir.types import CellCall, as_dtype
from ...runtime.programs.call import as_array
from ..correspondence.same_inputs import Calls
from ..support.user_code import user_line
from .cell_arguments import nest_outputs
from .feeding import feed_value
from .precision import DoublePrecision, add_jitter, widen
from .recorded_arrays import RecordedArrays
from .records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Mismatch, Records, value_key
from .replay import Replay
from .run import Run
from .slots import output_slots, reference_slot


@dataclass
class _RunningCall:
    """A call that is running."""

    path: str
    index: int
    module: torch.nn.Module
    inputs: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)  # as given, and as passed on


class Recorder(Visitor):
    """The visitor of one run, passed to `watch`.

    The modes of the run don't see what it computes, since each of its calls would pass through all of them. What they
    would do, it asks of double precision itself.

    Args:
        run: the settings of the run.
        shared: for modules that share parameters with others, the qualified names of these parameters by attribute.
        joined: inputs that are the same tensor as another, and count as one with it: the other side takes it once.
        double: the mode of a run in float64; else None.

    Attributes:
        records: the records of the run.
        taps: zeros whose gradients make boundaries take part in the backward pass, if values are fed.
        recorded: the arrays of tensors that were recorded.
        leaves: tensors that were put in place of the outputs of Cells that raised.
        partners: for each output of the root, the index of its partner in the reference.
    """

    def __init__(
        self,
        run: Run,
        shared: Mapping[torch.nn.Module, Mapping[str, str]],
        joined: Calls | None = None,
        double: DoublePrecision | None = None,
    ) -> None:
        self.run = run
        self.shared = shared
        self.joined = joined or {}
        self.double = double
        self.originals: list[tuple[torch.nn.Module, dict[str, Any]]] = []
        self.noted: list[Exception] = []
        self.leaves: list[torch.Tensor] = []
        self.backward: list[tuple[str, int]] = []  # calls whose backward pass is running, innermost last
        self.taps: list[torch.Tensor] = []
        self.records = Records()
        self.slots: list[Sequence[str]] = []
        self.running: list[_RunningCall] = []
        self.partners: list[int | None] = []
        self.output_names: list[str] = []
        self.recorded = RecordedArrays()
        self.generator = np.random.default_rng(None if run.numbers.jitter is None else run.numbers.jitter.seed)
        self.replay = Replay(run)

    def cell(self) -> tuple[str, int]:
        """Path and index of the running Cell call."""
        return (self.running[-1].path, self.running[-1].index) if self.running else ("", 0)

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """Record the call, and replace shared parameters of the Cell to observe its share of their gradients."""
        self.records.calls.append(call)
        joined = self.joined.get((call.path, call.index), {})
        self.slots.append([slot for position, slot in enumerate(slots) if position not in joined])
        self.running.append(_RunningCall(call.path, call.index, module))
        names = self.shared.get(module)
        if names:
            self.originals.append((module, {attribute: module._parameters[attribute] for attribute in names}))
            for attribute, name in names.items():
                parameter = module._parameters[attribute]
                assert parameter is not None
                key = Key(call.path, call.index, "parameter_gradient", name)
                with torch._C.DisableTorchFunction():
                    observed, _ = _BoundaryFunction.apply(parameter, self, key, parameter.detach())  # type: ignore[no-untyped-call]
                    module._parameters[attribute] = self._as_declared(observed, parameter)  # type: ignore[assignment]

    def input(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Record, and return the replacement of, a tensor that enters a Cell."""
        call, inputs = self.records.calls[number], self.running[-1].inputs
        call_key = call.path, call.index
        first = next((i for i, (other, _) in enumerate(inputs) if other is tensor), None)
        if call_key in self.joined:
            joined = self.joined[call_key].get(position)
            if joined is not None and (first is not None or not number):  # the root has a copy of each argument
                inputs.append((tensor, inputs[joined][1]))
                return inputs[joined][1]
        elif first is not None:
            self.records.boundaries.same.setdefault(call_key, {})[position] = first
        reference = self.run.reference.slots.get((*call_key, INPUT), [])
        name = reference_slot(slot, self.slots[number], reference)
        inputs.append((tensor, self._cross(number, INPUT, INPUT_GRADIENT, name, tensor)))
        return inputs[-1][1]

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        """Pair a Cell's outputs with those in the reference."""
        call = self.records.calls[number]
        if number:
            reference = self.run.reference.slots.get((call.path, call.index, OUTPUT), slots)
            self.output_names = output_slots(slots, reference)
            return
        returned = structure(result)
        match = self.run.reference.match_result(returned)
        self.records.record_result(returned, match)
        self.partners = match.partners
        self.output_names = self.run.reference.root_slots(slots, match.partners)

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Record, and return the replacement of, a tensor that leaves a Cell."""
        return self._cross(number, OUTPUT, OUTPUT_GRADIENT, self.output_names[position], tensor)

    def changed_input(self, number: int) -> None:
        """Record that a call changes a tensor of its caller."""
        call = self.records.calls[number]
        self.records.boundaries.changing.add((call.path, call.index))

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """Put the shared parameters back."""
        self.running.pop()
        if module in self.shared:
            owner, originals = self.originals.pop()
            assert owner is module
            owner._parameters.update(originals)

    def note_exception(self, error: Exception) -> None:
        """Attribute an exception to the innermost running call; note it once, however far it propagates."""
        if any(error is other for other in self.noted):
            return
        self.noted.append(error)
        path, index = self.cell()
        self.records.faults.mismatches.append(
            Mismatch(path, index, "call", "", f"raises {_text(error)}", user_line(error))
        )
        self.records.faults.raising.add(path)

    def note_backward_exception(self, error: Exception) -> None:
        """Attribute an exception to the innermost call whose backward pass is running."""
        path, index = self.backward[-1] if self.backward else ("", 0)
        reason = f"raises {_text(error)} in its backward pass; the gradients before it are not known"
        self.records.faults.mismatches.append(Mismatch(path, index, "call", "", reason, user_line(error)))
        self.records.faults.broken = True

    def raised(self, module: torch.nn.Module, error: Exception) -> Any:
        """Record an exception; return the reference's result, to go on with, if it was raised by a call of `module`."""
        self.note_exception(error)
        call, feed = self.running[-1], self.run.feed
        slots = self.run.reference.slots.get((call.path, call.index, OUTPUT))
        if call.module is not module or feed is None or slots is None:
            return None
        dtype = torch_dtype(as_dtype(self.run.dtype))
        outputs: list[torch.Tensor] = []
        for slot in slots:
            key = Key(call.path, call.index, OUTPUT, slot)
            with torch._C.DisableTorchFunction():
                output = as_tensor(feed.values[key])
                output = output.to(dtype) if is_inexact(output) else output
            outputs.append(output.requires_grad_(is_inexact(output) and key not in feed.boundaries.untracked))
        self.leaves += [output for output in outputs if output.requires_grad]
        return nest_outputs(slots, outputs)

    def _cross(self, number: int, kind: str, gradient_kind: str, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        call = self.records.calls[number]
        key = Key(call.path, call.index, kind, slot)
        with torch._C.DisableTorchFunction():
            array, passed = self._record(key, tensor)
            tracked = tensor
            if not tensor.requires_grad:
                self.records.boundaries.untracked.add(key)
                if not self._feeds_gradient(key, passed):
                    return self.recorded.keep(self._as_declared(passed.clone(), tensor), array)
                tracked = passed.detach().requires_grad_()
                self.leaves.append(tracked)
            result, tap = _BoundaryFunction.apply(tracked, self, key._replace(kind=gradient_kind), passed)  # type: ignore[no-untyped-call]
            if tap is not None and tap.requires_grad:
                self.taps.append(tap)
            return self.recorded.keep(self._as_declared(result, tensor), array)

    def _as_declared(self, result: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        """Return what replaces a tensor, with the dtype noted that the tensor has in a run in the working dtype."""
        if self.double is not None and is_inexact(result):
            self.double.dtypes.note(result, self.double.dtypes.of(tensor))
        return result

    def _feeds_gradient(self, key: Key, tensor: torch.Tensor) -> bool:
        """Whether the reference has a gradient here: where a tensor was detached, only the Cell before is wrong."""
        feed = self.run.feed
        fed = feed is not None and key in feed.values and key not in feed.boundaries.untracked
        return fed and self.run.wanted.grads and is_inexact(tensor)

    def _record(self, key: Key, tensor: torch.Tensor) -> tuple[Array | None, torch.Tensor]:
        """Record the tensor at a boundary; return the value to pass on, after its array, if that was recorded."""
        bare = tensor.detach().resolve_conj()
        whole = bare if self.double is None else widen(bare)
        value = self._with_array(whole, key, self.replay.value)
        array = None
        if self.run.wanted.inner or not key.path:
            array = self.recorded.of(tensor) if value is bare else None
            array = as_array(value).copy() if array is None else array
            if self.run.wanted.passes is not None and self.run.wanted.passes(key, array):
                self.records.add_slot(key)
            else:
                self.records.add(key, array)
        to_pass = self.value_to_pass(key, value)
        passed = self._with_array(to_pass, key, self.replay.gradient)
        if passed is not to_pass:
            return None, passed
        return array if passed is value else self.recorded.of(passed), passed

    def _with_array(self, tensor: torch.Tensor, key: Key, change: Callable[[Key, Array], Array]) -> torch.Tensor:
        """Return a tensor with what a function returns for its array, where choices are replayed."""
        if value_key(key) not in self.run.reference.choices:
            return tensor
        changed = torch.from_numpy(change(key, as_array(tensor)))
        return torch.view_as_complex(changed) if tensor.is_complex() else changed

    def value_to_pass(self, key: Key, tensor: torch.Tensor) -> torch.Tensor:
        """Return the value to pass on at a boundary: the tensor, or the value fed, with the jitter if there is one.

        A fed value of another shape replaces an input or output (the Cells after it continue with the reference's
        values), but not a gradient.
        """
        value = feed_value(self.run.feed, key)
        if value is None and self.run.numbers.jitter is None:
            return tensor
        like = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        passed = like
        if value is not None and tensor.is_complex() and value.shape[-1:] != (2,):
            value = None  # the reference has real numbers there
        if value is not None and (key.kind in (INPUT, OUTPUT) or value.shape == tuple(like.shape)):
            passed = self.recorded.tensor_of(value, like.dtype)
        if self.run.numbers.jitter is not None and is_inexact(like):
            passed = add_jitter(passed, self.generator, like.dtype, self.run.numbers.jitter.units)
        return torch.view_as_complex(passed) if tensor.is_complex() else passed

    def gradient(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        """Record a gradient that passes back through a boundary, and return the one to pass on."""
        call = (key.path, key.call)
        if key.kind == "parameter_gradient":
            self.records.gradients.add_share(key.slot, key.path, as_array(gradient).copy())
            return gradient
        self.backward = [other for other in self.backward if other != call]
        if key.kind == OUTPUT_GRADIENT:
            self.backward.append(call)
            count_call()
        array, passed = self._record(key, gradient)
        if self.run.feed is not None:
            passed = passed.clone()  # a backward pass written by hand may change it in place
        return self.recorded.keep_gradient(self._as_declared(passed, gradient), array)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]


class _BoundaryFunction(torch.autograd.Function):
    """Passes on the value, or the one fed, forward; and the gradient, or the one fed, backward.

    Where values are fed, it also returns a zero. If that is a root of the backward pass, with the gradient zero, the
    value has a gradient even if nothing uses it.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, recorder: Recorder, key: Key, passed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        ctx.set_materialize_grads(False)
        ctx.recorder, ctx.key, ctx.shape = recorder, key, x.shape
        ctx.passed = passed.shape, passed.dtype
        return passed.clone(), None if recorder.run.feed is None else passed.new_zeros(())

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor | None, _: torch.Tensor | None) -> Any:
        with torch._C.DisableTorchFunction():
            shape, dtype = ctx.passed
            passed = ctx.recorder.gradient(ctx.key, torch.zeros(shape, dtype=dtype) if g is None else g)
            # the gradient of a value with another shape than the reference's means nothing, and the Cell has failed
            return passed if passed.shape == ctx.shape else torch.zeros(ctx.shape, dtype=passed.dtype), None, None, None
