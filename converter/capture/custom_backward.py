"""Custom backward passes: those of `torch.autograd.Function` are captured, backward hooks aren't."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction

from ..warning import warn
from .cell_hooks import pause_watching
from .custom_backward_marks import COTANGENT, OWN_GRADIENT

Function = type[torch.autograd.Function]
Apply = Callable[[Function, tuple[Any, ...], Callable[[], Any]], Any]
"""Takes a function, its arguments and a callable that runs the forward; returns the outputs."""


class FunctionContext(FunctionCtx):
    """The `ctx` of a function's `forward` and `backward`, which are called one after the other."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    to_save: tuple[Any, ...] = ()
    non_differentiable: tuple[torch.Tensor, ...] = ()
    dirty_tensors: tuple[torch.Tensor, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors passed to `save_for_backward`."""
        return tuple(self.to_save)


@contextlib.contextmanager
def intercept_functions(apply: Apply) -> Iterator[None]:
    """Within the context, `apply` runs the user's `torch.autograd.Function`s, however they are called.

    torch's own functions (such as those of checkpoints) run as usual. Since 2.14, `Function.apply` is C++ code, and
    users may have stored it (`spike = Spike.apply`): it still looks up the class's `forward`, which is replaced here.
    """
    originals: dict[Function, Any] = {}

    def replace_forward(kind: Function) -> None:
        if is_from_torch(kind) or kind in originals:
            return
        originals[kind] = vars(kind).get("forward", _INHERITED)
        takes_context = kind.setup_context is _SingleLevelFunction.setup_context

        def forward(*args: Any) -> Any:
            def run() -> Any:
                return original_forward(kind)(*args)

            return apply(kind, args[1:] if takes_context else args, run)

        forward.__dict__[_ORIGINAL] = kind.forward
        kind.forward = staticmethod(forward)  # type: ignore[method-assign]

    def init_subclass(kind: Any, /, **options: Any) -> None:  # for a class that the module's own forward defines
        super(torch.autograd.Function, kind).__init_subclass__(**options)
        replace_forward(kind)

    # subclasses come first, while the forward that they inherit is still the original
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
    """The subclasses of a function, each after its base classes."""
    for inner in type.__subclasses__(kind):
        yield inner
        yield from _subclasses(inner)


def original_forward(kind: Function) -> Callable[..., Any]:
    """The user's original forward, also inside `intercept_functions`."""
    return kind.forward.__dict__.get(_ORIGINAL, kind.forward)  # type: ignore[no-any-return]


def is_from_torch(kind: Function) -> bool:
    """Whether a function comes with torch."""
    return kind.__module__.partition(".")[0] == "torch"


def run_forward(kind: Function, args: tuple[Any, ...]) -> tuple[FunctionContext, Any]:
    """Run the forward of a function; return its context and its result."""
    context = FunctionContext()
    context.needs_input_grad = tuple(isinstance(x, torch.Tensor) and x.is_floating_point() for x in args)
    if kind.setup_context is _SingleLevelFunction.setup_context:
        return context, original_forward(kind)(context, *args)
    result = original_forward(kind)(*args)
    kind.setup_context(context, args, result)
    return context, result


def run_backward(kind: Function, context: FunctionContext, cotangents: list[Any]) -> tuple[Any, ...]:
    """Run the backward of a function; return its gradients as a tuple."""
    backward: Any = kind.vjp if kind.vjp is not _SingleLevelFunction.vjp else kind.backward
    if backward.__code__.co_filename == torch.autograd.function.__file__ and hasattr(backward, "__wrapped__"):
        backward = backward.__wrapped__  # of `once_differentiable`
    gradients = (
        backward(context, cotangents) if getattr(kind, "boxed_grads_call", False) else backward(context, *cotangents)
    )
    return gradients if isinstance(gradients, tuple) else (gradients,)


@dataclass
class CustomFunctions:
    """The functions that a module applies while it is exported.

    Attributes:
        differentiated: names of the functions whose backward is replaced by the derivative of their forward.
        applied: the number of applications captured so far.
        failures: the reasons why backward passes can't be captured, by name of the function.
    """

    differentiated: Collection[str] = ()
    applied: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def apply(self, kind: Function, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Run a function; return its outputs, marked with its backward."""
        name = kind.__qualname__
        context, result = run_forward(kind, args)
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
            self.failures[name] = str(error).strip().partition("\n")[0]
            return result
        operands = [x for x, g in zip(args, gradients, strict=False) if g is not None]
        defined = [g for g in gradients if g is not None]
        if places:
            marked = OWN_GRADIENT([outputs[i] for i in places], operands, defined, cotangents, number)
            for i, x in zip(places, marked, strict=True):
                outputs[i] = x
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]

    def _gradients(
        self,
        kind: Function,
        context: FunctionContext,
        args: tuple[Any, ...],
        outputs: list[Any],
        places: list[int],
        number: int,
    ) -> tuple[list[torch.Tensor | None], list[torch.Tensor]]:
        """The gradient of each argument, in its shape and dtype (None if it has none), and the cotangents they use."""
        if context.dirty_tensors:
            raise NotImplementedError("it changes an input in place (ctx.mark_dirty)")
        if any(isinstance(x, torch.Tensor) and x.is_complex() for x in (*args, *outputs)):
            raise NotImplementedError("it has complex tensors")
        cotangents: list[Any] = []
        for i, x in enumerate(outputs):
            if i in places:
                cotangents.append(COTANGENT(x, number))
            else:
                materialized = isinstance(x, torch.Tensor) and context.materialize_grads
                cotangents.append(torch.zeros_like(x) if materialized else None)
        with pause_watching():
            gradients = run_backward(kind, context, cotangents)
        pairs = zip(args, (*gradients, *[None] * len(args)), strict=False)
        results = [_fit(g, x) if _is_floating(x) and g is not None else None for x, g in pairs]
        return results, [cotangents[i] for i in places]

    def warn(self, module: torch.nn.Module) -> None:
        """Issue a `ConversionWarning` for each kind of backward that isn't captured."""
        failures = {
            "the backward of {} (torch.autograd.Function) isn't captured": [
                f"{name}, {reason}" if reason else name for name, reason in self.failures.items()
            ],
            "backward hooks aren't captured, those of {}": list(with_backward_hooks(module)),
        }
        for what, names in failures.items():
            if names:
                message = f"{what.format(', '.join(names))}: the program's gradient is the derivative of its forward"
                warn(message)


def _is_floating(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _fit(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A gradient reduced and cast to the shape and dtype of `x`, as torch's engine does."""
    if len(gradient.shape) != len(x.shape) or any(a != b for a, b in zip(gradient.shape, x.shape, strict=True)):
        gradient = gradient.sum_to_size(x.shape)
    return gradient.to(x.dtype)


def with_backward_hooks(module: torch.nn.Module) -> Iterator[str]:
    """Paths of the modules, and names of the parameters, whose gradients a hook may change."""
    for path, inner in module.named_modules():
        if inner._backward_hooks or inner._backward_pre_hooks:
            yield path or "(root)"
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            yield name
