"""Networks that compute in half precision where that is safe: `auto_mixed_precision` and its lists of Cells."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import checks
from ..common.dtype import DType, bfloat16, float16, float32, to_dtype
from ..common.tensor import Tensor
from ..ir.types import is_floating
from ..nn.cell import Cell
from ..nn.layer import basic, batch_norm, conv, conv_transpose, normalization, rectifier, rnn_cells
from ..ops import elementwise
from ..precision import Policy, compute_in
from ..tree import map_leaves

LEVELS = ("O0", "O1", "O2", "O3", "auto")

WHITE_LIST: tuple[type[Cell], ...] = (
    conv.Conv1d,
    conv.Conv2d,
    conv.Conv3d,
    conv_transpose.Conv1dTranspose,
    conv_transpose.Conv2dTranspose,
    conv_transpose.Conv3dTranspose,
    basic.Dense,
    basic.Linear,
    rnn_cells.LSTMCell,
    rnn_cells.RNNCell,
    rnn_cells.GRUCell,
    rectifier.PReLU,
    rectifier.ReLU,
)
BLACK_LIST: tuple[type[Cell], ...] = (
    batch_norm.BatchNorm1d,
    batch_norm.BatchNorm2d,
    batch_norm.BatchNorm3d,
    normalization.LayerNorm,
)


def auto_mixed_precision(network: Any, amp_level: str = "O0", dtype: Any = float16) -> Any:
    """Let a network compute in half precision, according to a level; Parameters keep their dtypes.

    - "O0": nothing computes in half precision.
    - "O1": Cells of the white list (`get_white_list`) compute in half precision, and return float32.
    - "O2": all Cells compute in half precision, except those of the black list (`get_black_list`); the network returns
      float32.
    - "O3": all Cells compute in half precision; the network returns float32.
    - "auto": ops such as products and convolutions compute in half precision, ops such as exponentials, sums and
      normalizations in float32, and other ops in the widest dtype among their operands.

    This changes the network itself. In combination with `Cell.to_float` it warns.

    Args:
        network: a Cell; for "auto" also a function.
        amp_level: the level.
        dtype: the half-precision dtype: float16 or bfloat16.

    Returns:
        The network; for a function, a wrapped function.

    Raises:
        TypeError: `network` is neither a Cell nor, for "auto", a function.
        ValueError: the level or the dtype is unknown.
    """
    dtype = _half(dtype, of="auto_mixed_precision")
    if amp_level not in LEVELS:
        raise ValueError(f"The amp level {amp_level!r} is not supported: needed one of {list(LEVELS)}")
    if amp_level == "auto" and callable(network) and not isinstance(network, Cell):
        return _with_policy(Policy(dtype), network)
    checks.of_type(network, "network", Cell, of="auto_mixed_precision")
    if amp_level == "O0":
        return network
    _warn_about_combination(network, amp_level)
    if amp_level == "O1":
        _compute_only(network, WHITE_LIST, dtype)
    elif amp_level == "auto":
        network._compute_dtype = Policy(dtype)
    else:
        _compute_all(network, BLACK_LIST if amp_level == "O2" else (), dtype)
    return _set_amp_level(network, amp_level)


def custom_mixed_precision(
    network: Cell,
    *,
    white_list: list[type[Cell]] | None = None,
    black_list: list[type[Cell]] | None = None,
    dtype: Any = float16,
) -> Cell:
    """Let a network compute in half precision in the Cells of a white list, or in all except those of a black list.

    A white list works like level "O1" of `auto_mixed_precision`, a black list like "O2".

    Args:
        network: the network; it is changed.
        white_list: Cell classes; see `get_white_list`.
        black_list: Cell classes; see `get_black_list`. One of the two lists must be given.
        dtype: the half-precision dtype: float16 or bfloat16.

    Returns:
        The network.

    Raises:
        TypeError: `network` isn't a Cell, or a list isn't a list of Cell classes.
        ValueError: neither or both of the lists are given, or the dtype is unknown.
    """
    of = "custom_mixed_precision"
    checks.of_type(network, "network", Cell, of=of)
    if (white_list is None) == (black_list is None):
        raise ValueError(f"For '{of}', one of 'white_list' and 'black_list' must be given, and not both")
    dtype = _half(dtype, of=of)
    if white_list is not None:
        listed = _cell_classes(white_list, "white_list", of)
        _warn_about_combination(network, "O1")
        _compute_only(network, listed, dtype)
    else:
        listed = _cell_classes(black_list, "black_list", of)
        _warn_about_combination(network, "O2")
        _compute_all(network, listed, dtype)
    return _set_amp_level(network, "O1" if white_list is not None else "O2")


def get_white_list() -> list[type[Cell]]:
    """Return a new list of the Cells that compute in half precision at level "O1"."""
    return list(WHITE_LIST)


def get_black_list() -> list[type[Cell]]:
    """Return a new list of the Cells that compute in float32 at level "O2"."""
    return list(BLACK_LIST)


def cast_floating(value: Any, dtype: DType) -> Any:
    """Cast the floating-point tensors in nested tuples, lists and dicts to a dtype."""

    def cast(leaf: Any) -> Any:
        floating = isinstance(leaf, Tensor) and is_floating(leaf.dtype)
        return elementwise.cast(leaf, dtype=dtype) if floating and leaf.dtype != dtype else leaf

    return map_leaves(cast, value)


def _compute_only(network: Cell, classes: tuple[type[Cell], ...], dtype: DType) -> None:
    for cell in _outermost(network, classes):
        _compute_in(cell, dtype)
        _return_in(cell, float32)


def _compute_all(network: Cell, classes: tuple[type[Cell], ...], dtype: DType) -> None:
    _compute_in(network, dtype)
    for cell in _outermost(network, classes):
        if cell is not network:
            _compute_in(cell, float32)
            _return_in(cell, dtype)
    _return_in(network, float32)


def _outermost(cell: Cell, classes: tuple[type[Cell], ...]) -> Iterator[Cell]:
    """Yield the Cells of these classes that aren't inside another one of them."""
    if isinstance(cell, classes):
        yield cell
        return
    for child in cell.cells():
        yield from _outermost(child, classes)


def _compute_in(cell: Cell, dtype: DType) -> None:
    for _, each in cell.cells_and_names():
        each._compute_dtype = dtype


def _return_in(cell: Cell, dtype: DType) -> None:
    cell.register_forward_hook(lambda cell, inputs, output: cast_floating(output, dtype), prepend=True)


def _set_amp_level(network: Cell, amp_level: str) -> Cell:
    for _, cell in network.cells_and_names():
        cell._amp_level = amp_level
    return network


def _with_policy(policy: Policy, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Any:
        with compute_in(policy):
            return function(*args, **kwargs)

    return compute


def _half(dtype: Any, *, of: str) -> DType:
    half = to_dtype(dtype)
    if half not in (float16, bfloat16):
        raise ValueError(f"For '{of}', 'dtype' must be float16 or bfloat16, but got {dtype}")
    return half


def _cell_classes(listed: Any, name: str, of: str) -> tuple[type[Cell], ...]:
    checks.of_type(listed, name, list, of=of)
    for item in listed:
        if not (isinstance(item, type) and issubclass(item, Cell)):
            raise TypeError(f"For '{of}', '{name}' must hold Cell classes, but got {item!r}")
    return tuple(listed)


def _warn_about_combination(network: Cell, amp_level: str) -> None:
    """Warn if the precision of the network has been set before."""
    if network._amp_level is not None:
        warnings.warn(
            f"the network already has amp level {network._amp_level}: level {amp_level} is applied on top of it",
            stacklevel=3,
        )
        return
    set_before = [path or "the network itself" for path, c in network.cells_and_names() if c._compute_dtype is not None]
    if set_before:
        warnings.warn(
            f"amp level {amp_level} and Cell.to_float are combined: the dtype of {', '.join(set_before)} was set by "
            "to_float, and may be overridden now: use one of the two",
            stacklevel=3,
        )
