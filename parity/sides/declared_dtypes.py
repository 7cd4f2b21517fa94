"""The dtypes that the tensors of a float64 run have in a run in the working dtype.

A network asks for them: `torch.tensor([0.1, 0.2], dtype=x.dtype)` makes numbers that are rounded to the dtype of `x`.
The float64 run, in which every tensor is of float64, must make the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

_CASTS = {
    torch.Tensor.float: torch.float32,
    torch.Tensor.half: torch.float16,
    torch.Tensor.bfloat16: torch.bfloat16,
    torch.Tensor.double: torch.float64,
    torch.Tensor.cfloat: torch.complex64,  # type: ignore[attr-defined]
    torch.Tensor.chalf: torch.complex32,
    torch.Tensor.cdouble: torch.complex128,  # type: ignore[attr-defined]
}
_LIKE_SECOND = (torch.Tensor.to, torch.Tensor.type_as)


class DeclaredDtypes:
    """Follows the dtypes of tensors through a network, by torch's rules of promotion and autocast.

    A float64 tensor has the working dtype unless something else is known about it.

    Args:
        working: the working dtype.
        kept: dtypes of parameters and buffers that have another one.
    """

    def __init__(self, working: torch.dtype, kept: Mapping[torch.Tensor, torch.dtype]) -> None:
        self._of_wide = {torch.float64: working, torch.complex128: working.to_complex()}
        self._others = WeakTensorKeyDictionary()
        self._others.update(kept)
        self._of_autocast: dict[Any, torch.dtype | None] = {}

    def of(self, tensor: torch.Tensor) -> torch.dtype:
        """Return the dtype that a tensor of the float64 run has in a run in the working dtype."""
        if self._others.data and tensor in self._others:
            dtype: torch.dtype = self._others[tensor]
            return dtype
        return self._of_wide.get(tensor.dtype, tensor.dtype)

    def example(self, operand: Any) -> Any:
        """Return a tensor without data that has the shape of a tensor and this dtype; anything else as it is."""
        if not isinstance(operand, torch.Tensor):
            return operand
        return torch.empty(operand.shape, dtype=self.of(operand), device="meta")

    def note(self, tensor: torch.Tensor, dtype: torch.dtype) -> None:
        """Note the dtype that a tensor of the float64 run has in a run in the working dtype."""
        if self.of(tensor) != dtype:
            self._others[tensor] = dtype

    def noted(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Return the result of a torch function, with the dtypes of its tensors noted.

        Args:
            func: a torch function.
            args: its arguments, before they were widened.
            kwargs: its keyword arguments.
            result: its result in float64.
        """
        tensors = [tensor for tensor in _tensors(result) if tensor.dtype in self._of_wide]
        if not tensors:
            return result
        operands = [tensor for part in (*args, *kwargs.values()) for tensor in _tensors(part)]
        requested = self._asked_for(func, args, kwargs)
        dtype = requested or self._cast_automatically(func, args, kwargs, tensors[0]) or self._promoted(operands)
        for tensor in tensors:
            tensor_dtype = dtype.to_complex() if tensor.is_complex() else dtype.to_real()
            if not any(tensor is other for other in operands):
                self.note(tensor, tensor_dtype)
            elif requested is not None and self.of(tensor) != tensor_dtype:  # a cast, which makes another tensor
                result = tensor.clone()
                self.note(result, tensor_dtype)
        return result

    def _asked_for(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.dtype | None:
        if func in _CASTS:
            return _CASTS[func]
        if func in _LIKE_SECOND and len(args) > 1 and isinstance(args[1], torch.Tensor):
            return self.of(args[1])
        dtypes = [part for part in (*args, *kwargs.values()) if isinstance(part, torch.dtype)]
        return next((dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex), None)

    def _cast_automatically(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: torch.Tensor
    ) -> torch.dtype | None:
        """The dtype that a function returns in an autocast region; None outside, or where that isn't known.

        torch's rules are asked with tensors without data. The answer depends on the dtypes alone.
        """
        device = result.device.type
        if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return None
        leaves = [leaf for part in (*args, *kwargs.values()) for leaf in _leaves(part)]
        kinds = tuple(
            (self.of(leaf), leaf.ndim == 0) if isinstance(leaf, torch.Tensor) else type(leaf) for leaf in leaves
        )
        key = func, kinds, torch.get_autocast_dtype(device)
        if key not in self._of_autocast:
            self._of_autocast[key] = self._without_data(func, args, kwargs)
        return self._of_autocast[key]

    def _without_data(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.dtype | None:
        def fake(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=self.of(leaf), device=leaf.device)

        with FakeTensorMode(), torch.no_grad():
            try:
                results = _tensors(func(*pytree.tree_map(fake, args), **pytree.tree_map(fake, dict(kwargs))))
                return next((x.dtype for x in results if x.is_floating_point() or x.is_complex()), None)
            except RuntimeError:  # it depends on data, or doesn't run in the working dtype
                return None

    def _promoted(self, tensors: list[torch.Tensor]) -> torch.dtype:
        """The dtype of what is computed from tensors: those without dimensions count only if there are no others."""
        inexact = [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
        dtypes = {self.of(tensor) for tensor in inexact if tensor.ndim} or {self.of(tensor) for tensor in inexact}
        return reduce(torch.promote_types, dtypes) if dtypes else torch.get_default_dtype()


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an argument or result."""
    return (leaf for leaf in _leaves(tree) if isinstance(leaf, torch.Tensor))


def _leaves(tree: Any) -> Iterator[Any]:
    """Yield what is in an argument or result, which torch nests in tuples and lists only."""
    if isinstance(tree, (tuple, list)):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


_FUNCTIONS = (torch.tensor, torch.as_tensor, torch.asarray)
_METHODS = (torch.Tensor.new_tensor, torch.Tensor.new)


def literal(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dtypes: DeclaredDtypes) -> torch.Tensor | None:
    """Return the tensor that a torch function makes from Python numbers, in the dtype that the code gives it.

    `torch.full` and the like aren't among these functions: a program keeps all digits of their numbers.

    Args:
        func: a torch function.
        args: its arguments in a float64 run.
        kwargs: its keyword arguments.
        dtypes: the dtypes that tensors of this run have in a run in the working dtype.

    Returns:
        None if it is another function, or if its data are arrays or tensors.
    """
    if func in _FUNCTIONS:
        data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        return func(*args, **kwargs) if _is_plain(data) else None
    if func not in _METHODS:
        return None
    data = args[1] if len(args) > 1 else kwargs.get("data")
    is_size = func is torch.Tensor.new and (len(args) > 2 or not isinstance(data, (list, tuple)))
    if is_size or not _is_plain(data):
        return None
    return torch.tensor(data, **({"dtype": dtypes.of(args[0]), "device": args[0].device} | _options(kwargs)))


def _is_plain(data: Any) -> bool:
    """Whether data are Python or NumPy numbers, alone or nested in lists and tuples; the size of a tensor isn't."""
    if isinstance(data, (list, tuple)):
        return not isinstance(data, torch.Size) and all(map(_is_plain, data))
    return isinstance(data, (int, float, complex, np.generic))


def _options(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "data" and value is not None}
