"""Records a network in JAX, forward and backward, in float32 and in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...recorder import Recorder
from ..sides.jax_side import JaxSide
from ..sides.records import OUTPUT, Key, gradient_key
from .cells import as_function, parameter_names
from .observer import Observer

DTYPES = ("float64", "float32")


def record_jax(
    side: JaxSide, path: Path, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int, grads: bool
) -> None:
    """Write a recording of a network to a folder.

    Args:
        side: the network.
        path: the new folder.
        args: positional arguments, NumPy arrays.
        kwargs: keyword arguments.
        seed: seed of the gradients of the outputs.
        grads: whether to run backward.
    """
    with Recorder(path, framework="jax", seed=seed) as recorder:
        for dtype in DTYPES:
            with recorder.run(dtype), jax.enable_x64(dtype == "float64"):
                _record_run(recorder, side, args, kwargs, dtype, seed, grads)


def _record_run(recorder: Recorder, side: JaxSide, args: Any, kwargs: Any, dtype: str, seed: int, grads: bool) -> None:
    params, call = as_function(side)
    params, args, kwargs = (jax.tree.map(lambda x: _cast(x, dtype), tree) for tree in (params, args, kwargs))
    seen = Observer({})
    call(params, seen, args, kwargs)
    floating = {name: value for name, value in seen.values.items() if _is_floating(value)}
    taps = {name: jnp.zeros_like(value) for name, value in floating.items()} if grads else {}
    last: list[Observer] = []

    def function(params: Any, taps: Any) -> Any:
        observer = Observer(taps)
        call(params, observer, args, kwargs)
        last[:] = [observer]
        outputs = [observer.values[n] for n, key in observer.keys.items() if _is_root_output(key)]
        return [output for output in outputs if _is_floating(output)], observer.values

    outputs, pull, values = jax.vjp(function, params, taps, has_aux=True)
    (observer,) = last
    for one in observer.calls:
        recorder.add_call(one.path, one.index, one.class_name, one.parent)
    for name, key in observer.keys.items():
        recorder.add_tensor(key.path, key.call, key.kind, key.slot, values[name])
    for name, value in parameter_names(params):
        recorder.parameter(name, value)
    if not grads:
        return
    generator = np.random.default_rng(seed)
    cotangents = [generator.standard_normal(output.shape).astype(np.float32) for output in outputs]
    of_params, of_taps = pull([jnp.asarray(c, output.dtype) for c, output in zip(cotangents, outputs, strict=True)])
    for name, gradient in of_taps.items():
        key = gradient_key(observer.keys[name])
        recorder.add_tensor(key.path, key.call, key.kind, key.slot, gradient)
    for name, gradient in parameter_names(of_params):
        if gradient.dtype != jax.dtypes.float0:
            recorder.parameter(name, gradient=gradient)


def _is_root_output(key: Key) -> bool:
    return key.path == "" and key.kind == OUTPUT


def _is_floating(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


def _cast(leaf: Any, dtype: str) -> Any:
    """Return an array of floating-point numbers in a dtype, others as they are."""
    if not hasattr(leaf, "dtype"):
        return leaf
    array = jnp.asarray(leaf)
    return array.astype(dtype) if _is_floating(array) else array
