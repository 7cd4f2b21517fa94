"""The table of ops: for each, the function that expresses it with torch's functions.

A form gets a `Context`, then the operands (a `torch.fx.Proxy` each, None for an absent one), and the attributes by
keyword, sizes known only at run time as proxies of ints. It returns the output, or a tuple of them:

    @torch_form("softmax")
    def softmax(context, x, *, axis):
        return F.softmax(x, axis)

Operations on the proxies are recorded as a graph. A form uses a single torch function where there is one, so that
the gradient is torch's own. `no_torch_form("op", "reason")` states that an op has no form.

Forms that only pass arguments on are rows: `pass_on({"softmax": (F.softmax, "x, dim=axis")})`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import Type
from ....runtime.ops.registry import Op, get
from ....runtime.registration import register, register_as
from ...rows import Call, Row

Form = Callable[..., Any]

FORMS: dict[str, Form] = {}
NO_FORM: dict[str, str] = {}
TAKE_NUMBERS: set[str] = set()
"""Ops whose form takes a Python number instead of a constant of rank 0."""


@dataclass(frozen=True)
class Context:
    """The context of a form, besides its operands.

    Attributes:
        tracer: the tracer of the graph under construction.
        inputs: dtype and shape of each operand; None for an absent one.
        outputs: dtype and shape of each output.
        used: for each output, whether it has a user; an unused one may be returned as None.
        fixed: for each operand, whether it is a buffer or a constant, which needs no gradient.
        size: returns a dimension as an int, or as a proxy of an int that is known only at run time.
        placement: returns the keyword arguments that place a new tensor on the device of the module's tensors.
    """

    tracer: fx.proxy.TracerBase
    inputs: tuple[Type | None, ...]
    outputs: tuple[Type, ...]
    used: tuple[bool, ...]
    fixed: tuple[bool, ...]
    size: Callable[[Dim], Any]
    placement: Callable[[], dict[str, Any]]

    @property
    def x(self) -> Type:
        """Type of the first operand."""
        first = self.inputs[0]
        assert first is not None
        return first

    @property
    def y(self) -> Type:
        """Type of the first output."""
        return self.outputs[0]

    def last_sizes(self, count: int) -> tuple[Any, ...]:
        """Sizes of the last axes of the first operand."""
        return tuple(self.size(dim) for dim in self.x.shape[self.x.rank - count :])

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Record a call, including one that wouldn't record itself: of a cellbridge function, or without tensors."""
        return self.tracer.create_proxy("call_function", function, args, kwargs)


def torch_form(*ops: str, numbers: bool = False) -> Callable[[Form], Form]:
    """Register a form for ops; a registered name raises.

    With `numbers`, the form takes Python numbers besides at least one tensor.
    """
    if numbers:
        TAKE_NUMBERS.update(ops)
    return register_as(FORMS, ops)


def torch_function(op: str, function: Callable[..., Any], *, numbers: bool = False) -> None:
    """Register a torch function for an op without attributes; it takes exactly the op's operands."""
    torch_form(op, numbers=numbers)(lambda context, *operands: context.call(function, *operands))


def pass_on(rows: Mapping[str, Row]) -> None:
    """Register ops that pass their operands and attributes on to a function, by the names that the op gives them."""
    for name, row in rows.items():
        op = get(name)
        torch_form(name)(_passing_on(op, Call(row, [*op.input_names, *op.attribute_defaults])))


def _passing_on(op: Op, call: Call) -> Form:
    def form(context: Context, *operands: Any, **attributes: Any) -> Any:
        args, kwargs = call.arguments(dict(zip(op.input_names, operands, strict=True)) | attributes)
        return context.call(call.function, *args, **kwargs)

    return form


def no_torch_form(op: str, reason: str) -> None:
    """Declare that an op can't be expressed with torch's functions, and why."""
    register(NO_FORM, [op], reason)
