"""Modes that make torch's runs reproducible on other sides: random draws are replayed, sorts are stable."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...runtime.programs.call import as_array
from .precision import add_jitter
from .records import Array, Draw


class KeepRequiresGrad(TorchFunctionMode):
    """A mode in which `x.requires_grad = True` is allowed for an `x` that has a gradient already.

    A network sets it on a tensor made from an input, to get gradients for a part that it checkpoints. Since gradients
    of inputs are compared, this tensor isn't a leaf, for which torch refuses the assignment.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.requires_grad.__set__ and args[1] is True and args[0].requires_grad:  # type: ignore[attr-defined]
            return None
        return func(*args, **kwargs or {})


class StableSorts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in which sorting and `topk` keep equal elements in order; torch's own order depends on the processor.

    A Cell that is fed values computed from sorted rows can be judged only if both sides sort alike.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.sort.default:
            given = dict(zip(("dim", "descending"), args[1:], strict=False))
            return torch.ops.aten.sort.stable(args[0], stable=True, **given)
        if func is torch.ops.aten.topk.default:
            given = {"k": 1, "dim": -1, "largest": True} | dict(zip(("k", "dim", "largest"), args[1:], strict=False))
            ways = {"stable": True, "dim": given["dim"], "descending": given["largest"]}
            parts = torch.ops.aten.sort.stable(args[0], **ways)
            return tuple(part.narrow(given["dim"], 0, given["k"]).clone() if part.ndim else part for part in parts)
        return func(*args, **kwargs or {})


# these write their random numbers into the second operand: slopes where the first operand is at most 0, 1 elsewhere
_SLOPES = frozenset({torch.ops.aten.rrelu_with_noise.default, torch.ops.aten.rrelu_with_noise_.default})


class Draws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that records torch's random draws, Cell by Cell, or replays recorded ones.

    If a backward pass draws from a generator state that an earlier draw started from, it repeats that draw
    (`torch.utils.checkpoint` reruns a part of the forward pass).

    Attributes:
        recorded: the draws, as arrays.
    """

    def __init__(self, replay: Mapping[Draw, Array], cell: Callable[[], tuple[str, int]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.replay = replay
        self.cell = cell
        self.recorded: dict[Draw, Array] = {}
        self._counts: dict[tuple[str, int], int] = {}
        self._by_state: dict[bytes, Draw] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _draws(func, args, kwargs):
            return func(*args, **kwargs)
        slope_input = args[0].clone() if func in _SLOPES else None
        state = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).digest()
        result = func(*args, **kwargs)
        assert isinstance(result, torch.Tensor), f"{func} draws in a way that can't be replayed"
        sampled = result if slope_input is None else args[1]
        again = self._by_state.get(state) if torch._C._current_graph_task_id() != -1 else None
        draw, recorded = self._new(state) if again is None else (again, self.recorded[again])
        if recorded is not None and recorded.shape == tuple(sampled.shape):
            sampled.copy_(torch.from_numpy(np.array(recorded)))
            if slope_input is not None:
                result.copy_(torch.where(slope_input <= 0, slope_input * sampled, slope_input))
        self.recorded[draw] = as_array(sampled).copy()
        return result

    def _new(self, state: bytes) -> tuple[Draw, Array | None]:
        """Return the next draw of the running Cell, and the recorded numbers to replay for it."""
        cell = self.cell()
        draw = Draw(*cell, self._counts.get(cell, 0))
        self._counts[cell] = draw.number + 1
        self._by_state[state] = draw
        return draw, self.replay.get(draw)


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    names = [argument.name for argument in func._schema.arguments]
    defaults = {
        argument.name: argument.default_value for argument in func._schema.arguments if argument.has_default_value()
    }
    given = defaults | dict(zip(names, args, strict=False)) | kwargs
    never = any(given.get(name) == 0.0 for name in ("dropout_p", "dropout"))
    return not never and not any(given.get(name) is False for name in ("train", "training"))


ARITHMETIC = frozenset({
    "add", "sub", "rsub", "mul", "div", "reciprocal", "sum", "mean", "var", "std", "var_mean", "cumsum", "prod",
    "dot", "mv", "mm", "bmm", "addmm", "baddbmm", "addmv", "linear", "convolution", "convolution_backward", "pow",
    "exp", "exp2", "expm1", "log", "log1p", "log2", "logsumexp", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh",
    "sigmoid", "tanh_backward", "sigmoid_backward", "erf", "gelu", "gelu_backward", "silu", "silu_backward",
    "softplus", "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
    "native_batch_norm",
})  # fmt: skip
"""torch operators that round their results."""


class JitteredOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that adds a rounding error to each number that torch computes, forward and backward.

    Selected elements and whole numbers stay exact: selecting, counting and rounding make no error.
    """

    def __init__(self, seed: int, units: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = np.random.default_rng(seed)
        self.units = units

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in ARITHMETIC:
            return result
        return pytree.tree_map_only(torch.Tensor, self._jitter, result)

    def _jitter(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.is_sparse:
            return tensor
        noisy = add_jitter(tensor, self.generator, tensor.dtype, self.units)
        return torch.where((tensor == tensor.round()) | ~tensor.isfinite(), tensor, noisy)
