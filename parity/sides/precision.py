"""Running a torch module in another floating-point dtype."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...converter.capture.holders import preserve_state
from ...converter.capture.modes import in_mode
from ...converter.torch_version import torch_is
from .fake_quantization import FAKE_QUANTIZATIONS
from .rounded_numbers import PERTURBATION, perturbed_angle, perturbed_tensor

_WIDER = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64} | {
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
# before `DoublePrecision` says otherwise; in float64, a product with less than a whole unit would be the number itself
_UNITS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float16, torch.bfloat16, torch.float32)} | {
    torch.float64: 2 * torch.finfo(torch.float64).eps
}
_FROM_DATA = (torch.tensor, torch.as_tensor, torch.scalar_tensor)
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
_ANGLES = {torch.sin: 0, torch.cos: 0, torch.polar: 1, torch.Tensor.sin: 0, torch.Tensor.cos: 0}
# ATen's gradients of these have 1/6 and 1/alpha in float32, in float64 too
_ROUNDED_GRADIENTS = (torch.nn.functional.hardsigmoid, torch.nn.functional.celu, torch.celu)
_COMPLEX_CASTS = (torch.Tensor.cfloat, torch.Tensor.chalf)  # type: ignore[attr-defined]


class DoublePrecision(TorchFunctionMode):
    """Within it, torch code that asks for float32 (or half precision) gets float64.

    Networks cast: an RMS norm upcasts to float32 and back, a mask is made in a dtype. The float64 truth must not lose
    its digits there. Tensors that the code holds by itself (the weights of classes in a loss, a fixed filter), which no
    conversion of the module finds, are widened where they are computed with. Numbers made from Python data keep the
    value they have in the working dtype, and so do the limits of a dtype (`torch.finfo`, the eps of an RMS norm without
    one): they are part of the function that is computed. If `perturbed`, such numbers, and the angles that tables of
    sines are made of, are off as `rounded_numbers` says.
    """

    def __init__(self, working_dtype: torch.dtype, *, perturbed: bool = False) -> None:
        super().__init__()
        self.working_dtype = working_dtype
        self.perturbed = perturbed

    def __enter__(self) -> Any:
        self.finfo = finfo = torch.finfo
        working_dtype = self.working_dtype

        def finfo_of(dtype: torch.dtype = torch.float64) -> torch.finfo:
            return finfo(working_dtype if dtype == torch.float64 else dtype)

        torch.finfo = finfo_of  # type: ignore[misc, assignment]
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        torch.finfo = self.finfo  # type: ignore[misc]
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _CASTS:
            return args[0].double()
        kept, computed_with = (args[:1], args[1:]) if _refers_to_first(func) else ((), args)
        if "out" not in kwargs:
            computed_with, kwargs = map_only(torch.Tensor, _widened, (computed_with, kwargs))
        args = (*kept, *computed_with)
        if func in _COMPLEX_CASTS:
            return args[0].cdouble()
        if func is torch.nn.functional.rms_norm and args[3:] in ((), (None,)) and kwargs.get("eps") is None:
            # in half precision, too, torch computes with float32's
            eps = torch.finfo(torch.float64 if self.working_dtype == torch.float64 else torch.float32).eps
            args, kwargs = args[:3], kwargs | {"eps": eps}
        if func in FAKE_QUANTIZATIONS:
            return FAKE_QUANTIZATIONS[func](*args, **kwargs)
        if func is torch._grouped_mm:
            return _grouped_mm(*args, **kwargs)
        if func in _FROM_DATA and "dtype" not in kwargs and self.working_dtype != torch.float64:
            made = func(*args, **kwargs)
            from_python = not isinstance(args[0] if args else kwargs.get("data"), (torch.Tensor, np.ndarray))
            if not from_python or made.dtype != torch.float64:
                return made
            return perturbed_tensor(made.float()) if self.perturbed else made.float().double()
        if self.perturbed and func in _ANGLES and len(args) > _ANGLES[func]:
            angle = args[_ANGLES[func]]
            args = (*args[: _ANGLES[func]], perturbed_angle(angle), *args[_ANGLES[func] + 1 :])
        if self.perturbed and func in _ROUNDED_GRADIENTS:
            return _PerturbedGradient.apply(func(*args, **kwargs))  # type: ignore[no-untyped-call]
        if func is torch.Tensor.__setitem__ and isinstance(args[2], float) and self.working_dtype != torch.float64:
            rounded = not torch_is(2, 15) or _has_several_tensors(args[1])
            args = *args[:2], torch.tensor(args[2], dtype=torch.float32).item() if rounded else args[2]
        args, kwargs = map_only(torch.dtype, lambda dtype: _WIDER.get(dtype, dtype), (args, kwargs))
        return func(*args, **kwargs)


def map_only(kind: type[Any], change: Callable[[Any], Any], tree: Any) -> Any:
    """`pytree.tree_map_only`, many times faster on plain tuples, lists and dicts: every call of torch passes here."""
    if isinstance(tree, kind):
        return change(tree)
    plain = type(tree)
    if plain is tuple:
        return tuple([map_only(kind, change, part) for part in tree])
    if plain is list:
        return [map_only(kind, change, part) for part in tree]
    if plain is dict:
        return {key: map_only(kind, change, part) for key, part in tree.items()}
    return tree if plain in _LEAVES else pytree.tree_map_only(kind, change, tree)


_LEAVES = frozenset({type(None), bool, int, float, complex, str, torch.Tensor, torch.nn.Parameter, torch.dtype})


def _has_several_tensors(index: Any) -> bool:
    """Whether torch makes a tensor, in the default dtype, of a number that is assigned at this index.

    Before 2.15 it does so for any index.
    """
    return isinstance(index, tuple) and sum(isinstance(place, (torch.Tensor, np.ndarray, list)) for place in index) > 1


def _refers_to_first(func: Any) -> bool:
    """Whether a function of torch changes its first argument, or gives what refers to it, rather than computes."""
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.startswith("__i") or name in ("__get__", "__set__", "__getitem__", "__setitem__", "detach")


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_WIDER[tensor.dtype]) if tensor.dtype in _WIDER else tensor


class _PerturbedGradient(torch.autograd.Function):
    """Identity, whose gradient is off as `rounded_numbers` says."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * PERTURBATION


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds floating-point or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor in a floating-point dtype; a complex one with parts of that dtype (of float32 for bfloat16)."""
    return tensor.to(dtype.to_complex() if tensor.is_complex() else dtype)


def jittered(
    tensor: torch.Tensor, generator: np.random.Generator, dtype: torch.dtype, units: float = 0.5
) -> torch.Tensor:
    """A tensor off by up to so many units in the last place of `dtype`, as another order of operations may make it."""
    noise = torch.from_numpy(np.asarray(_UNITS[dtype] * generator.uniform(-units, units, tuple(tensor.shape))))
    return (converted(tensor, torch.float64) * (1.0 + noise)).to(tensor.dtype)


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


class Working:
    """What the tensors of a module are in a working dtype.

    That dtype takes the place of the one that most of the module's parameters have. A tensor of another dtype is what
    the module's code computes with on purpose, and stays as it is.
    """

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        self.dtype = dtype
        sizes: Counter[torch.dtype] = Counter()
        for parameter in module.parameters():
            if is_inexact(parameter):
                sizes[parameter.dtype.to_real()] += parameter.numel()
        self.replaced = sizes.most_common(1)[0][0] if sizes else None

    def __call__(self, tensor: torch.Tensor, run_dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor, rounded to the working dtype if it is to be; then in the dtype of a run in another one."""
        if not is_inexact(tensor):
            return tensor
        if self.replaced is None or tensor.dtype.to_real() == self.replaced:
            tensor = converted(tensor, self.dtype)
        return tensor if run_dtype is None or run_dtype == self.dtype else converted(tensor, run_dtype)


@contextlib.contextmanager
def in_dtype(module: torch.nn.Module, dtype: torch.dtype, *, through: torch.dtype, train: bool) -> Iterator[None]:
    """Within the context, `module` has floating-point parameters and buffers of `dtype` and runs in the given mode.

    They are rounded to the dtype `through` first, so that the module is the same in every precision (but see
    `Working`). Afterwards it is as it was: the same parameter objects with the same data, buffers untouched, and
    attributes, in which modules keep what they computed once (in this dtype), as they were.
    """
    parameters = {p: p.data for p in module.parameters()}
    # a compiled module's parameters are always the same objects, in a container of its own
    held = {m: dict(m._parameters) for m in module.modules() if not isinstance(m, torch.jit.ScriptModule)}
    buffers = [(m, name, b) for m in module.modules() for name, b in m._buffers.items() if b is not None]
    clones: dict[int, torch.Tensor] = {}
    working = Working(module, through)
    try:
        for parameter, data in parameters.items():
            parameter.data = working(data, dtype)
        for owner, name, buffer in buffers:
            if id(buffer) not in clones:
                rounded = working(buffer, dtype)
                clones[id(buffer)] = rounded.clone() if rounded is buffer else rounded
            owner._buffers[name] = clones[id(buffer)]
        with preserve_state(module), in_mode(module, train):
            yield
    finally:
        for m, of_module in held.items():
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
