"""Running a torch module in another floating-point dtype."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...converter.capture.holders import preserve_state
from ...converter.capture.modes import in_mode
from ...converter.dtypes import is_inexact
from ...converter.torch_version import has_change
from .backward_calls import backward_call
from .declared_dtypes import DeclaredDtypes, literal
from .fake_quantization import FAKE_QUANTIZATIONS
from .rounded_numbers import PERTURBATION, perturb_angle, perturb_operand, perturb_tensor

_WIDER = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64} | {
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
# in float64, multiplying by less than a whole unit would change nothing
_UNITS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float16, torch.bfloat16, torch.float32)} | {
    torch.float64: 2 * torch.finfo(torch.float64).eps
}
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
_ANGLES = {torch.sin: 0, torch.cos: 0, torch.polar: 1, torch.Tensor.sin: 0, torch.Tensor.cos: 0}
_ARITHMETIC = frozenset({"add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "truediv", "pow"})
# ATen's gradients of these have 1/6 and 1/alpha in float32, even in float64
_ROUNDED_GRADIENTS = (torch.nn.functional.hardsigmoid, torch.nn.functional.celu, torch.celu)
_GET_DTYPE = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
_OF_DTYPES = (torch.promote_types, torch.can_cast)
_COMPLEX_CASTS = (torch.Tensor.cfloat, torch.Tensor.chalf)  # type: ignore[attr-defined]


class DoublePrecision(TorchFunctionMode):
    """A mode in which torch code that asks for float32 (or half precision) gets float64.

    Networks cast: an RMS norm upcasts to float32 and back, a mask is made in a dtype. The float64 truth must not lose
    precision there. Tensors that the code holds itself (class weights of a loss, a fixed filter), which converting the
    module doesn't reach, are widened where they are used. Numbers made from Python data keep the value that they have
    in the working dtype, and so do the limits of a dtype (`torch.finfo`, the default eps of an RMS norm): they are part
    of the function. Code that asks for the dtype of a tensor is therefore told the one that it has in a run in the
    working dtype. If `perturbed`, such numbers, those of few digits that tensors are multiplied by or added to, and the
    angles that tables of sines are computed from, are perturbed as `rounded_numbers` describes.

    Args:
        working_dtype: the working dtype.
        kept: dtypes of parameters and buffers that have another one, as `in_dtype` returns them.
        perturbed: whether numbers are perturbed.
    """

    def __init__(
        self,
        working_dtype: torch.dtype,
        kept: Mapping[torch.Tensor, torch.dtype] | None = None,
        *,
        perturbed: bool = False,
    ) -> None:
        super().__init__()
        self.working_dtype = working_dtype
        self.perturbed = perturbed
        self.dtypes = DeclaredDtypes(working_dtype, kept or {})
        self._default = torch.get_default_dtype()
        self._before: list[torch.dtype] = []
        self._widened: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __enter__(self) -> Any:
        self._before.append(torch.get_default_dtype())
        # in float64, as where the program is captured
        torch.set_default_dtype(torch.float64 if self.working_dtype == torch.float64 else self._default)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        torch.set_default_dtype(self._before.pop())
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        if not self._before:
            self._narrow()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _GET_DTYPE:
            return self.dtypes.of(args[0])
        if func in _OF_DTYPES:
            return func(*args, **kwargs)
        if func is torch.result_type:
            return func(*map(self.dtypes.example, args))
        numbers = literal(func, args, kwargs, self.dtypes)
        if numbers is not None:
            return self._exactly(numbers)
        backward = backward_call(func, args, kwargs)
        if backward is not None:
            with self:
                return backward()
        with default_dtype(torch.float64):
            result = self._call(func, args, kwargs)
        return self.dtypes.noted(func, args, kwargs, result)

    def _exactly(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return numbers in float64, as they are or perturbed."""
        rounded = numbers.detach()
        is_perturbed = self.perturbed and rounded.dtype in _WIDER
        wide = perturb_tensor(rounded) if is_perturbed else widen(rounded)
        self.dtypes.note(wide, rounded.dtype)
        return wide.requires_grad_(numbers.requires_grad)

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in _CASTS:
            return args[0].double()
        kept = 1 if _refers_to_first(getattr(func, "__name__", "")) else 0
        if kept and _changes_first(func.__name__) and args and isinstance(args[0], torch.Tensor):
            self._widen_in_place(args[0])
        double = in_double if "out" not in kwargs else _dtypes_in_double
        args = (*args[:kept], *[double(arg) for arg in args[kept:]])
        kwargs = {name: double(value) for name, value in kwargs.items()}
        if func in _COMPLEX_CASTS:
            return args[0].cdouble()
        if func is torch.nn.functional.rms_norm and args[3:] in ((), (None,)) and kwargs.get("eps") is None:
            # torch uses float32's eps in half precision too
            eps = torch.finfo(torch.float64 if self.working_dtype == torch.float64 else torch.float32).eps
            args, kwargs = args[:3], kwargs | {"eps": eps}
        if func in FAKE_QUANTIZATIONS:
            return FAKE_QUANTIZATIONS[func](*args, **kwargs)
        if func is torch._grouped_mm:
            return _grouped_mm(*args, **kwargs)
        if self.perturbed and func in _ANGLES and len(args) > _ANGLES[func]:
            angle = args[_ANGLES[func]]
            args = (*args[: _ANGLES[func]], perturb_angle(angle), *args[_ANGLES[func] + 1 :])
        if self.perturbed and _is_arithmetic(func.__name__):
            args = tuple(map(perturb_operand, args))
        if self.perturbed and func in _ROUNDED_GRADIENTS:
            return _PerturbedGradient.apply(func(*args, **kwargs))  # type: ignore[no-untyped-call]
        if func is torch.Tensor.__setitem__ and isinstance(args[2], (float, complex)):
            args = *args[:2], self._assigned(*args)
        return func(*args, **kwargs)

    def _widen_in_place(self, tensor: torch.Tensor) -> None:
        """Widen a tensor that is about to be changed, which torch made without passing through the mode.

        `torch.Tensor(2, 3)` makes one, and so does `torch.from_numpy`. Within the run it keeps the digits of what is
        written to it; after the run it is again what it was, with the result in it.
        """
        if tensor.dtype in _WIDER and tensor.is_leaf and not tensor.requires_grad and not tensor._is_view():
            narrow = tensor.data
            self._widened.append((tensor, narrow))
            tensor.data = widen(narrow)
            self.dtypes.note(tensor, narrow.dtype)

    def _narrow(self) -> None:
        for tensor, narrow in self._widened:
            if not tensor.requires_grad:
                tensor.data = narrow.copy_(tensor)
        self._widened.clear()

    def _assigned(self, tensor: torch.Tensor, index: Any, number: complex) -> complex:
        """Return a number as it is when it has been assigned to elements of a tensor."""
        dtype = self.dtypes.of(tensor)
        if not is_inexact(tensor) or (has_change("assigned numbers") and not _has_several_tensors(index)):
            return number
        rounded: complex = torch.tensor(number, dtype=dtype).item()
        return rounded


def in_double(tree: Any) -> Any:
    """Return an argument of a torch function with its tensors and dtypes in double precision.

    Every torch call passes through it, so plain tuples, lists and dicts don't take the time of a pytree.
    """
    kind = type(tree)
    if kind in _TENSORS:
        return widen(tree)
    if kind in _OTHERS:
        return tree
    if kind is torch.dtype:
        return _WIDER.get(tree, tree)
    if kind is tuple:
        return tuple([in_double(part) for part in tree])
    if kind is list:
        return [in_double(part) for part in tree]
    if kind is dict:
        return {key: in_double(part) for key, part in tree.items()}
    if isinstance(tree, torch.Tensor):
        return widen(tree)
    return pytree.tree_map_only((torch.Tensor, torch.dtype), in_double, tree)


_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_OTHERS = frozenset({type(None), bool, int, float, complex, str})


def _dtypes_in_double(tree: Any) -> Any:
    return pytree.tree_map_only(torch.dtype, in_double, tree)


def _has_several_tensors(index: Any) -> bool:
    """Whether torch converts a number assigned at this index to a tensor of the default dtype.

    Before 2.15 it does so for every index.
    """
    return isinstance(index, tuple) and sum(isinstance(part, (torch.Tensor, np.ndarray, list)) for part in index) > 1


@functools.lru_cache(maxsize=10_000)
def _refers_to_first(name: str) -> bool:
    """Whether a torch function of this name changes its first argument, or returns a reference to it."""
    return _changes_first(name) or name in ("__get__", "__set__", "__getitem__", "detach")


@functools.lru_cache(maxsize=10_000)
def _is_arithmetic(name: str) -> bool:
    """Whether a torch function of this name computes with a number that it is given, also `__rmul__` and `mul_`."""
    plain = name.strip("_")
    return plain in _ARITHMETIC or (name.startswith("__") and plain[:1] in "ri" and plain[1:] in _ARITHMETIC)


def _changes_first(name: str) -> bool:
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.startswith("__i") or name == "__setitem__"


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of float32 or half precision in float64, and any other as it is."""
    return tensor.to(_WIDER[tensor.dtype]) if tensor.dtype in _WIDER else tensor


class _PerturbedGradient(torch.autograd.Function):
    """Identity whose gradient is perturbed as `rounded_numbers` describes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * PERTURBATION


def convert(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor in a floating-point dtype; a complex one with parts of that dtype (float32 for bfloat16)."""
    return tensor.to(dtype.to_complex() if tensor.is_complex() else dtype)


def add_jitter(
    tensor: torch.Tensor, generator: np.random.Generator, dtype: torch.dtype, units: float = 0.5
) -> torch.Tensor:
    """Return a tensor perturbed by up to `units` units in the last place of `dtype`, as rounding might perturb it."""
    noise = torch.from_numpy(np.asarray(_UNITS[dtype] * generator.uniform(-units, units, tuple(tensor.shape))))
    return (convert(tensor, torch.float64) * (1.0 + noise)).to(tensor.dtype)


def _grouped_mm(
    mat_a: torch.Tensor, mat_b: torch.Tensor, *, offs: torch.Tensor | None = None, **other: Any
) -> torch.Tensor:
    """`torch._grouped_mm` in float64, for which torch has no kernel."""
    if offs is None:
        return mat_a @ mat_b
    groups = [slice(start, end) for start, end in pairwise([0, *offs.tolist()])]
    if mat_b.ndim == 3:
        return torch.cat([mat_a[group] @ b for group, b in zip(groups, mat_b, strict=True)])
    if mat_a.ndim == 3:
        return torch.cat([a @ mat_b[:, group] for group, a in zip(groups, mat_a, strict=True)], 1)
    return torch.stack([mat_a[:, group] @ mat_b[group] for group in groups])


KEEPING_DTYPES: WeakSet[torch.nn.Module] = WeakSet()
"""The modules that keep all of their dtypes, as `given_dtypes` decides."""


class WorkingDtypeCaster:
    """Converts the tensors of a module to a working dtype.

    The working dtype replaces the dtype of most of the module's parameters. A tensor of another dtype is deliberate,
    and stays unchanged but for a run in float64. Of a module in `KEEPING_DTYPES`, nothing is replaced; if it computes
    in float64, parts of it in float32, a run in another dtype is that of the module as it is.
    """

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        self.dtype = dtype
        sizes: Counter[torch.dtype] = Counter()
        for parameter in module.parameters():
            if is_inexact(parameter):
                sizes[parameter.dtype.to_real()] += parameter.numel()
        self.replaced = sizes.most_common(1)[0][0] if sizes else None
        if module in KEEPING_DTYPES:
            self.replaced = dtype
        self.keeps_all = keeps_all(module, dtype)

    def applies_to(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has the dtype that the working dtype replaces."""
        return self.replaced is None or (is_inexact(tensor) and tensor.dtype.to_real() == self.replaced)

    def __call__(self, tensor: torch.Tensor, run_dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the tensor, rounded to the working dtype if that applies, then converted to the dtype of the run."""
        if not is_inexact(tensor):
            return tensor
        if self.applies_to(tensor):
            tensor = convert(tensor, self.dtype)
        if run_dtype is None or (run_dtype != torch.float64 and (run_dtype == self.dtype or self.keeps_all)):
            return tensor
        return convert(tensor, run_dtype)


def keeps_all(module: torch.nn.Module, working_dtype: torch.dtype) -> bool:
    """Whether a module computes in float64 and keeps its dtypes: then it has no other dtype to run in as a whole."""
    return module in KEEPING_DTYPES and working_dtype == torch.float64


@contextlib.contextmanager
def in_dtype(
    module: torch.nn.Module, dtype: torch.dtype, *, through: torch.dtype, train: bool | None
) -> Iterator[dict[torch.Tensor, torch.dtype]]:
    """Within the context, `module` has floating-point parameters and buffers of `dtype` and runs in the given mode.

    They are rounded to the dtype `through` first, so that the module is the same in every precision; for
    exceptions, see `WorkingDtypeCaster`. The context's value has the dtypes of these exceptions. Afterwards everything
    is restored: parameter objects and their data, buffers, and attributes, in which modules may cache results in this
    dtype.
    """
    parameters = {p: p.data for p in module.parameters()}
    # a ScriptModule keeps its parameters, always the same objects, in its own container
    parameter_dicts = {m: dict(m._parameters) for m in module.modules() if not isinstance(m, torch.jit.ScriptModule)}
    buffers = [(m, name, b) for m in module.modules() for name, b in m._buffers.items() if b is not None]
    clones: dict[int, torch.Tensor] = {}
    working = WorkingDtypeCaster(module, through)
    kept: dict[torch.Tensor, torch.dtype] = {}
    try:
        for parameter, data in parameters.items():
            parameter.data = working(data, dtype)
            if not working.applies_to(data):
                kept[parameter] = data.dtype
        for owner, name, buffer in buffers:
            if id(buffer) not in clones:
                rounded = working(buffer, dtype)
                clones[id(buffer)] = rounded.clone() if rounded is buffer else rounded
                if not working.applies_to(buffer):
                    kept[clones[id(buffer)]] = buffer.dtype
            owner._buffers[name] = clones[id(buffer)]
        with preserve_state(module), in_mode(module, train):
            yield kept
    finally:
        for m, of_module in parameter_dicts.items():
            m._parameters.update(of_module)
        for parameter, data in parameters.items():
            parameter.data = data
        for owner, name, buffer in buffers:
            owner._buffers[name] = buffer


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Within the context, `dtype` is torch's default floating-point dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
