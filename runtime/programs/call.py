"""Calling a program as a function: structured arguments in, structured result and gradients out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import tree
from ..errors import UsageError
from ..ir.dims import SymbolicDim, substitute
from ..ir.program import Gradients, Program
from ..ir.types import Value, as_dtype, in_native_order, is_floating
from .gradient_program import GradientProgram, differentiate
from .interpreter import bind, execute

Array = np.ndarray[Any, Any]


def as_array(tensor: Any) -> Array:
    """Return a NumPy array with the data of an array, a `Tensor` or a torch tensor (bfloat16 and 8-bit floats too).

    Complex numbers of shape S become pairs of reals, (*S, 2).
    """
    if isinstance(tensor, (np.ndarray, np.generic)):
        array = in_native_order(np.asarray(tensor))
        return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array
    if hasattr(tensor, "asnumpy"):
        return np.asarray(tensor.asnumpy())
    detached = tensor.detach().cpu()
    if str(detached.layout).startswith("torch.sparse"):  # by coordinates, in compressed rows, ...
        detached = detached.to_dense()
    # a float64 run of parity reports the working dtype for its tensors, but not its element size
    name = str(detached.dtype).removeprefix("torch.")
    if name == "bfloat16" or name.startswith("float8"):  # torch's own conversion to NumPy lacks these
        narrow = as_dtype(name)
        if detached.element_size() == narrow.itemsize:
            with np.errstate(invalid="ignore"):  # for NaN as an 8-bit float
                return np.asarray(detached.float().numpy().astype(narrow))
    resolved = detached.resolve_conj().resolve_neg()
    if resolved.is_complex():
        return np.stack([np.asarray(part.numpy()) for part in (resolved.real, resolved.imag)], axis=-1)
    return np.asarray(resolved.numpy())


def flat_inputs(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Array]:
    """Return the arrays for `program.inputs` from the arguments; `UsageError` if the structures differ."""
    return [as_array(leaf) for leaf in tree.match_call(program.arguments, args, kwargs)]


def call(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Program.__call__`."""
    inputs = flat_inputs(program, args, kwargs)
    return result_of(program, inputs, execute(program, inputs))


def result_of(program: Program, inputs: Sequence[Any], outputs: list[Any]) -> Any:
    """Build the result of the program from its outputs; sizes in it become numbers, by the shapes of the inputs."""
    return tree.unflatten(result_structure(program, inputs), outputs)


def result_structure(program: Program, inputs: Sequence[Any]) -> tree.Structure:
    """Return the structure of the program's result for these inputs, with numbers in place of symbolic sizes."""
    structure = program.result
    return _with_sizes(structure, bind(program, inputs)) if _has_sizes(structure) else structure


def _has_sizes(structure: tree.Structure) -> bool:
    return isinstance(structure.constant, SymbolicDim) or any(map(_has_sizes, structure.children))


def _with_sizes(structure: tree.Structure, sizes: dict[str, int]) -> tree.Structure:
    if isinstance(structure.constant, SymbolicDim):
        return replace(structure, constant=substitute(structure.constant, sizes))
    return replace(structure, children=tuple(_with_sizes(child, sizes) for child in structure.children))


def gradient_program(program: Program) -> GradientProgram:
    """Return the gradient program of `program`, which is built once."""
    result = program.__dict__.get("_gradient_program")
    if result is None:
        result = program.__dict__["_gradient_program"] = differentiate(program)
    assert isinstance(result, GradientProgram)
    return result


def value_and_grad(
    program: Program, args: tuple[Any, ...], kwargs: dict[str, Any], cotangents: Iterable[Any] | None
) -> tuple[Any, Gradients]:
    """`Program.value_and_grad`."""
    inputs = flat_inputs(program, args, kwargs)
    floating = [value for value in program.outputs if is_floating(value.dtype)]
    if cotangents is None:
        outputs = execute(program, inputs) if any(_symbolic(value) for value in floating) else []
        by_value = dict(zip(program.outputs, outputs, strict=False))
        seeds = [np.ones(by_value[v].shape if v in by_value else v.shape, v.dtype) for v in floating]
    else:
        seeds = check_cotangents(program, cotangents)
    backward = gradient_program(program)
    gradients = [*backward.input_gradients, *backward.parameter_gradients.values()]
    values = [*program.outputs, *(value for value in gradients if value is not None)]
    results = execute(backward.program, [*inputs, *seeds], wanted=values)
    computed = dict(zip(values, results, strict=True))
    of_inputs = tuple(
        None if not is_floating(array.dtype) else np.zeros_like(array) if value is None else computed[value]
        for value, array in zip(backward.input_gradients, inputs, strict=True)
    )
    of_parameters = {
        name: np.zeros_like(program.constant_data[program.parameters[name].value]) if value is None else computed[value]
        for name, value in backward.parameter_gradients.items()
    }
    result = result_of(program, inputs, results[: len(program.outputs)])
    return result, Gradients(of_inputs, of_parameters)


def _symbolic(value: Value) -> bool:
    return not all(isinstance(dim, int) for dim in value.shape)


def check_cotangents(program: Program, cotangents: Iterable[Any]) -> list[Array]:
    """Return one array per floating-point output, in its dtype; `UsageError` if their number or shapes are wrong."""
    if tree.is_tensor(cotangents):
        raise UsageError(f"needed a list with a cotangent for each output, given one {type(cotangents).__name__}")
    cotangents = list(cotangents)
    outputs = zip(program.result.paths("output"), program.outputs, strict=True)
    floating = [(label, value) for label, value in outputs if is_floating(value.dtype)]
    if len(cotangents) != len(floating):
        raise UsageError(f"needed {len(floating)} cotangents, one per floating-point output, given {len(cotangents)}")
    arrays: list[Array] = []
    for i, ((label, value), cotangent) in enumerate(zip(floating, cotangents, strict=True)):
        if not tree.is_tensor(cotangent):
            raise UsageError(f"cotangent {i}, of {label}: needed an array or tensor, given {type(cotangent).__name__}")
        array = as_array(cotangent)
        pairs = zip(array.shape, value.shape, strict=False)
        if array.ndim != len(value.shape) or any(isinstance(b, int) and a != b for a, b in pairs):
            raise UsageError(f"cotangent {i}, of {label}: needed shape {list(value.shape)}, given {list(array.shape)}")
        arrays.append(array.astype(value.dtype, copy=False))
    return arrays
