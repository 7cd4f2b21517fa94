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

from ...converter.capture.cell_hooks import pause_watching
from ...converter.dtypes import is_real
from ...runtime.ops.registry import ops_with
from ...runtime.programs.call import as_array
from .precision import add_jitter
from .records import Array, Draw


class RecordableCalls(TorchFunctionMode):
    """A mode in which networks run that a recorded run would fail on.

    Control flow runs as plain Python. `x.requires_grad = True` is allowed for an `x` that has a gradient already: a
    network sets it on a tensor made from an input, to get gradients for a part that it checkpoints. Since gradients of
    inputs are compared, this tensor isn't a leaf, for which torch refuses the assignment.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _SET_REQUIRES_GRAD and args[1] is True and args[0].requires_grad:
            return None
        control_flow = in_python(func)
        if control_flow is None:
            return func(*args, **(kwargs or {}))
        with pause_watching(), self:  # a mode is off while it handles a call; turn it on again for nested control flow
            return control_flow(*args, **(kwargs or {}))


_SET_REQUIRES_GRAD = torch.Tensor.requires_grad.__set__  # type: ignore[attr-defined]


def _stable_sort(tensor: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    return torch.ops.aten.sort.stable(tensor, stable=True, dim=dim, descending=descending)


def _stable_topk(tensor: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    parts = _stable_sort(tensor, dim, largest)
    return tuple(part.narrow(dim, 0, k).clone() if part.ndim else part for part in parts)


_STABLE = {torch.ops.aten.sort.default: _stable_sort, torch.ops.aten.topk.default: _stable_topk}


# these write their random numbers into the second operand: slopes where the first operand is at most 0, 1 elsewhere
_SLOPES = frozenset({torch.ops.aten.rrelu_with_noise.default, torch.ops.aten.rrelu_with_noise_.default})


class Draws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that records torch's random draws, Cell by Cell, or replays recorded ones, and sorts stably.

    Sorting and `topk` keep equal elements in order, where torch's own order depends on the processor: a Cell that is
    fed values computed from sorted rows can be judged only if both sides sort alike.

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
            return _STABLE.get(func, func)(*args, **kwargs)
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
    arguments = defaults | dict(zip(names, args, strict=False)) | kwargs
    never = any(arguments.get(name) == 0.0 for name in ("dropout_p", "dropout"))
    return not never and not any(arguments.get(name) is False for name in ("train", "training"))


FUNCTIONS = ops_with(lambda of: of.in_torch and not of.exact)
"""torch operators that are ops, and round their results."""
ARITHMETIC = FUNCTIONS | {f"{name}_backward" for name in FUNCTIONS} | {
    "add", "sub", "rsub", "mul", "div", "sum", "mean", "var", "std", "var_mean", "cumsum", "prod", "dot", "mv", "mm",
    "bmm", "addmm", "baddbmm", "addmv", "linear", "convolution", "convolution_backward", "pow", "exp2", "logsumexp",
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm",
    "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward", "native_batch_norm",
}  # fmt: skip
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
        if not is_real(tensor) or tensor.is_sparse:
            return tensor
        noisy = add_jitter(tensor, self.generator, tensor.dtype, self.units)
        return torch.where((tensor == tensor.round()) | ~tensor.isfinite(), tensor, noisy)


class OperatorNames(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects the names of torch's operators.

    Attributes:
        names: the names without overloads; those of operators in place end in `_`.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def in_python(func: Any) -> Callable[..., Any] | None:
    """The plain Python of a higher-order operator; None for other functions."""
    return _IN_PYTHON.get(str(func)) if isinstance(func, torch._ops.HigherOrderOperator) else None


def _cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


def _while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Any, additional: Any) -> Any:
    state = tuple(carried)
    while cond_fn(*state, *additional):
        state = tuple(body_fn(*state, *additional))
    return state


def _scan(combine_fn: Callable[..., Any], init: Any, xs: Any, additional: Any = ()) -> Any:
    state, rows = list(init), []
    for slices in zip(*xs, strict=True):
        results = list(combine_fn(*state, *slices, *additional))
        state = results[: len(init)]
        rows.append(results[len(init) :])
    return [*state, *(torch.stack(column) for column in zip(*rows, strict=True))]


def _map(f: Callable[..., Any], xs: Any, additional: Any = ()) -> Any:
    rows = [f(*slices, *additional) for slices in zip(*xs, strict=True)]
    return pytree.tree_map(lambda *column: torch.stack(column), *rows)


_IN_PYTHON: dict[str, Callable[..., Any]] = {
    "cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map,
}  # fmt: skip
