"""Backward passes written by hand: those of `torch.autograd.Function` are captured, hooks are not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction

from ..warning import warn
from .cell_hooks import unwatched
from .hand_written_marks import COTANGENT, OWN_GRADIENT

Function = type[torch.autograd.Function]
Apply = Callable[[Function, tuple[Any, ...], Callable[[], Any]], Any]
"""Given a function, its arguments and what runs the forward, it gives the outputs."""


class Context(FunctionCtx):
    """What `forward` and `backward` of a function are given as `ctx`, where they are called one after the other."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    to_save: tuple[Any, ...] = ()
    non_differentiable: tuple[torch.Tensor, ...] = ()
    dirty_tensors: tuple[torch.Tensor, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was given to `save_for_backward`."""
        return tuple(self.to_save)


@contextlib.contextmanager
def applied_by(apply: Apply) -> Iterator[None]:
    """Within the context, `apply` runs the user's `torch.autograd.Function`s, however they are called.

    torch's own functions (of checkpoints, say) run as ever. Since torch 2.14, `Function.apply` is C++ that people's
    code may have stored (`spike = Spike.apply`): what each apply still looks up is the class's `forward`.
    """
    originals: dict[Function, Any] = {}

    def replace_forward(kind: Function) -> None:
        if is_torchs_own(kind) or kind in originals:
            return
        originals[kind] = vars(kind).get("forward", _INHERITED)
        takes_context = kind.setup_context is _SingleLevelFunction.setup_context

        def forward(*given: Any) -> Any:
            def run() -> Any:
                return forward_function(kind)(*given)

            return apply(kind, given[1:] if takes_context else given, run)

        forward.__dict__[_ORIGINAL] = kind.forward
        kind.forward = staticmethod(forward)  # type: ignore[method-assign]

    def init_subclass(kind: Any, /, **options: Any) -> None:  # of a class that the module's own forward defines
        super(torch.autograd.Function, kind).__init_subclass__(**options)
        replace_forward(kind)

    # those that inherit come first, so that they find the function itself
    for kind in reversed(list(_subclasses(torch.autograd.Function))):
        replace_forward(kind)
    setattr(torch.autograd.Function, "__init_subclass__", classmethod(init_subclass))  # noqa: B010 (mypy)
    try:
        yield
    finally:
        del torch.autograd.Function.__init_subclass__
        for kind, original in originals.items():
            if original is _INHERITED:
                del kind.forward
            else:
                setattr(kind, "forward", original)  # noqa: B010 (mypy)


_ORIGINAL = "_cellbridge_original"
_INHERITED = object()


def _subclasses(kind: Function) -> Iterator[Function]:
    """The classes that inherit from a function, each after those from which it inherits."""
    for inner in type.__subclasses__(kind):
        yield inner
        yield from _subclasses(inner)


def forward_function(kind: Function) -> Callable[..., Any]:
    """The forward that the user wrote, inside of `applied_by` too."""
    return kind.forward.__dict__.get(_ORIGINAL, kind.forward)  # type: ignore[no-any-return]


def is_torchs_own(kind: Function) -> bool:
    """Whether a function comes with torch."""
    return kind.__module__.partition(".")[0] == "torch"


def forward_of(kind: Function, args: tuple[Any, ...]) -> tuple[Context, Any]:
    """What the forward of a function gives, and its context."""
    context = Context()
    context.needs_input_grad = tuple(isinstance(x, torch.Tensor) and x.is_floating_point() for x in args)
    if kind.setup_context is _SingleLevelFunction.setup_context:
        return context, forward_function(kind)(context, *args)
    result = forward_function(kind)(*args)
    kind.setup_context(context, args, result)
    return context, result


def backward_of(kind: Function, context: Context, cotangents: list[Any]) -> tuple[Any, ...]:
    """What the backward of a function gives."""
    backward: Any = kind.vjp if kind.vjp is not _SingleLevelFunction.vjp else kind.backward
    if backward.__code__.co_filename == torch.autograd.function.__file__ and hasattr(backward, "__wrapped__"):
        backward = backward.__wrapped__  # of `once_differentiable`
    found = (
        backward(context, cotangents) if getattr(kind, "boxed_grads_call", False) else backward(context, *cotangents)
    )
    return found if isinstance(found, tuple) else (found,)


@dataclass
class HandWritten:
    """The functions that a module applies while it is exported.

    Attributes:
        differentiated: names of the functions that are to have the derivative of their forward, not their backward.
        applied: how many were captured.
        lost: for those whose backward can't be captured: why, by name.
    """

    differentiated: Collection[str] = ()
    applied: int = 0
    lost: dict[str, str] = field(default_factory=dict)

    def apply(self, kind: Function, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """The outputs of a function, marked with its backward."""
        name = kind.__qualname__
        context, result = forward_of(kind, args)
        outputs = list(result) if isinstance(result, tuple) else [result]
        if name in self.differentiated:
            return result
        fixed = set(map(id, context.non_differentiable))
        places = [i for i, x in enumerate(outputs) if _is_floating(x) and id(x) not in fixed]
        number = self.applied = self.applied + 1
        outputs = [x.detach() if isinstance(x, torch.Tensor) and i not in places else x for i, x in enumerate(outputs)]
        try:
            gradients, cotangents = self._gradients(kind, context, args, outputs, places, number)
        except Exception as error:  # noqa: BLE001  the user's backward may raise anything
            self.lost[name] = str(error).strip().partition("\n")[0]
            return result
        operands = [x for x, g in zip(args, gradients, strict=False) if g is not None]
        given = [g for g in gradients if g is not None]
        if places:
            passed = OWN_GRADIENT([outputs[i] for i in places], operands, given, cotangents, number)
            for i, x in zip(places, passed, strict=True):
                outputs[i] = x
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]

    def _gradients(
        self,
        kind: Function,
        context: Context,
        args: tuple[Any, ...],
        outputs: list[Any],
        places: list[int],
        number: int,
    ) -> tuple[list[torch.Tensor | None], list[torch.Tensor]]:
        """The gradient of each argument, in its shape and dtype, None where there is none; of which cotangents."""
        if context.dirty_tensors:
            raise NotImplementedError("it changes an input in place (ctx.mark_dirty)")
        if any(isinstance(x, torch.Tensor) and x.is_complex() for x in (*args, *outputs)):
            raise NotImplementedError("of complex tensors")
        cotangents: list[Any] = []
        for i, x in enumerate(outputs):
            if i in places:
                cotangents.append(COTANGENT(x, number))
            else:
                materialized = isinstance(x, torch.Tensor) and context.materialize_grads
                cotangents.append(torch.zeros_like(x) if materialized else None)
        with unwatched():
            found = backward_of(kind, context, cotangents)
        pairs = zip(args, (*found, *[None] * len(args)), strict=False)
        fitted = [_fitted(g, x) if _is_floating(x) and g is not None else None for x, g in pairs]
        return fitted, [cotangents[i] for i in places]

    def tell(self, module: torch.nn.Module) -> None:
        """Warn of what isn't captured, with a `ConversionWarning`."""
        lost = {
            "the backward of {} (torch.autograd.Function) isn't captured": [
                f"{name}, {reason}" if reason else name for name, reason in self.lost.items()
            ],
            "backward hooks aren't captured, those of {}": list(_with_backward_hooks(module)),
        }
        for what, names in lost.items():
            if names:
                message = f"{what.format(', '.join(names))}: the program's gradient is the derivative of its forward"
                warn(message)


def _is_floating(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _fitted(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A gradient in the shape and dtype of what it is of, as torch's engine makes it."""
    if len(gradient.shape) != len(x.shape) or any(a != b for a, b in zip(gradient.shape, x.shape, strict=True)):
        gradient = gradient.sum_to_size(x.shape)
    return gradient.to(x.dtype)


def _with_backward_hooks(module: torch.nn.Module) -> Iterator[str]:
    """Paths of the modules, and names of the parameters, whose gradients a hook may change."""
    for path, inner in module.named_modules():
        if inner._backward_hooks or inner._backward_pre_hooks:
            yield path or "(root)"
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            yield name
