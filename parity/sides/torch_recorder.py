"""`Recorder`: what is done at each module boundary while torch runs: values are recorded, fed and jittered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...converter.capture.containers import structure
from ...runtime.ir.types import CellCall
from ...runtime.programs.call import as_array
from .precision import jittered
from .records import (
    INPUT,
    INPUT_GRADIENT,
    OUTPUT,
    OUTPUT_GRADIENT,
    Key,
    Records,
    Run,
    fed,
    output_slots,
    reference_slot,
)


class Recorder:
    """The visitor of one run, for `watch`.

    Args:
        run: what is fed, and whether with jitter.
        shared: for modules that hold a parameter which others hold too, its qualified name by attribute.

    Attributes:
        records: what was recorded.
        fed_outputs: outputs of Cells through which a gradient may go, where values are fed.
        partners: for each output of the root, which of the reference's it is.
    """

    def __init__(self, run: Run, shared: Mapping[torch.nn.Module, Mapping[str, str]]) -> None:
        self.run = run
        self.shared = shared
        self.originals: list[tuple[torch.nn.Module, dict[str, Any]]] = []
        self.fed_outputs: list[torch.Tensor] = []
        self.restart()

    def restart(self) -> None:
        """Begin anew: what was recorded is forgotten."""
        self.records = Records()
        self.slots: list[Sequence[str]] = []
        self.running: list[tuple[str, int]] = []
        self.partners: list[int | None] = []
        self.output_names: list[str] = []
        self.fed_outputs.clear()
        self.generator = np.random.default_rng(self.run.jitter)

    def cell(self) -> tuple[str, int]:
        """Path and number of the Cell call that is running."""
        return self.running[-1] if self.running else ("", 0)

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """Keep the call; give a Cell that shares parameters stand-ins for them, to see its share of their gradients."""
        self.records.calls.append(call)
        self.slots.append(slots)
        self.running.append((call.path, call.index))
        names = self.shared.get(module)
        if names:
            self.originals.append((module, {attribute: module._parameters[attribute] for attribute in names}))
            for attribute, name in names.items():
                parameter = module._parameters[attribute]
                assert parameter is not None
                key = Key(call.path, call.index, "parameter_gradient", name)
                module._parameters[attribute] = _Crossing.apply(parameter, self, key, parameter.detach())  # type: ignore[no-untyped-call]

    def input(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on its way into a Cell."""
        call = self.records.calls[number]
        reference = self.run.slots.get((call.path, call.index, INPUT), [])
        return self._cross(number, INPUT, INPUT_GRADIENT, reference_slot(slot, self.slots[number], reference), tensor)

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        """Pair what a Cell returns with what it returns in the reference."""
        call = self.records.calls[number]
        if number:
            reference = self.run.slots.get((call.path, call.index, OUTPUT), slots)
            self.output_names = output_slots(slots, reference)
            return
        returned = structure(result)
        found = self.run.matched(returned)
        self.records.returns(returned, found)
        self.partners = found.partners
        self.output_names = self.run.root_slots(slots, found.partners)

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on its way out of a Cell."""
        crossed = self._cross(number, OUTPUT, OUTPUT_GRADIENT, self.output_names[position], tensor)
        if self.run.feed is not None and crossed.requires_grad:
            self.fed_outputs.append(crossed)
        return crossed

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """Put the shared parameters back."""
        self.running.pop()
        if module in self.shared:
            owner, originals = self.originals.pop()
            assert owner is module
            owner._parameters.update(originals)

    def _cross(self, number: int, kind: str, gradient_kind: str, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        call = self.records.calls[number]
        key = Key(call.path, call.index, kind, slot)
        passed = self._recorded(key, tensor)
        if not tensor.requires_grad:
            self.records.untracked.add(key)
            return passed.clone() if passed is tensor else passed
        crossed: torch.Tensor = _Crossing.apply(tensor, self, key._replace(kind=gradient_kind), passed)  # type: ignore[no-untyped-call]
        return crossed

    def _recorded(self, key: Key, tensor: torch.Tensor) -> torch.Tensor:
        """Record the tensor at a boundary; what goes on from there.

        The modes of the run see the tensor once (in double precision, a float32 one is widened). They are off for what
        the recorder itself computes: each of its calls would pass through all of them.
        """
        whole = tensor.detach().resolve_conj()
        with torch._C.DisableTorchFunction():
            if self.run.inner or not key.path:
                self.records.add(key, as_array(whole).copy())
            return self._passed_on(key, whole)

    def _passed_on(self, key: Key, tensor: torch.Tensor) -> torch.Tensor:
        """What goes on: the (detached) tensor, or the recorded value in its place, with or without jitter.

        A recorded value of another shape takes the place of an input or output (the Cells behind it go on with what the
        reference had), not of a gradient.
        """
        recorded = fed(self.run.feed, key)
        like = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        passed = like
        if recorded is not None and tensor.is_complex() and recorded.shape[-1:] != (2,):
            recorded = None  # the reference has real numbers there
        if recorded is not None and (key.kind in (INPUT, OUTPUT) or recorded.shape == tuple(like.shape)):
            passed = torch.from_numpy(np.array(recorded))
        if self.run.jitter is not None and like.is_floating_point():
            passed = jittered(passed, self.generator, like.dtype, self.run.jitter_units)
        passed = passed.to(like.dtype) if passed.dtype != like.dtype else passed
        return torch.view_as_complex(passed) if tensor.is_complex() else passed

    def gradient(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        """Record a gradient on its way back through a boundary; what goes on from there."""
        if key.kind == "parameter_gradient":
            self.records.add_share(key.slot, key.path, as_array(gradient).copy())
            return gradient
        return self._recorded(key, gradient)


class _Crossing(torch.autograd.Function):
    """Identity at a boundary: forward the value (or the one fed), backward the gradient (or the one fed)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, recorder: Recorder, key: Key, passed: torch.Tensor) -> torch.Tensor:
        ctx.recorder, ctx.key, ctx.like = recorder, key, (x.shape, x.dtype)
        return passed.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        passed = ctx.recorder.gradient(ctx.key, g)
        shape, dtype = ctx.like
        # a value of another shape than the reference's was replaced: the Cell has failed, nothing meaningful goes back
        return passed if passed.shape == shape else torch.zeros(shape, dtype=dtype), None, None, None
