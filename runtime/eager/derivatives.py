"""Gradient operators such as `ops.grad(fn)`: products with a Jacobian matrix, and the matrix itself.

For `fn` with outputs y and inputs x, the Jacobian J consists of the derivatives dy[i]/dx[j].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..common.tensor import Tensor
from ..functional.arguments import integers
from ..functional.joining import stack
from ..functional.public_op import operator_object, public_op
from ..functional.shapes import reshape
from ..tensor_like import TensorLike
from ..tree import leaves_of
from .backward import run_with_gradients
from .gradients import GradOperation, get_grad, grad, value_and_grad

Function = Callable[..., Any]

for _function in (get_grad, grad, value_and_grad):
    public_op()(_function)
operator_object(GradOperation)


@public_op()
def vjp(fn: Function, *inputs: Any, weights: Any = None, has_aux: bool = False) -> tuple[Any, ...]:
    """Vector-Jacobian product: return the outputs of `fn(*inputs)`, and a function that maps output gradients v to vJ.

    Args:
        fn: a function or Cell that returns a tensor or a tuple of them.
        inputs: its arguments, which are tensors.
        weights: Parameters whose gradients to compute as well: one, or a list or tuple.
        has_aux: only the first output is differentiated.

    Returns:
        `(outputs, vjp_fn)`. `vjp_fn(*v)` takes a tensor for each output and runs `fn` again. It returns a tuple with
        the gradients of the inputs; with `weights`, the pair of that tuple and the tuple of their gradients. With
        `has_aux`, the result is `(first output, vjp_fn, other outputs)`.

    Raises:
        TypeError: an input isn't a tensor.
        ValueError: with `has_aux`, there is only one output.
    """
    _require_tensors(inputs, of="vjp")
    pull = GradOperation(get_all=True, get_by_list=weights is not None, sens_param=True)
    vjp_of_fn = pull(_without_aux(fn) if has_aux else fn, weights)

    def vjp_fn(*v: Any) -> Any:
        _require_tensors(v, of="vjp_fn")
        return vjp_of_fn(*inputs, v[0] if len(v) == 1 else v)

    outputs, *aux = _split_aux(fn(*inputs)) if has_aux else (fn(*inputs),)
    return outputs, vjp_fn, *aux


@public_op()
def jvp(fn: Function, inputs: Any, v: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Jacobian-vector product: return the outputs of `fn`, and Jv, their derivatives in the direction `v`.

    Args:
        fn: a function or Cell that returns a tensor or a tuple of them.
        inputs: its argument, or a tuple or list of them.
        v: tensors of the shapes of `inputs`.
        has_aux: only the first output is differentiated.

    Returns:
        `(outputs, derivatives)`; with `has_aux`, `(first output, its derivative, other outputs)`.

    Raises:
        TypeError: an input or direction isn't a tensor.
        ValueError: `v` has another shape; or, with `has_aux`, there is only one output.
    """
    arguments, directions = _as_tuple(inputs), _as_tuple(v)
    _require_tensors((*arguments, *directions), of="jvp")
    if [x.shape for x in arguments] != [x.shape for x in directions]:
        raise ValueError(
            f"For 'jvp', 'v' must have the shapes of 'inputs', {[x.shape for x in arguments]}, but got "
            f"{[x.shape for x in directions]}"
        )
    outputs, *aux = _split_aux(fn(*arguments)) if has_aux else (fn(*arguments),)
    results = list(leaves_of(outputs, Tensor))
    vjp_of_fn = GradOperation(get_all=True, sens_param=True)(_without_aux(fn) if has_aux else fn)

    def pull_back(*u: Any) -> Any:  # linear in u, with the derivative v J^T
        return vjp_of_fn(*arguments, u if isinstance(outputs, (tuple, list)) else u[0])

    zeros = tuple(Tensor(np.zeros(y.shape, y.dtype)) for y in results)
    derivatives = run_with_gradients(
        pull_back, zeros, {}, tuple(range(len(zeros))), (), output_gradient=directions
    ).inputs
    return outputs, derivatives if isinstance(outputs, (tuple, list)) else derivatives[0], *aux


@public_op()
def jacrev(fn: Function, grad_position: Any = 0, has_aux: bool = False) -> Function:
    """Return the function that computes the Jacobian of `fn` one row (element of an output) at a time.

    Args:
        fn: a function or Cell that returns a tensor or a tuple of them.
        grad_position: index of the argument, or a tuple of indices.
        has_aux: only the first output is differentiated.

    Returns:
        A function with the arguments of `fn`. For an output of shape Y and an argument of shape X it returns a tensor
        of shape (*Y, *X): in a tuple over arguments if `grad_position` is a tuple, and in a tuple over outputs if there
        are several. With `has_aux`, it returns the pair of the Jacobian and the other outputs.
    """
    positions = integers(grad_position, "grad_position", of="jacrev")

    def jacobian(*args: Any) -> Any:
        function = _without_aux(fn) if has_aux else fn
        outputs, *aux = _split_aux(fn(*args)) if has_aux else (fn(*args),)
        results = _as_tuple(outputs)
        by_output = []
        for i, y in enumerate(results):
            rows = [
                run_with_gradients(function, args, {}, positions, (), output_gradient=_one_hot(results, i, k)).inputs
                for k in range(y.size)
            ]
            by_output.append(
                tuple(
                    reshape(stack([row[k] for row in rows]), (*y.shape, *args[position].shape))
                    for k, position in enumerate(positions)
                )
            )
        return _arrange(by_output, outputs, grad_position, aux)

    return jacobian


@public_op()
def jacfwd(fn: Function, grad_position: Any = 0, has_aux: bool = False) -> Function:
    """Return the function that computes the Jacobian of `fn` one column (element of an argument) at a time.

    Arguments and result are those of `jacrev`.
    """
    positions = integers(grad_position, "grad_position", of="jacfwd")

    def jacobian(*args: Any) -> Any:
        outputs, *aux = _split_aux(fn(*args)) if has_aux else (fn(*args),)
        results = _as_tuple(outputs)
        arguments = tuple(args[position] for position in positions)

        def partial(*xs: Any) -> Any:
            complete = list(args)
            for position, x in zip(positions, xs, strict=True):
                complete[position] = x
            y = fn(*complete)
            return y[0] if has_aux else y

        columns: list[list[Any]] = [
            [_as_tuple(jvp(partial, arguments, _one_hot(arguments, k, j))[1]) for j in range(x.size)]
            for k, x in enumerate(arguments)
        ]
        by_output = [
            tuple(
                reshape(stack([column[i] for column in columns[k]], -1), (*y.shape, *x.shape))
                for k, x in enumerate(arguments)
            )
            for i, y in enumerate(results)
        ]
        return _arrange(by_output, outputs, grad_position, aux)

    return jacobian


def _arrange(by_output: list[tuple[Any, ...]], outputs: Any, grad_position: Any, aux: Sequence[Any]) -> Any:
    rows = [of_inputs if isinstance(grad_position, tuple) else of_inputs[0] for of_inputs in by_output]
    jacobian = tuple(rows) if isinstance(outputs, (tuple, list)) else rows[0]
    return (jacobian, *aux) if aux else jacobian


def _one_hot(tensors: Sequence[Any], tensor_index: int, flat_index: int) -> tuple[Any, ...]:
    """Return zeros like the tensors, with a one at `flat_index` of the tensor at `tensor_index`."""
    arrays = [np.zeros(x.shape, x.dtype) for x in tensors]
    arrays[tensor_index].reshape(-1)[flat_index] = 1
    return tuple(map(Tensor, arrays))


def _without_aux(fn: Function) -> Function:
    def first(*args: Any) -> Any:
        return _split_aux(fn(*args))[0]

    return first


def _split_aux(outputs: Any) -> tuple[Any, Any]:
    if not isinstance(outputs, tuple) or len(outputs) < 2:
        raise ValueError("with has_aux=True the function must return more than one output, but it returned one")
    return outputs[0], outputs[1] if len(outputs) == 2 else outputs[1:]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _require_tensors(values: Sequence[Any], *, of: str) -> None:
    for x in values:
        if not isinstance(x, TensorLike):
            raise TypeError(f"For '{of}', the inputs must be Tensors, but got {type(x).__name__}: {x!r}")
