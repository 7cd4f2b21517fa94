"""Tables of corresponding layers of the two APIs, and of the names of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

CONTAINERS = frozenset({"sequential", "modulelist", "moduledict"})
"""Kinds that compute nothing themselves."""

_SAME_LAYER = {
    "bidense": "bilinear",
    "celldict": "moduledict",
    "celllist": "modulelist",
    "conv1dtranspose": "convtranspose1d",
    "conv2dtranspose": "convtranspose2d",
    "conv3dtranspose": "convtranspose3d",
    "dense": "linear",
    "embeddinglookup": "embedding",
    "fastgelu": "gelu",
    "hshrink": "hardshrink",
    "hsigmoid": "hardsigmoid",
    "hswish": "hardswish",
    "lrn": "localresponsenorm",
    "maeloss": "l1loss",
    "sequentialcell": "sequential",
    "softmaxcrossentropywithlogits": "crossentropyloss",
}
"""Layers whose classes have different names: the Cell's, in lower case, and the module's."""

_TRANSPOSED_DENSE = frozenset({("transformers.pytorch_utils", "Conv1D")})
"""Dense layers of other libraries (module, class) whose weight is (in, out)."""


@dataclass(frozen=True)
class ParameterNames:
    """The names of parameters of one kind of layer.

    Attributes:
        of_cell: the module's name for each name of the Cell that differs.
        absent: value of a Cell's parameter if the module was created without it (`affine=False`).
        unit_axes: whether the two shapes may differ by axes of size 1.
        ignored: buffers of the module that no Cell has.
    """

    of_cell: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, float] = field(default_factory=dict)
    unit_axes: bool = False
    ignored: frozenset[str] = frozenset()


_AFFINE = {"gamma": "weight", "beta": "bias"}
_NORM = ParameterNames(_AFFINE, {"gamma": 1.0, "beta": 0.0})
_BATCH_NORM = ParameterNames(
    _AFFINE | {"moving_mean": "running_mean", "moving_variance": "running_var"},
    {"gamma": 1.0, "beta": 0.0, "moving_mean": 0.0, "moving_variance": 1.0},
    ignored=frozenset({"num_batches_tracked"}),
)


def _within_child(child: str, of: ParameterNames) -> ParameterNames:
    """Return the names for a Cell whose child holds the Parameters."""
    of_cell = {f"{child}.{name}": module_name for name, module_name in of.of_cell.items()}
    absent = {f"{child}.{name}": value for name, value in of.absent.items()}
    return ParameterNames(of_cell, absent, of.unit_axes, of.ignored)


_NAMES: dict[str, ParameterNames] = {
    **dict.fromkeys(("batchnorm1d", "batchnorm2d", "syncbatchnorm"), _BATCH_NORM),
    "batchnorm3d": _within_child("bn2d", _BATCH_NORM),  # the Cell holds a BatchNorm2d
    **dict.fromkeys(("instancenorm1d", "instancenorm2d", "instancenorm3d"), _BATCH_NORM),
    **dict.fromkeys(("layernorm", "groupnorm", "rmsnorm"), _NORM),
    "embedding": ParameterNames({"embedding_table": "weight"}),
    "prelu": ParameterNames({"a": "weight", "w": "weight"}),
    # a Cell's kernel has a unit axis before its one spatial axis
    **dict.fromkeys(("conv1d", "convtranspose1d"), ParameterNames(unit_axes=True)),
}


def names(kind: str) -> ParameterNames:
    """Return the names of parameters in a kind of layer; unlisted names are the same on both sides."""
    return _NAMES.get(kind, ParameterNames())


def kind_of_module(module: torch.nn.Module) -> str:
    """Return the layer class of a module, or of its base class, in lower case; `""` for a block of the user's."""
    for base in type(module).__mro__:
        if (base.__module__, base.__name__) in _TRANSPOSED_DENSE:
            return "linear"
        if base is not torch.nn.Module and base.__name__.lower() in _torch_layers() and _is_library(base, "torch"):
            return base.__name__.lower()
    return ""


def is_transposed_dense(module: torch.nn.Module) -> bool:
    """Whether the module is a dense layer whose class stores its weight as (in, out)."""
    return any((base.__module__, base.__name__) in _TRANSPOSED_DENSE for base in type(module).__mro__)


def kind_of_cell(cell: Any) -> str:
    """Return the layer class of a Cell, or of its base class, as torch names it; `""` for a block of the user's."""
    libraries = [base for base in type(cell).__mro__ if _is_library(base, "cellbridge", "mindspore")]
    # in a captured network, `cls_name` is the name of the module's class
    class_names = [str(cell.cls_name).lower()] if type(cell) in libraries else []
    for name in (*class_names, *(base.__name__.lower() for base in libraries)):
        kind = kind_of_name(name)
        if kind in _torch_layers():
            return kind
    return ""


def kind_of_name(name: str) -> str:
    """Return torch's name, in lower case, for a class of Cells."""
    return _SAME_LAYER.get(name.lower(), name.lower())


def _is_library(base: type, *packages: str) -> bool:
    return base.__module__.partition(".")[0] in packages


@cache
def _torch_layers() -> frozenset[str]:
    """The names of torch's layers, in lower case."""
    layers = [value for value in vars(torch.nn).values() if isinstance(value, type)]
    layer_names = {value.__name__.lower() for value in layers if issubclass(value, torch.nn.Module)}
    return frozenset(layer_names - {"module"})
