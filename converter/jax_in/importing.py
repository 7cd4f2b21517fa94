"""`from_jax`: converts a function of JAX, or a module of Flax or Equinox, to a program."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...runtime import tree
from ...runtime.errors import ConversionError, ConversionWarning, UsageError, require_supported
from ...runtime.ir.program import Program
from ...runtime.ir.types import Buffer, CellCall, ProgramParameter, Type, is_floating
from ...runtime.programs.verify import verify
from ...runtime.tracing import Builder
from ...runtime.tree import Structure


def from_jax(function: Any, *args: Any, params: Any = None) -> Program:
    """Convert a function of JAX to a program, through its jaxpr.

    Primitives of `lax` become ops; `scan`, `cond` and `while_loop` become ops with sub-programs. Sizes are those of the
    example arguments. Gradients are the program's own, so those that `jax.custom_vjp` defines are replaced, with a
    warning. JAX is imported here.

    Args:
        function: `f(params, *args)`, or `f(*args)` without `params`; a `flax.nnx.Module`, a `flax.linen.Module` with
            its variables as `params`, or an `equinox.Module`.
        *args: example arguments, whose shapes and dtypes count: arrays, in tuples, lists and dicts.
        params: a pytree of arrays. The floating-point ones become trainable parameters, by their paths
            (`layers.0.kernel`); running statistics become buffers; others are constants.

    Returns:
        The program. It takes the arrays in `args` by position.

    Raises:
        UnsupportedOperators: primitives can't be translated; the message lists them.
        ConversionError: the function can't be traced, or JAX isn't installed.
    """
    try:
        import jax
        from jax import tree_util
    except ImportError as error:
        raise ConversionError("from_jax needs JAX: pip install 'cellbridge[jax]'") from error
    from .reader import Found, Incomplete, Reader, trace

    call, variables, statistics = _as_function(function, params)
    name = getattr(function, "__name__", type(function).__name__)
    try:
        closed = trace(call, variables, *args)
        result = jax.eval_shape(call, variables, *args)
    except Exception as error:  # the user's function may raise anything
        raise ConversionError(f"{name} can't be traced by JAX: {type(error).__name__}: {error}") from error
    builder, findings = Builder(), Found()
    parameters: dict[str, ProgramParameter] = {}
    buffers: dict[str, Buffer] = {}
    operands = []
    for path, leaf in tree_util.tree_flatten_with_path(variables)[0]:
        array = np.asarray(leaf)
        if not is_floating(array.dtype):
            operands.append(builder.constant(array))
            continue
        tensor = builder.new_value(name_of_leaf(path), Type(array.dtype, array.shape))
        if tensor.value.name in statistics or tensor.value.name.startswith("batch_stats."):
            buffers[tensor.value.name] = Buffer(tensor.value, array)
        else:
            parameters[tensor.value.name] = ProgramParameter(tensor.value, array, True)
        operands.append(tensor)
    leaves = [np.asarray(leaf) for leaf in tree_util.tree_leaves(args)]
    inputs = [builder.new_value(f"input_{number}", Type(x.dtype, x.shape)) for number, x in enumerate(leaves)]
    try:
        outputs = Reader(builder, findings).run(closed, [*operands, *inputs])
    except Incomplete:
        outputs = ()
    require_supported(findings.unsupported, f"{name} can't be converted: {{}} of unsupported primitives of JAX")
    for note in findings.notes:
        warnings.warn(note, ConversionWarning, stacklevel=2)
    placeholders = tree_util.tree_map(lambda x: np.zeros((), x.dtype), result)
    _, arguments = tree.flatten(_plain(args))
    _, structure = tree.flatten(_plain(placeholders))
    program = Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x.value for x in outputs),
        nodes=tuple(builder.nodes),
        parameters=parameters,
        buffers=buffers,
        constants=tuple(builder.constants),
        calls=(CellCall("", name),),
        arguments=Structure("tuple", (arguments, Structure("dict"))),
        result=structure,
    )
    verify(program)
    return program


def _as_function(network: Any, params: Any) -> tuple[Callable[..., Any], Any, set[str]]:
    """Return a function of variables and arguments, the variables, and the names of those that are statistics."""
    nnx, linen, equinox = (sys.modules.get(name) for name in ("flax.nnx", "flax.linen", "equinox"))
    if nnx is not None and isinstance(network, nnx.Module):
        definition, state = nnx.split(network)
        paths = nnx.to_flat_state(nnx.state(network, nnx.BatchStat))
        statistics = {".".join(map(str, path)) for path, _ in paths}
        return lambda variables, *args: nnx.merge(definition, variables)(*args), nnx.to_pure_dict(state), statistics
    if linen is not None and isinstance(network, linen.Module):
        if params is None:
            raise UsageError(
                "from_jax: a module of flax.linen needs its variables: from_jax(module, x, params=variables)"
            )
        return network.apply, params, set()
    if equinox is not None and isinstance(network, equinox.Module):
        arrays, rest = equinox.partition(network, equinox.is_array)
        return lambda variables, *args: equinox.combine(variables, rest)(*args), arrays, set()
    if not callable(network):
        raise UsageError(f"from_jax: needed a function or a module, given {type(network).__name__}")
    if params is None:
        return lambda _, *args: network(*args), (), set()
    return network, params, set()


def name_of_leaf(path: Any) -> str:
    """Return the name of a leaf of a pytree by its path, of which the collection `params` isn't a part."""
    from jax import tree_util

    return tree_util.keystr(path, simple=True, separator=".").removeprefix("params.") or "params"


def _plain(value: Any) -> Any:
    """Return a structure of plain tuples, lists and dicts."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, (tuple, list)):
        return (
            type(value)(_plain(item) for item in value) if type(value) in (tuple, list) else tuple(map(_plain, value))
        )
    return value if value is None else np.asarray(value)
