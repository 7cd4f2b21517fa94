"""The computation of gradients: run a function with tracked arguments and Parameters, then walk the tape backward.

The public functions are in `gradients`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..common import tape
from ..common.hooks import apply_gradient_hooks
from ..common.parameter import Parameter
from ..common.tensor import Tensor, from_array, full_like, zeros_like
from ..current_trace import current as current_trace
from ..ops import elementwise
from ..precision import compute_in
from ..tree import leaves, leaves_of

Function = Callable[..., Any]


@dataclass(frozen=True)
class GradientResult:
    """Outputs of a function, and the gradients of the requested arguments and weights, in the requested order.

    `has_gradient` is True for each weight that a gradient reached; the gradients of the others are zeros.
    """

    outputs: Any
    inputs: tuple[Any, ...]
    weights: tuple[Tensor, ...]
    has_gradient: tuple[bool, ...]


@dataclass
class Forward:
    """A recorded forward run.

    Attributes:
        recording: the tape; the run begins at entry `start`.
        numbers: tape numbers of the tracked arguments, by position.
        parameters: by `id`, each tracked Parameter with its tape number.
        outputs: what the function returned.
    """

    recording: tape.Tape
    start: int
    numbers: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, tuple[int, Parameter]] = field(default_factory=dict)
    outputs: Any = None

    def number_of(self, parameter: Tensor) -> int | None:
        """Return the tape number of a Parameter; None if it wasn't tracked."""
        entry = self.parameters.get(id(parameter))
        return entry[0] if entry else None


def run_with_gradients(
    fn: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    positions: tuple[int, ...],
    weights: tuple[Parameter, ...],
    *,
    has_aux: bool = False,
    output_gradient: Any = None,
) -> GradientResult:
    """Run `fn` and its backward pass; see `gradients.grad`. `output_gradient` replaces the default of ones.

    The tape is cleared afterwards, even if `fn` raises.
    """
    _check_positions(args, positions)
    trace = current_trace()
    if trace is not None and trace.region is not None:
        trace.region.on_gradient()
    outer = tape.current()
    take_forward = getattr(fn, "take_forward", None) if outer is None else None  # a Cell may have a recorded run
    forward = take_forward(args, kwargs, weights) if take_forward else None
    recording = outer or (forward.recording if forward else tape.Tape())
    try:
        if forward is None:
            forward = record(fn, args, kwargs, recording, positions, weights)
        if has_aux and not (isinstance(forward.outputs, (tuple, list)) and len(forward.outputs) > 1):
            raise ValueError("with has_aux=True the function must return more than one output, but it returned one")
        differentiated = forward.outputs[0] if has_aux else forward.outputs
        with tape.record_on(outer), compute_in(None):
            cotangents = _output_cotangents(differentiated, output_gradient, forward)
            recording.backward(forward.start, cotangents)
            complete: dict[int, Tensor] = {}  # by tape number, after the hooks of the tensor

            def gradient(tensor: Tensor, number: int | None) -> Tensor:
                if number is None or number not in cotangents:
                    return zeros_like(tensor)
                if number not in complete:
                    complete[number] = apply_gradient_hooks(tensor, cotangents[number])
                return complete[number]

            of_inputs = tuple(
                gradient(args[i], forward.numbers.get(i)) if isinstance(args[i], Tensor) else () for i in positions
            )
            of_weights = tuple(gradient(p, forward.number_of(p)) for p in weights)
            has_gradient = tuple(forward.number_of(p) in cotangents for p in weights)
        return GradientResult(forward.outputs, of_inputs, of_weights, has_gradient)
    finally:
        if outer is None:
            recording.clear()


def record(
    fn: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    recording: tape.Tape,
    positions: Sequence[int],
    weights: Sequence[Parameter],
) -> Forward:
    """Run `fn` on the tape, and track the arguments at `positions` and the trainable `weights`.

    A Parameter among the arguments is tracked like a weight: wherever `fn` uses it, it is the same variable.
    """
    tracked_args = list(args)
    forward = Forward(recording, 0)
    parameters = [*weights, *(args[i] for i in positions if isinstance(args[i], Parameter))]
    with _track(recording, parameters, forward), tape.record_on(recording):
        for i in positions:
            if isinstance(args[i], Parameter):
                if args[i].requires_grad:
                    forward.numbers[i] = forward.parameters[id(args[i])][0]
            elif isinstance(args[i], Tensor):
                number = forward.numbers[i] = _leaf(recording, args[i])
                tracked_args[i] = from_array(args[i]._data, recording, number)
                tracked_args[i]._is_leaf = True
                hooks = args[i].__dict__.setdefault("_gradient_hooks", {})
                tracked_args[i].__dict__["_gradient_hooks"] = hooks
        forward.start = len(recording.entries)
        forward.outputs = fn(*tracked_args, **kwargs)
    return forward


@contextlib.contextmanager
def _track(recording: tape.Tape, parameters: Sequence[Parameter], forward: Forward) -> Iterator[None]:
    """Within the context, the trainable `parameters` are leaves on the tape."""
    before: list[tuple[Parameter, tape.Tape | None, int]] = []
    try:
        for parameter in parameters:
            if parameter.requires_grad and id(parameter) not in forward.parameters:
                number = _leaf(recording, parameter)
                before.append((parameter, parameter._tape, parameter._number))
                parameter._tape, parameter._number = recording, number
                forward.parameters[id(parameter)] = (number, parameter)
        yield
    finally:
        for parameter, outer, number in before:
            parameter._tape, parameter._number = outer, number


def _leaf(recording: tape.Tape, tensor: Tensor) -> int:
    """Return a new number for `tensor`, linked to the number by which an enclosing gradient tracks it, if any."""
    number = recording.number()
    outer = tensor.number_on(recording)
    if outer is not None:
        recording.append(tape.Entry((outer,), (number,), lambda output_cotangents: output_cotangents))
    return number


def _check_positions(args: tuple[Any, ...], positions: tuple[int, ...]) -> None:
    for position in positions:
        if position >= len(args):
            raise RuntimeError(
                f"`grad_position` {position} exceeds the inputs: the function was called with {len(args)} positional "
                "arguments (keyword arguments can't be differentiated)"
            )
        if not isinstance(args[position], (Tensor, tuple, list, dict)):
            raise TypeError(
                f"argument {position} can't be differentiated: needed a Tensor, but got {args[position]!r} "
                f"({type(args[position]).__name__})"
            )


_CONSTANTS = (bool, int, float, np.ndarray, np.generic)
"""Types that a function may return instead of Tensors; the gradients are zeros."""


def _output_cotangents(outputs: Any, output_gradient: Any, forward: Forward) -> dict[int, Any]:
    """Return the output gradients by tape number."""
    tensors = list(leaves_of(outputs, Tensor))
    if not tensors and not any(isinstance(leaf, _CONSTANTS) for leaf in leaves(outputs)):
        returned = "None; is a `return` missing?" if outputs is None else f"{outputs!r} ({type(outputs).__name__})"
        raise TypeError(
            "there is nothing to differentiate: the function must return a Tensor, or a tuple, list or dict with "
            f"Tensors, but it returned {returned}"
        )
    if output_gradient is None:
        gradients = [full_like(x, 1) for x in tensors]
    else:
        values = leaves(output_gradient)
        if len(values) != len(tensors):
            raise RuntimeError(f"the output gradient holds {len(values)} tensors, the output {len(tensors)}")
        gradients = [_as_output_gradient(g, x) for x, g in zip(tensors, values, strict=True)]
    cotangents: dict[int, Any] = {}
    for x, g in zip(tensors, gradients, strict=True):
        number = forward.number_of(x)  # a Parameter that is itself an output is no longer on the tape
        if number is None:
            number = x.number_on(forward.recording)
        if number is not None:
            cotangents[number] = cotangents[number] + g if number in cotangents else g
    return cotangents


def _as_output_gradient(gradient: Any, output: Tensor) -> Tensor:
    """Convert the gradient of an output to a tensor of its dtype; `ValueError` if the shapes differ."""
    g = gradient if isinstance(gradient, Tensor) else Tensor(gradient)
    if output.shape != g.shape:
        raise ValueError(f"the output gradient must have the shape of the output, {output.shape}, but got {g.shape}")
    return g if g.dtype == output.dtype else elementwise.cast(g, dtype=output.dtype)
