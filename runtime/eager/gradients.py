"""`grad`, `value_and_grad` and `GradOperation`: eager gradients of Python functions and Cells.

All output gradients are ones, so the gradient is that of the sum of all outputs of the function. An argument or
weight that the outputs don't depend on has a gradient of zeros, and so has a weight with `requires_grad=False`.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import context
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from .backward import Function, run_with_gradients


def grad(
    fn: Function, grad_position: Any = 0, weights: Any = None, has_aux: bool = False, return_ids: bool = False
) -> Function:
    """Return the function that computes the gradients of `fn`.

    Args:
        fn: a function or Cell that returns tensors (tuples, lists and dicts of them too).
        grad_position: index of the argument to differentiate, a tuple of indices, or None for none.
        weights: Parameters to differentiate: a list, tuple or `ParameterTuple`, or one Parameter; None for none.
        has_aux: only the first output is differentiated; the others are returned unchanged.
        return_ids: each gradient is returned in a pair with the index of its argument or the name of its Parameter.

    Returns:
        A function of the arguments of `fn`. If `grad_position` is an int or a tuple of one, it returns that gradient;
        for a longer tuple, a tuple of gradients; for weights, a tuple (for one Parameter just its gradient); for both,
        a pair of these. With `has_aux`, it returns the pair of the gradients and the tuple of the other outputs.

    Raises:
        ValueError: both `grad_position` and `weights` are None, or a position is negative or repeated; the returned
            function raises it for `has_aux` with a single output.
        TypeError: `fn` can't be called, a position isn't an int, or a weight isn't a Parameter.
        RuntimeError: `grad_position` is an empty tuple; the returned function raises it if a position exceeds the
            arguments.
    """
    request = _Request.parse(fn, grad_position, weights, has_aux, return_ids)

    @functools.wraps(fn, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        outputs, gradients = request.run(fn, args, kwargs)
        return (gradients, tuple(outputs[1:])) if has_aux else gradients

    return _in_any_mode(fn, ("grad", request), gradient)


def value_and_grad(
    fn: Function, grad_position: Any = 0, weights: Any = None, has_aux: bool = False, return_ids: bool = False
) -> Function:
    """Return the function that computes the outputs of `fn` and its gradients in one run of `fn`.

    Arguments and errors are those of `grad`. The returned function returns the pair `(outputs, gradients)`; with
    `has_aux`, `outputs` has all of them, and only the first is differentiated.
    """
    request = _Request.parse(fn, grad_position, weights, has_aux, return_ids)

    @functools.wraps(fn, updated=())
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        return request.run(fn, args, kwargs)

    return _in_any_mode(fn, ("value_and_grad", request), value_and_gradient)


class GradOperation:
    """A factory of gradient functions, configured by flags; `grad` is simpler.

    Args:
        get_all: return the gradients of all tensor arguments as a tuple; otherwise just the gradient of the first one.
        get_by_list: return the gradients of weights as a tuple; with `get_all`, the pair of both tuples.
        sens_param: the last argument of the call (or `sens=`) is the output gradient, with the structure and shapes of
            the output.

    Raises:
        TypeError: a flag isn't a bool.
    """

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False) -> None:
        for name, flag in {"get_all": get_all, "get_by_list": get_by_list, "sens_param": sens_param}.items():
            if not isinstance(flag, bool):
                raise TypeError(f"For 'GradOperation', '{name}' must be bool, but got {type(flag).__name__}: {flag!r}")
        self.get_all = get_all
        self.get_by_list = get_by_list
        self.sens_param = sens_param

    def __call__(self, fn: Function, weights: Any = None) -> Function:
        """Return the gradient function of `fn`; `weights` defaults to all trainable parameters of a Cell."""
        if self.get_by_list and weights is None:
            if not hasattr(fn, "trainable_params"):
                raise ValueError("GradOperation(get_by_list=True) of a function needs `weights`: none were given")
            weights = fn.trainable_params()

        @functools.wraps(fn, updated=())
        def gradient(*args: Any, **kwargs: Any) -> Any:
            sens = None
            if self.sens_param:
                if not args and "sens" not in kwargs:
                    raise TypeError("GradOperation(sens_param=True): the last argument must be the output gradient")
                args, sens = (args, kwargs.pop("sens")) if "sens" in kwargs else (args[:-1], args[-1])
            tensors = tuple(i for i, x in enumerate(args) if isinstance(x, Tensor))
            positions = tensors if self.get_all else () if self.get_by_list else (0,)
            if positions == (0,) and not args:
                exception = " besides the output gradient" if self.sens_param else ""
                raise TypeError(
                    f"GradOperation: the function was called without a positional argument{exception}: "
                    "needed the argument to differentiate"
                )
            parameters = _as_weights(weights) if self.get_by_list else ()
            result = run_with_gradients(fn, args, kwargs, positions, parameters, output_gradient=sens)
            if self.get_by_list:
                of_weights = result.weights[0] if isinstance(weights, Parameter) else result.weights
                return (result.inputs, of_weights) if self.get_all else of_weights
            return result.inputs if self.get_all else result.inputs[0]

        weight_ids = tuple(map(id, _as_weights(weights)))
        flags = (self.get_all, self.get_by_list, self.sens_param)
        return _in_any_mode(fn, ("GradOperation", flags, weight_ids, isinstance(weights, Parameter)), gradient)


def get_grad(gradients: Any, identifier: Any) -> Tensor:
    """Return the gradient for the index of an argument, a Parameter or its name from a `return_ids=True` result.

    Raises:
        RuntimeError: there is no such gradient.
    """
    key = identifier.name if isinstance(identifier, Parameter) else identifier
    pairs = [gradients]
    while pairs:
        item = pairs.pop()
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (int, str)):
            if item[0] == key:
                gradient: Tensor = item[1]
                return gradient
        elif isinstance(item, (tuple, list)):
            pairs.extend(item)
    raise RuntimeError(f"there is no gradient for {key!r} among the gradients")


def _in_any_mode(fn: Function, variant: Hashable, gradient: Function) -> Function:
    """Return a gradient function of `fn` that is compiled in graph mode, once for each `variant`."""

    @functools.wraps(gradient)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        compiler = context.compiler()
        if compiler is None:
            return gradient(*args, **kwargs)
        return compiler.in_graph_mode(fn, variant, gradient, args, kwargs)

    return wrapper


@dataclass(frozen=True)
class _Request:
    """The validated arguments of `grad`."""

    positions: tuple[int, ...]
    weights: tuple[Parameter, ...]
    only_weights: bool
    with_weights: bool
    bare_input: bool
    bare_weight: bool
    has_aux: bool
    return_ids: bool

    @classmethod
    def parse(cls, fn: Any, grad_position: Any, weights: Any, has_aux: bool, return_ids: bool) -> _Request:
        if not callable(fn):
            raise TypeError(f"`fn` must be a function or Cell, but got {type(fn).__name__}: {fn!r}")
        if grad_position is None and weights is None:
            raise ValueError("`grad_position` and `weights` can't both be None: there is nothing to differentiate")
        for name, flag in {"has_aux": has_aux, "return_ids": return_ids}.items():
            if not isinstance(flag, bool):
                raise TypeError(f"`{name}` must be bool, but got {type(flag).__name__}: {flag!r}")
        positions: tuple[int, ...] = ()
        if grad_position is not None:
            positions = grad_position if isinstance(grad_position, tuple) else (grad_position,)
            if not positions:
                raise RuntimeError("`grad_position` must not be an empty tuple: None stands for no argument")
            for position in positions:
                if not isinstance(position, int) or isinstance(position, bool):
                    raise TypeError(f"`grad_position` must be int or a tuple of int, but got {grad_position!r}")
                if position < 0:
                    raise ValueError(f"`grad_position` must be >= 0, but got {position}")
            if len(set(positions)) != len(positions):
                raise ValueError(f"there are duplicate positions in `grad_position`: {grad_position}")
        return cls(
            positions=positions,
            weights=_as_weights(weights),
            only_weights=grad_position is None,
            with_weights=weights is not None,
            bare_input=len(positions) == 1,
            bare_weight=isinstance(weights, Parameter),
            has_aux=has_aux,
            return_ids=return_ids,
        )

    def run(self, fn: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        result = run_with_gradients(fn, args, kwargs, self.positions, self.weights, has_aux=self.has_aux)
        inputs: Sequence[Any] = result.inputs
        weights: Sequence[Any] = result.weights
        if self.return_ids:
            inputs = tuple(zip(self.positions, inputs, strict=True))
            weights = tuple((p.name, g) for p, g in zip(self.weights, weights, strict=True))
        of_inputs = inputs[0] if self.bare_input else tuple(inputs)
        of_weights = weights[0] if self.bare_weight else tuple(weights)
        if not self.with_weights:
            return result.outputs, of_inputs
        return result.outputs, of_weights if self.only_weights else (of_inputs, of_weights)


def _as_weights(weights: Any) -> tuple[Parameter, ...]:
    if weights is None:
        return ()
    if isinstance(weights, Parameter):
        return (weights,)
    if not isinstance(weights, (list, tuple)):
        raise TypeError(f"`weights` must be a Parameter or a list or tuple of them, but got {type(weights).__name__}")
    for weight in weights:
        if not isinstance(weight, Parameter):
            raise TypeError(f"`weights` must hold Parameters, but got {type(weight).__name__}")
    return tuple(weights)
