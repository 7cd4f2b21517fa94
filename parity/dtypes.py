"""The working dtypes, in which rounding can be judged, and casts to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..runtime.errors import UsageError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class WorkingDtype:
    """The properties of a working dtype.

    Attributes:
        onnxruntime: the dtype that ONNX Runtime is judged in, since it lacks kernels in others.
        is_half: whether it has 16 bits: torch trains in it under autocast, and an ONNX file may compute in it.
    """

    onnxruntime: str
    is_half: bool = False


WORKING_DTYPES = {
    "float32": WorkingDtype("float32"),
    "float64": WorkingDtype("float32"),
    "float16": WorkingDtype("float16", is_half=True),
    "bfloat16": WorkingDtype("float32", is_half=True),
}
HALVES = frozenset(name for name, dtype in WORKING_DTYPES.items() if dtype.is_half)


def dtype_name(dtype: Any) -> str:
    """Return the name of a working dtype, given by name or as a dtype of torch, NumPy or the runtime.

    Raises:
        UsageError: it isn't one of `WORKING_DTYPES`.
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).removeprefix("torch.").lower()
    if name not in WORKING_DTYPES:
        raise UsageError(f"dtype must be one of {', '.join(WORKING_DTYPES)}, given {dtype!r}")
    return name


def cast_floating(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an array in another floating-point dtype; integers and booleans stay unchanged."""
    from ..runtime.ir.types import is_floating  # imports NumPy, which the command line does without

    return array.astype(dtype) if is_floating(array.dtype) else array


def in_single(array: np.ndarray[Any, Any], working_dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return numbers in double precision in single precision, unless double is the working dtype."""
    single = {"float64": "float32", "complex128": "complex64"}.get(array.dtype.name)
    return array if single is None or working_dtype.name == "float64" else array.astype(single)
