"""Modules that run in their own dtypes alone: `forward` casts to the dtype of a part, as in `self.inner(x.half())`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.holders import preserve_state
from ...converter.dtypes import is_inexact, is_real
from ...runtime.errors import UsageError
from ..dtypes import WORKING_DTYPES
from .precision import KEEPING_DTYPES, convert, default_dtype, in_dtype


def keep_dtypes_if_needed(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    working_dtype: str,
    *,
    train: bool | None,
    in_onnxruntime: bool = True,
) -> tuple[str, list[str]]:
    """Decide whether a module keeps all of its dtypes, because it doesn't run with its weights in the working dtype.

    If the module keeps them, it is added to `KEEPING_DTYPES`.

    Args:
        module: the module.
        args: its positional inputs.
        kwargs: its keyword inputs.
        working_dtype: the working dtype that was asked for.
        train: the mode that it is judged in.
        in_onnxruntime: whether ONNX Runtime is judged too, for which the module runs in ONNX Runtime's dtype as well.

    Returns:
        The working dtype to judge it in, and a remark if the module keeps its dtypes. It is the dtype of the inputs if
        the module runs in that alone, as one in half precision does that has one layer in float32.

    Raises:
        UsageError: the module runs as it is, and can't be judged in that.
    """
    KEEPING_DTYPES.discard(module)
    floating = {p.dtype for p in module.parameters() if is_inexact(p)}
    if floating <= {getattr(torch, working_dtype)} or (working_dtype == "float64" and not in_onnxruntime):
        return working_dtype, []

    def runs(dtype: str) -> bool:
        judged = {dtype, WORKING_DTYPES[dtype].onnxruntime if in_onnxruntime else dtype}
        return all(_runs(module, args, kwargs, run_dtype, dtype, train) for run_dtype in judged)

    if runs(working_dtype):
        return working_dtype, []
    dtypes = " and ".join(sorted(_name(dtype) for dtype in floating))
    leaves = [leaf for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    of_inputs = [_name(leaf.dtype) for leaf in leaves if is_real(leaf)]
    KEEPING_DTYPES.add(module)
    for dtype in dict.fromkeys([working_dtype, *of_inputs]):
        if dtype in WORKING_DTYPES and runs(dtype):
            return dtype, [
                f"the model doesn't run with its weights in {working_dtype}, since its code casts to other dtypes: "
                f"it was compared as it is, with weights in {dtypes}, on inputs in {dtype}"
            ]
    KEEPING_DTYPES.discard(module)
    if in_onnxruntime and _runs(module, args, kwargs, None, None, train):
        raise UsageError(
            f"the model runs with weights in {dtypes}, but it can't be judged that way: its code casts to a dtype "
            f"of its own, and doesn't run with weights in {working_dtype}\n"
            "  what to do: cast to the dtype of the weights instead, as in x.to(self.linear.weight.dtype)"
        )
    return working_dtype, []


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _runs(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    run_dtype: str | None,
    working_dtype: str | None,
    train: bool | None,
) -> bool:
    """Whether a module runs in a dtype, with its numbers rounded to a working dtype; as it is without dtypes."""

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        return convert(copy, getattr(torch, run_dtype)) if run_dtype is not None and is_inexact(copy) else copy

    own_args, own_kwargs = pytree.tree_map_only(torch.Tensor, fresh, (args, dict(kwargs)))
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng())
        if run_dtype is not None and working_dtype is not None:
            run, working = getattr(torch, run_dtype), getattr(torch, working_dtype)
            stack.enter_context(in_dtype(module, run, through=working, train=train))
            stack.enter_context(default_dtype(torch.float64 if run_dtype == "float64" else torch.get_default_dtype()))
        else:
            stack.enter_context(preserve_state(module))
        try:
            module(*own_args, **own_kwargs)
        except Exception:  # noqa: BLE001 - the user's code may raise anything, and raises it again where the module is judged
            return False
    return True
