"""Records a network in JAX, forward and backward, in float32 and in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....recorder import Recorder
from ..jax_side import JaxSide
from ..records import OUTPUT, Key, gradient_key
from .cells import as_function, other_names, parameter_names
from .double_precision import evaluate_in_double
from .leaves import cast, is_floating, is_variable, split
from .observer import Observer

DTYPES = ("float64", "float32")
NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where code needs the value of an array that is traced."""
CANT_BE_TRACED = (
    "the network in JAX can't be traced, since its code needs the values of arrays: what it casts to float32 is "
    "rounded to float32 in the float64 run, too"
)


def record_jax(
    side: JaxSide,
    path: Path,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seed: int,
    grads: bool,
    *,
    perturbed: bool = False,
) -> list[str]:
    """Write a recording of a network to a folder.

    Args:
        side: the network.
        path: the new folder.
        args: positional arguments, NumPy arrays.
        kwargs: keyword arguments.
        seed: seed of the gradients of the outputs.
        grads: whether to run backward.
        perturbed: record the run in float64 alone, with the numbers in the network's code perturbed.

    Returns:
        Remarks on the runs.
    """
    notes = []
    with Recorder(path, framework="jax", seed=seed) as recorder:
        for dtype in DTYPES[:1] if perturbed else DTYPES:
            with recorder.run(dtype), jax.enable_x64(dtype == "float64"):
                step = _Step(side, args, kwargs, dtype, seed, grads)
                notes += step.record(recorder, perturbed)
    return notes


class _Step:
    """One run of a network, forward and backward, in one dtype.

    Args:
        side: the network.
        args: positional arguments.
        kwargs: keyword arguments.
        dtype: the dtype of parameters and arguments.
        seed: seed of the gradients of the outputs.
        grads: whether to run backward.
    """

    def __init__(self, side: JaxSide, args: Any, kwargs: Any, dtype: str, seed: int, grads: bool) -> None:
        params, self._call = as_function(side)
        self.aliases, self._returns = other_names(side), side.returns
        self.params, args, kwargs = (jax.tree.map(lambda x: cast(x, dtype), tree) for tree in (params, args, kwargs))
        # whole numbers stay what they are while the network is traced, since code may decide by them
        self.variables, self._with_variables = split(self.params, is_variable)
        self.inputs, self._with_inputs = split((args, kwargs), is_floating)
        self.dtype, self.grads = dtype, grads
        self.last = Observer({}, side.returns)
        self.can_be_traced = True
        try:
            jax.eval_shape(self._forward, self.variables, self.inputs, {})
        except NEEDS_VALUES:
            self.can_be_traced = False
            self._forward(self.variables, self.inputs, {})
        floating = {name: value for name, value in self.last.values.items() if is_floating(value)}
        self.taps = {name: jnp.zeros(value.shape, value.dtype) for name, value in floating.items()} if grads else {}
        generator = np.random.default_rng(seed)
        self.cotangents = [
            jnp.asarray(generator.standard_normal(value.shape).astype(np.float32), value.dtype)
            for name, value in floating.items()
            if _is_root_output(self.last.keys[name])
        ]

    def record(self, recorder: Recorder, perturbed: bool) -> list[str]:
        """Run the network, and write what crosses the boundaries of its Cells; return remarks."""
        arguments = self.variables, self.inputs, self.taps, self.cotangents
        in_double = self.dtype == "float64" and self.can_be_traced
        if in_double:
            values, of_variables, of_taps = evaluate_in_double(self._run, arguments, perturbed=perturbed)
        else:
            values, of_variables, of_taps = self._run(*arguments)
        for call in self.last.calls:
            recorder.add_call(call.path, call.index, call.class_name, call.parent)
        for name, key in self.last.keys.items():
            recorder.add_tensor(key.path, key.call, key.kind, key.slot, values[name])
        for name, value in parameter_names(self.params):
            for alias in (name, *(other for other, first in self.aliases.items() if first == name)):
                recorder.parameter(alias, value)
        for name, gradient in of_taps.items():
            key = gradient_key(self.last.keys[name])
            recorder.add_tensor(key.path, key.call, key.kind, key.slot, gradient)
        variables = [name for name, value in parameter_names(self.params) if is_variable(value)]
        for name, gradient in zip(variables, of_variables, strict=True) if self.grads else ():
            recorder.parameter(name, gradient=gradient)
        return [CANT_BE_TRACED] if self.dtype == "float64" and not in_double else []

    def _run(self, variables: Any, inputs: Any, taps: Any, cotangents: Any) -> tuple[dict[str, Any], Any, Any]:
        """Return the values at the boundaries, the gradients of the variables, and those of the taps."""
        if not self.grads:
            self._forward(variables, inputs, taps)
            return self.last.values, [], {}

        def function(variables: Any, taps: Any) -> Any:
            return self._forward(variables, inputs, taps), self.last.values

        _, pull, values = jax.vjp(function, variables, taps, has_aux=True)
        of_variables, of_taps = pull(cotangents)
        return values, of_variables, of_taps

    def _forward(self, variables: Any, inputs: Any, taps: Any) -> list[Any]:
        """Call the network, and return its floating-point outputs."""
        observer = self.last = Observer(taps, self._returns)
        args, kwargs = self._with_inputs(inputs)
        self._call(self._with_variables(variables), observer, args, kwargs)
        outputs = [observer.values[name] for name, key in observer.keys.items() if _is_root_output(key)]
        return [output for output in outputs if is_floating(output)]


def _is_root_output(key: Key) -> bool:
    return key.path == "" and key.kind == OUTPUT
