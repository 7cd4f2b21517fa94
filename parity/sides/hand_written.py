"""Checks whether a module's custom backward passes are the derivatives of their forward passes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...converter.capture.custom_backward import Function, intercept_functions, run_backward, run_forward
from ...converter.dtypes import is_real
from ...converter.seed import manual_seed
from .precision import DoublePrecision, in_dtype

NEAR = 1e-9
"""Largest relative difference between a gradient in float64 and the derivative."""

SURROGATE = "surrogate_gradient"
"""An attribute of a function, true if its backward is deliberately not the derivative of its forward."""


@dataclass
class Audit:
    """The result of checking the functions that a module applies, by their names.

    Attributes:
        wrong: functions whose backward isn't the derivative.
        intended: functions whose backward deliberately isn't the derivative, with the reason to believe so.
    """

    wrong: list[str] = field(default_factory=list)
    intended: dict[str, str] = field(default_factory=dict)

    def apply(self, kind: Function, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Run a function and check its gradients."""
        name = kind.__qualname__
        if name not in self.wrong and name not in self.intended:
            before = torch.get_rng_state()
            try:
                self._check_gradients(kind, args)
            except Exception:  # noqa: BLE001  the user's code may raise anything; if it matters, the run raises it again
                self.intended[name] = "its derivative can't be computed"
            torch.set_rng_state(before)
        return run()

    def _check_gradients(self, kind: Function, args: tuple[Any, ...]) -> None:
        name, state = kind.__qualname__, torch.get_rng_state()
        leaves = [x.detach().clone().requires_grad_() if _is_floating(x) else x for x in args]
        with torch.enable_grad():
            _, result = run_forward(kind, tuple(leaves))
        torch.set_rng_state(state)
        with torch.no_grad():
            plain = tuple(x.detach().clone() if isinstance(x, Tensor) else x for x in args)
            context, again = run_forward(kind, plain)
        results = result if isinstance(result, tuple) else (result,)
        outputs = again if isinstance(again, tuple) else (again,)
        non_differentiable = set(map(id, context.non_differentiable))
        manual_seed(0)
        cotangents = [_cotangent(y, id(y) in non_differentiable) for y in outputs]
        returned = run_backward(kind, context, cotangents)
        roots = [
            (y, g)
            for y, g in zip(results, cotangents, strict=True)
            if isinstance(y, Tensor) and y.requires_grad and g is not None
        ]
        inputs = [x for x in leaves if _is_floating(x)]
        derivatives: Any = [None] * len(inputs)
        if roots and inputs:
            derivatives = torch.autograd.grad([y for y, _ in roots], inputs, [g for _, g in roots], allow_unused=True)
        gradients = [g for x, g in zip(args, (*returned, *[None] * len(args)), strict=False) if _is_floating(x)]
        differing = [(d, g) for d, g in zip(derivatives, gradients, strict=True) if not _are_near(d, g)]
        if not differing:
            return
        if getattr(kind, SURROGATE, False):
            self.intended[name] = f"it says {SURROGATE}"
        elif any(_is_floating(x) and _is_floating(outputs[0]) and torch.equal(x, outputs[0]) for x in plain):
            self.intended[name] = "its forward is the identity"
        elif all(d is None or not d.any() for d, _ in differing):
            self.intended[name] = "the derivative of its forward is zero"
        else:
            self.wrong.append(name)

    def notes(self) -> list[str]:
        """The notes for the report."""
        result = [
            f"the backward of {name} (torch.autograd.Function) isn't the derivative of its forward, and was "
            f"compared with the derivative; if it differs deliberately, write `{SURROGATE} = True` in the class"
            for name in self.wrong
        ]
        result += [
            f"the backward of {name} (torch.autograd.Function) is compared as it is written: {why}"
            for name, why in self.intended.items()
        ]
        return result


def audit_backwards(
    module: torch.nn.Module, args: Any, kwargs: Any, working: torch.dtype, *, train: bool | None
) -> Audit:
    """Check the functions that a module applies in a call, in float64."""
    audit = Audit()
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(in_dtype(module, torch.float64, through=working, train=train))
        stack.enter_context(torch.random.fork_rng(devices=()))
        stack.enter_context(DoublePrecision(working, kept))
        stack.enter_context(intercept_functions(audit.apply))
        module(*args, **kwargs)
    return audit


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and is_real(x)


def _cotangent(y: Any, is_non_differentiable: bool) -> Any:
    if not isinstance(y, Tensor):
        return None
    return torch.randn_like(y) if is_real(y) and not is_non_differentiable else torch.zeros_like(y)


def _are_near(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two gradients are equal up to rounding; None counts as zeros."""
    if a is None or b is None:
        return all(x is None or not x.any() for x in (a, b))
    largest = max(a.abs().max().item(), b.abs().max().item()) if a.numel() and b.numel() else 0.0
    return a.shape != b.shape or bool(((a - b).abs() <= NEAR * largest).all() or torch.equal(a, b))
