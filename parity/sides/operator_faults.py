"""Gradients that operators of torch compute wrongly: replaced by right ones, and remembered.

`FAULTS` of `converter/torch_version.py` describes each of them. Without this, the float64 truth would be wrong, and so
the sides that are right would be accused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...converter.structure.program_names import named_buffers, named_modules, named_parameters

SAME = 1e-3
"""The largest relative difference of gradients that are the same in any dtype; a wrong one is off by its own size."""


@dataclass(frozen=True)
class OperatorFault:
    """A gradient that an operator of torch computed wrongly.

    Attributes:
        path: of the Cell that holds the operator's parameters; empty for the network itself, or if it isn't known.
        operator: as `aten.native_batch_norm_backward`.
        condition: when the operator is wrong, in words.
        share: the largest error, relative to the largest element of the right gradient.
    """

    path: str
    operator: str
    condition: str
    share: float

    @property
    def sentence(self) -> str:
        """What is wrong, in words."""
        return (
            f"torch's {self.operator} computes a wrong gradient for {self.condition}, off by {self.share:.3g} times "
            "the largest element; on tensors in the usual layout it computes the derivative"
        )


class RightGradients(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode for a backward pass, in which faulty operators get tensors in a layout that they treat rightly.

    Args:
        module: the network, whose parameters and buffers tell which Cell an operator belongs to.

    Attributes:
        faults: what torch computes wrongly by itself, one for each Cell and operator.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.module = module
        self.faults: dict[tuple[str, str], OperatorFault] = {}
        self._owners: Mapping[int, str] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func not in _BATCH_NORM or not _is_doubtful(args):
            with torch._C.DisableTorchFunction():  # without this mode, no other one would see the operator
                return func(*args, **keywords)
        right = func(*pytree.tree_map_only(torch.Tensor, _plain, args), **keywords)
        gradients = func(*args, **keywords)
        pairs = [(a, b) for a, b in zip(gradients, right, strict=True) if a is not None and b is not None and b.numel()]
        share = max((_relative_error(a, b) for a, b in pairs), default=0.0)
        if not share > SAME:
            return gradients
        operator, path = f"aten.{func.overloadpacket.__name__}", self._path_of(args)
        fault = self.faults.get((path, operator))
        if fault is None or share > fault.share:
            self.faults[path, operator] = OperatorFault(path, operator, _CONDITION, share)
        return right

    def _path_of(self, args: Any) -> str:
        """Path of the Cell that holds one of the arguments."""
        if self._owners is None:
            tensors = [*named_parameters(self.module), *named_buffers(self.module)]
            paths = {path for path, _, _ in named_modules(self.module)}
            self._owners = {
                tensor.data_ptr(): path
                for name, tensor in tensors
                if (path := name.rpartition(".")[0]) in paths and tensor.layout == torch.strided and tensor.numel()
            }
        pointers = [a.data_ptr() for a in args[2:] if isinstance(a, torch.Tensor)]
        return next((self._owners[pointer] for pointer in pointers if pointer in self._owners), "")


_BATCH_NORM = frozenset({torch.ops.aten.native_batch_norm_backward.default, torch.ops.aten.batch_norm_backward.default})
_CONDITION = "a batch of 1 whose gradient or input is stored in another order of axes"


def _is_doubtful(args: Any) -> bool:
    """Whether a batch norm's gradient or input is one of those that torch's kernel may read in the wrong order."""
    gradient, value = args[:2]
    return value.ndim > 3 and value.shape[0] == 1 and any(_plain(x) is not x for x in (gradient, value))


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose strides are those of a new one."""
    strides = torch.empty(tensor.shape, device="meta").stride()
    if tensor.stride() == strides:
        return tensor
    return torch.empty_like(tensor, memory_format=torch.contiguous_format).copy_(tensor)


def _relative_error(gradient: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference, relative to the largest element; 0 where either isn't finite."""
    error = float((gradient.double() - right.double()).abs().max())
    scale = float(right.double().abs().max())
    return error / scale if scale > 0 and error < float("inf") else 0.0
