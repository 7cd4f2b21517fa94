"""The basis of the eager API: dtypes, tensors, parameters, initializers, seeds."""

from __future__ import annotations

from .. import functional as functional  # attaches operators and methods to Tensor
from . import dtype, initializer
from .parameter import Parameter, ParameterTuple
from .seed import get_seed, set_seed
from .tensor import Tensor

__all__ = ["Parameter", "ParameterTuple", "Tensor", "dtype", "get_seed", "initializer", "set_seed"]
