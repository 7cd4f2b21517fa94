"""Model files: Python files in which users define the network to judge.

A file defines `model()` (or an `nn.Module` called `model`) and `inputs()` (or a value): a tuple of arguments or a dict
of keyword arguments; a generator function yields several of them. Optional are `loss(outputs)`, which returns a scalar,
`dynamic_shapes` as for `torch.export`, and `cell()`, the port of the model, with `cells` and `weights` as for
`parity.compare`; `recording`, the folder of a recording to compare with, and `names`, a map of its names;
`checkpoint`, safetensors files with the weights of a model that `model()` makes on the meta device;
`decode(module, tokens, state)` for `parity generate`, and `parallelize(module, mesh)` for `parity run --ranks`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ..sides.kinds import CASE, LIBRARY_MODEL, PROGRAMS, Kind, file_of
from .definitions import Definitions
from .generated_cases import source_of_case
from .library_models import source_of_library
from .user_source import open_source

if TYPE_CHECKING:
    from torch import nn

    from ...converter.mapped_weights import MappedWeights


@dataclass(frozen=True)
class ModelFile:
    """The definitions of a model file.

    Attributes:
        module: the network.
        args: positional arguments of its call.
        kwargs: keyword arguments of its call.
        loss: maps the module's result to a scalar; None if the file has none.
        dynamic_shapes: as for `torch.export.export`; None if the file has none.
        name: name of the file, as the user gave it.
        cell: the port; None if the file has none, or it wasn't asked for.
        cells: paths of modules by paths of Cells of the port; None if the file has none.
        weights: as for `parity.compare`; None if the file has none.
        more_inputs: positional and keyword arguments of further calls, created one at a time.
        decode: how the network continues a sequence, for `parity generate`; None if the file has none.
        parallelize: makes the network one that runs on several processes; None if the file has none.
        recording: the recording that the network is compared with, and the map of its names; None if the file has none.
        splits_batch: whether each process gets a part of the batch; None where its class says so.
        checkpoint: safetensors files with the weights of what is on the meta device; None if the file has none.
        mapped: these files, mapped into memory, of which the module has its weights; None if it has its own.
        notes: remarks for the reader of a report.
        clip_gradients: how the parallel network's gradients are clipped; None for torch's `clip_grad_norm_`.
        has_port: whether the file defines a port.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    loss: Callable[[Any], Any] | None
    dynamic_shapes: Any
    name: str
    cell: Any = None
    cells: Mapping[str, str] | None = None
    weights: Mapping[Any, Any] | None = None
    more_inputs: Iterable[tuple[tuple[Any, ...], dict[str, Any]]] = ()
    decode: Callable[..., Any] | None = None
    parallelize: Callable[..., Any] | None = None
    splits_batch: bool | None = None
    recording: Path | None = None
    names: Path | None = None
    clip_gradients: Callable[..., Any] | None = None
    checkpoint: Path | None = None
    mapped: MappedWeights | None = None
    notes: tuple[str, ...] = ()
    has_port: bool = False


def load(target: str, seed: int = 0, *, on_meta: bool = False, with_port: bool = False) -> ModelFile:
    """Run a model file and return its network and inputs.

    Args:
        target: `path/model.py`, `path/model.py:factory`, `path/cases.py[case]`, `package.module:factory`,
            `timm:resnet18`, `hf:BertModel?hidden_size=128`, or `path/program.pt2`.
        seed: seed of torch's random number generator.
        on_meta: leave a module whose weights are in files on the meta device.
        with_port: make the port that the file defines, which may need another framework.

    Raises:
        UsageError: the file doesn't exist, raises, or lacks a definition. The user's exception is the cause.
    """
    if is_torch_file(target):
        module, args, kwargs, dynamic_shapes = load_torch_file(target)
        return ModelFile(module, args, kwargs, None, dynamic_shapes, target)
    definitions, factory = _open(target, seed)
    module = definitions.model(factory)
    mapped = None if on_meta else definitions.map_checkpoint(module)
    every_input = definitions.inputs()
    args, kwargs = next(every_input)
    loss = definitions.loss()
    dynamic_shapes = definitions.optional("dynamic_shapes")
    if inspect.isfunction(dynamic_shapes):
        dynamic_shapes = definitions.call("dynamic_shapes", dynamic_shapes)
    has_port = definitions.optional("cell") is not None
    cell = definitions.cell() if with_port else None
    cells, weights = definitions.pairs() if cell is not None else (None, None)
    decode, parallelize = definitions.function("decode"), definitions.function("parallelize")
    splits = definitions.optional("splits_batch")
    return ModelFile(
        module, args, kwargs, loss, dynamic_shapes, target, cell, cells, weights, every_input, decode, parallelize,
        splits if isinstance(splits, bool) else None, definitions.path("recording"), definitions.path("names"),
        definitions.function("clip_gradients"), definitions.path("checkpoint"), mapped,
        () if has_port else definitions.notes_on_pairs(), has_port=has_port,
    )  # fmt: skip


def load_candidate(target: str, seed: int = 0) -> Candidate:
    """Run a model file that is compared with another one, and return its network; it needs no inputs.

    Args:
        target: as for `load`.
        seed: seed of torch's random number generator; networks that are built alike get the same weights.

    Raises:
        UsageError: as for `load`.
    """
    if is_torch_file(target):
        return Candidate(load_torch_file(target)[0])
    from ..sides.opening import kind_of

    definitions, factory = _open(target, seed)
    network = definitions.candidate(factory)
    if kind_of(network) is Kind.MODULE:
        definitions.map_checkpoint(network)
    return Candidate(network, *(definitions.pairs() if definitions.optional("cell") is None else ()))


@dataclass(frozen=True)
class Candidate:
    """The definitions of a model file that is compared with another one.

    Attributes:
        network: a torch module, a Cell, or the side of a network in JAX.
        cells: paths in the reference by paths in this network; None if the file has none, or if they are its port's.
        weights: as for `parity.compare`; as for `cells`.
    """

    network: Any
    cells: Mapping[str, str] | None = None
    weights: Mapping[Any, Any] | None = None


def _open(target: str, seed: int) -> tuple[Definitions, str]:
    """Run a model file, and return it with the name of its network."""
    if case := CASE.fullmatch(target):
        source = source_of_case(open_source(case[1], seed), *case.groups())
        return Definitions(source, case[1]), "model"
    if LIBRARY_MODEL.fullmatch(target):
        return Definitions(source_of_library(target, seed), target), "model"
    head = file_of(target)
    factory = target.removeprefix(head).removeprefix(":")
    return Definitions(open_source(head, seed, may_be_module=bool(factory)), head), factory or "model"


def is_torch_file(target: str) -> bool:
    """Whether a target on the command line is a program that torch has written, and no Python file."""
    return Path(target).suffix.lower() in PROGRAMS


def load_torch_file(path: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """Return the network of a file, its example inputs by position and by name, and their `dynamic_shapes`.

    Nothing in the file is run.

    Raises:
        UsageError: there is no such file, it can't be read, or it holds no example inputs.
    """
    from ...converter.exported.archive import read_archive
    from ...converter.exported.modules import module_of_program, sizes_of_inputs

    if not Path(path).is_file():
        raise UsageError(f"no such file: {path}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="torch|copyreg")  # of its own code
        program = read_archive(path)
        if not program.example_inputs:
            raise UsageError(
                f"{path} holds a program without example inputs\n"
                f"  what to do: write a model file: def model(): return torch.export.load({path!r}), and def inputs()"
            )
        module = module_of_program(program)
    args, kwargs = program.example_inputs
    return module, tuple(args), dict(kwargs), sizes_of_inputs(program)
