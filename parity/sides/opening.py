"""What a network is that is given to be compared, and how it is opened as a side: the one place that asks its class."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import onnx
import torch

from ...converter.capture.cell_hooks import input_slots
from ...converter.onnx_out.naming import input_names
from ...runtime.errors import UsageError
from ...runtime.ir.program import Program
from ...runtime.visible import visible_name
from ..dtypes import WORKING_DTYPES
from ..options import Options
from .interpreter_side import InterpreterSide
from .jax_hints import candidate_hint, reference_hint
from .jax_side import JaxSide
from .kinds import Kind, file_of, is_of_its_name, kind_of_path
from .known_frameworks import framework_of
from .onnxruntime_side import OnnxModelSide
from .side import Side
from .torch_side import TorchSide


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


def _is_path_of(kind: Kind) -> Callable[[Any], bool]:
    return lambda network: isinstance(network, (str, PathLike)) and kind_of_path(network) is kind


OPENERS = (
    Opener(Kind.MODULE, lambda network: isinstance(network, torch.nn.Module), _open_module),
    Opener(Kind.PROGRAM, lambda network: isinstance(network, Program), _open_program),
    Opener(Kind.JAX, lambda network: isinstance(network, JaxSide)),
    Opener(Kind.RECORDING, _is_path_of(Kind.RECORDING)),
    Opener(Kind.MODEL_FILE, _is_path_of(Kind.MODEL_FILE)),
    Opener(Kind.WEIGHTS, _is_path_of(Kind.WEIGHTS)),
    Opener(Kind.ONNX_FILE, _is_path_of(Kind.ONNX_FILE), _open_model),
    Opener(Kind.ONNX_MODEL, lambda network: isinstance(network, onnx.ModelProto), _open_model),
    Opener(Kind.CELL, lambda network: framework_of(network) is not None),
)
"""The kinds, of which the first that fits is a network's."""


def kind_of(network: Any) -> Kind:
    """Return what a network is."""
    return next((opener.kind for opener in OPENERS if opener.fits(network)), Kind.UNKNOWN)


def require_module(network: Any, purpose: str) -> None:
    """Raise `UsageError` unless a network is a torch module; `purpose`: what is done with it, as in "is recorded"."""
    kind = kind_of(network)
    if kind is not Kind.MODULE:
        raise UsageError(f"a torch module {purpose}, given {in_words(network)}{_instead(network)}")


def in_words(network: Any) -> str:
    """What a network is, in words: the file that a path names, or the class of anything else."""
    kind = kind_of(network)
    if isinstance(network, (str, PathLike)):
        name = visible_name(os.fspath(network))
        if not os.path.exists(file_of(os.fspath(network))):
            return f"{name}, which isn't there"
        if os.path.isdir(network):
            return f"the folder {name}"
        return f"{kind.value}, {name}" if is_of_its_name(network) else f"the file {name}"
    return f"the class {network.__name__}" if inspect.isclass(network) else type(network).__name__


def _instead(network: Any) -> str:
    """What to do with a network that isn't a torch module, as the end of a message."""
    kind = kind_of(network)
    if kind is Kind.MODEL_FILE:
        return (
            "\n  what to do: the commands of parity take model files; in Python, give the module that the file defines"
        )
    if inspect.isclass(network) and issubclass(network, torch.nn.Module):
        return f"\n  what to do: give an instance, {network.__name__}(...)"
    if inspect.isroutine(network):
        return "\n  what to do: give a torch.nn.Module whose forward calls it"
    if hint := candidate_hint(network):
        return hint
    return "\n  what to do: parity.compare compares others with a torch module as they are"


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
    hint = _instead(request.network) if kind is Kind.MODEL_FILE else hint
    raise UsageError(f"the {request.name} must be {kinds}, given {in_words(request.network)}{hint}")


def names_of_inputs(request: Given) -> list[str]:
    """The reference's names of the inputs, in flat order of the arguments."""
    if kind_of(request.reference) is Kind.PROGRAM:
        return input_names(request.reference)
    return [slot for _, slot in sorted(input_slots(request.reference, request.args, request.kwargs))]
