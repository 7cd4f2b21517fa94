"""What a network is that is given to be compared, and how it is opened as a side: the one place that asks its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

import onnx
import torch

from ...converter.capture.cell_hooks import input_slots
from ...converter.onnx_out.naming import input_names
from ...runtime.errors import UsageError
from ...runtime.ir.program import Program
from ..dtypes import WORKING_DTYPES
from ..options import Options
from .interpreter_side import InterpreterSide
from .jax_hints import candidate_hint, reference_hint
from .jax_side import JaxSide
from .known_frameworks import framework_of
from .onnxruntime_side import OnnxModelSide
from .side import Side
from .torch_side import TorchSide


class Kind(Enum):
    """What a network is."""

    MODULE = "a torch module"
    PROGRAM = "a program"
    CELL = "a Cell"
    JAX = "a network in JAX"
    RECORDING = "a recording"
    ONNX_FILE = "an ONNX file"
    ONNX_MODEL = "an ONNX model"
    UNKNOWN = "something else"


ONNX = frozenset({Kind.ONNX_FILE, Kind.ONNX_MODEL})
IN_FILES = ONNX | {Kind.RECORDING}
"""Kinds that aren't run as code: a path, or a model that was read from one."""


@dataclass(frozen=True)
class Given:
    """A network with what it is run on.

    Attributes:
        name: what its side is called in reports.
        network: the network.
        args: positional inputs.
        kwargs: keyword inputs.
        options: options of the run.
        reference: the reference, for a candidate.
    """

    name: str
    network: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Options
    reference: Any = None


@dataclass(frozen=True)
class Opener:
    """A row of the table.

    Attributes:
        kind: what a network is.
        fits: whether a network is that.
        open: makes its side; None if it is opened together with the other network only.
    """

    kind: Kind
    fits: Callable[[Any], bool]
    open: Callable[[Given], Side] | None = None


def _open_module(request: Given) -> Side:
    return TorchSide.of_options(request.name, request.network, request.args, request.kwargs, request.options)


def _open_program(request: Given) -> Side:
    dtype, seed = request.options.dtype, request.options.seed
    return InterpreterSide(request.name, request.network, request.args, request.kwargs, working_dtype=dtype, seed=seed)


def _open_model(request: Given) -> Side:
    dtype, names = WORKING_DTYPES[request.options.dtype].onnxruntime, names_of_inputs(request)
    provider = request.options.provider
    return OnnxModelSide(
        request.name, request.network, request.args, request.kwargs, dtype=dtype, provider=provider, names=names
    )


def _is_path(network: Any) -> bool:
    return isinstance(network, (str, PathLike))


OPENERS = (
    Opener(Kind.MODULE, lambda network: isinstance(network, torch.nn.Module), _open_module),
    Opener(Kind.PROGRAM, lambda network: isinstance(network, Program), _open_program),
    Opener(Kind.JAX, lambda network: isinstance(network, JaxSide)),
    Opener(Kind.RECORDING, lambda network: _is_path(network) and Path(network).is_dir()),
    Opener(Kind.ONNX_FILE, _is_path, _open_model),
    Opener(Kind.ONNX_MODEL, lambda network: isinstance(network, onnx.ModelProto), _open_model),
    Opener(Kind.CELL, lambda network: framework_of(network) is not None),
)
"""The kinds, of which the first that fits is a network's."""


def kind_of(network: Any) -> Kind:
    """Return what a network is."""
    return next((opener.kind for opener in OPENERS if opener.fits(network)), Kind.UNKNOWN)


def open_side(request: Given) -> Side:
    """Return the side of a network.

    Raises:
        UsageError: it can't be opened by itself.
    """
    kind = kind_of(request.network)
    opener = next((opener for opener in OPENERS if opener.kind is kind), None)
    if opener is not None and opener.open is not None:
        return opener.open(request)
    if request.reference is None:
        kinds, hint = "a torch module or a program", reference_hint(request.network)
    else:
        kinds = "a torch module or a program, a Cell, a network in JAX as a side, or an ONNX model or file"
        hint = candidate_hint(request.network)
    raise UsageError(f"the {request.name} must be {kinds}, given {type(request.network).__name__}{hint}")


def names_of_inputs(request: Given) -> list[str]:
    """The reference's names of the inputs, in flat order of the arguments."""
    if kind_of(request.reference) is Kind.PROGRAM:
        return input_names(request.reference)
    return [slot for _, slot in sorted(input_slots(request.reference, request.args, request.kwargs))]
