"""`run_in_parts`: runs a network, forward and backward, and keeps on disk what crosses the boundaries of its parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from ....converter.capture.containers import open_containers
from ....converter.capture.export_errors import eager_error
from ....converter.capture.modes import in_mode
from ....converter.capture.replaced_method import replaced_method
from ....converter.dtypes import is_inexact
from ....converter.mapped_weights import MappedWeights
from ....converter.seed import manual_seed
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.programs.call import as_array
from ...options import Options
from ...sides.cotangents import loss_gradients, tensor_like
from ...sides.run import random_cotangents
from .division import Part


@dataclass
class PartCall:
    """One call of a part, whose tensors are in files.

    Attributes:
        path: path of the part.
        arguments: structure of its positional and keyword arguments; the tensors are in the files.
        result: structure of its result.
        gradients: the gradients that arrived at tensors of the result, by their number.
        input_gradients: the gradients that the part passed back to tensors of its arguments, by their number.
    """

    path: str
    arguments: _Stored
    result: _Stored
    gradients: dict[int, Path]
    input_gradients: dict[int, Path]

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments."""
        args, kwargs = self.arguments.load()
        return tuple(args), dict(kwargs)

    def outputs(self) -> Any:
        """Return the result."""
        return self.result.load()

    def cotangents(self) -> list[torch.Tensor | None]:
        """Return the gradients that arrived at the tensors of the result; None where none did."""
        return _gradients(self.gradients, self.result.count)

    def passed_back(self) -> list[torch.Tensor | None]:
        """Return the gradients that the part passed back to the tensors of its arguments; None where it didn't."""
        return _gradients(self.input_gradients, self.arguments.count)


def _require_unchanged(path: str, before: Placed, after: Placed) -> None:
    """Raise `UsageError` if a call has put other tensors into its arguments: a repeated call would do so again."""
    if len(before) != len(after) or any(x is not y for (_, x), (_, y) in zip(before, after, strict=True)):
        earlier = dict(before)
        argument = next((argument for argument, x in after if earlier.get(argument) is not x), "")
        raise UsageError(
            f"the Cell {path} puts tensors into its argument {argument}, which networks in parts can't do\n"
            "  what to do: if it is a cache of keys and values, switch it off (config.use_cache = False)"
        )


def _gradients(files: Mapping[int, Path], count: int) -> list[torch.Tensor | None]:
    return [torch.load(files[number], weights_only=True) if number in files else None for number in range(count)]


@dataclass(frozen=True)
class _Stored:
    """A structure of Python whose tensors are in a file; `places` are the keys of the tensors in it."""

    file: Path
    leaves: tuple[Any, ...]
    spec: Any
    places: frozenset[str]

    @property
    def count(self) -> int:
        """Number of tensors."""
        return sum(leaf is _TENSOR for leaf in self.leaves)

    def load(self) -> Any:
        tensors = iter(torch.load(self.file, weights_only=True))
        return pytree.tree_unflatten([next(tensors) if leaf is _TENSOR else leaf for leaf in self.leaves], self.spec)


Placed = list[tuple[str, torch.Tensor]]


class _Tensor:
    """Stands for a tensor that is in a file."""


_TENSOR = _Tensor()


def _store(file: Path, structure: Any) -> _Stored:
    leaves, spec = pytree.tree_flatten(structure)
    tensors = [leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]
    torch.save(tensors, file)
    stored = tuple(_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    return _Stored(file, stored, spec, frozenset(path for path, _ in placed_tensors(structure)))


def placed_tensors(structure: Any) -> Placed:
    """Return the tensors of a structure, in flat order, each with its keys in it as text."""
    leaves, _ = pytree.tree_flatten_with_path(structure)
    return [(pytree.keystr(path), leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]


@dataclass
class NetworkCall:
    """What a call of the whole network gave.

    Attributes:
        calls: the calls of its parts, in order.
        cotangents: the gradients of the tensors of the result; None for those without one.
        used_outside: the parameters of parts that modules around them use too, such as the words of a tied head.
    """

    calls: list[PartCall]
    cotangents: list[torch.Tensor | None]
    used_outside: list[torch.nn.Parameter]

    def of(self, path: str) -> list[PartCall]:
        """Return the calls of the part at a path."""
        return [call for call in self.calls if call.path == path]


def run_in_parts(
    network: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    parts: Sequence[Part],
    options: Options,
    folder: Path,
    weights: MappedWeights | None,
    advance: Callable[[], None],
) -> NetworkCall:
    """Run the network in its own dtype, with each part computed once more in the backward pass.

    Args:
        network: the network.
        args: positional inputs.
        kwargs: keyword inputs.
        parts: its parts.
        options: options of the run, of which the mode, the seed, the loss and whether there are gradients count.
        folder: where tensors are kept.
        weights: the files with the weights, whose memory is given back after each part.
        advance: is called after each call of a part.

    Raises:
        UsageError: the network raises, or uses parameters of a part outside of it.
    """
    run = _Run(options.grads, folder, weights, advance)
    frozen = [p for p in network.parameters() if p.requires_grad]
    manual_seed(options.seed)
    with contextlib.ExitStack() as stack:
        stack.enter_context(in_mode(network, options.train))
        stack.enter_context(_without_gradients(frozen))
        stack.enter_context(torch.set_grad_enabled(options.grads))
        for part in parts:
            stack.enter_context(replaced_method(part.module, "forward", run.forward_of(part)))
        arguments = pytree.tree_map_only(
            torch.Tensor, _with_gradient if options.grads else _detached, (args, dict(kwargs))
        )
        try:
            with _UsesOutside(parts, run) as mode:
                result = network(*arguments[0], **arguments[1])
        except CellbridgeError:
            raise
        except Exception as error:  # of the model's code
            raise eager_error(error, network, args, kwargs) from error
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        cotangents: list[torch.Tensor | None] = [None] * len(outputs)
        if options.grads:
            cotangents = _cotangents(options, result, outputs)
            roots = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if c is not None and o.requires_grad]
            if roots:
                torch.autograd.backward([o for o, _ in roots], [c for _, c in roots])
    return NetworkCall(run.calls, cotangents, list(mode.uses))


class _UsesOutside(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects the parameters of parts that are used while no part runs."""

    def __init__(self, parts: Sequence[Part], run: _Run) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.run = run
        self.parameters = {p for part in parts for p in part.module.parameters()}
        self.uses: dict[torch.nn.Parameter, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.run.is_inside:
            for leaf in pytree.tree_leaves((args, kwargs)):
                if isinstance(leaf, torch.nn.Parameter) and leaf in self.parameters:
                    self.uses[leaf] = None
        return func(*args, **kwargs or {})


@dataclass(eq=False)
class _Run:
    """A run: the calls of parts so far."""

    grads: bool
    folder: Path
    weights: MappedWeights | None
    advance: Callable[[], None]
    calls: list[PartCall] = field(default_factory=list, init=False)
    is_inside: bool = field(default=False, init=False)

    def forward_of(self, part: Part) -> Callable[..., Any]:
        """Return what takes the place of the part's forward."""
        original = part.module.forward

        def inside(*args: Any, **kwargs: Any) -> Any:
            before, self.is_inside = self.is_inside, True
            try:
                return original(*args, **kwargs)
            finally:
                self.is_inside = before

        def forward(*args: Any, **kwargs: Any) -> Any:
            folder = self.folder / str(len(self.calls))
            folder.mkdir()
            open_containers((args, kwargs))
            arguments = _store(folder / "arguments.pt", (list(args), kwargs))
            before = placed_tensors((args, kwargs))
            passed_back: dict[int, Path] = {}
            arrived: dict[int, Path] = {}
            if self.grads:
                args, kwargs = self._watched((args, kwargs), folder / "input-gradient", passed_back)
                before = placed_tensors((args, kwargs))
                result = checkpoint(inside, *args, use_reentrant=False, **kwargs)
            else:
                result = inside(*args, **kwargs)
            open_containers((args, kwargs))  # those that hold tensors now
            _require_unchanged(part.path, before, placed_tensors((args, kwargs)))
            stored = _store(folder / "result.pt", result)
            self.calls.append(PartCall(part.path, arguments, stored, arrived, passed_back))
            self._release()
            self.advance()
            return self._watched(result, folder / "gradient", arrived) if self.grads else result

        return forward

    def _watched(self, structure: Any, file: Path, kept: dict[int, Path]) -> Any:
        """Return the structure with tensors whose gradients are kept in files, by their number, when they arrive."""
        leaves, spec = pytree.tree_flatten(structure)
        number = 0
        for index, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                continue
            if is_inexact(leaf):
                # what comes from an embedding of integers has no gradient to pass on, but gets one
                leaf = leaf.clone() if leaf.requires_grad else leaf.detach().requires_grad_()
                keep = self._keep(file.with_name(f"{file.name}-{number}.pt"), number, kept)
                leaf.register_hook(keep)  # type: ignore[no-untyped-call]
                leaves[index] = leaf
            number += 1
        return pytree.tree_unflatten(leaves, spec)

    def _keep(self, file: Path, number: int, kept: dict[int, Path]) -> Callable[[torch.Tensor], None]:
        def keep(gradient: torch.Tensor) -> None:
            torch.save(gradient.detach().clone(), file)
            kept[number] = file
            self._release()

        return keep

    def _release(self) -> None:
        if self.weights is not None:
            self.weights.release()


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach()


def _with_gradient(tensor: torch.Tensor) -> torch.Tensor:
    number = is_inexact(tensor)
    return tensor.detach().clone().requires_grad_().clone() if number else tensor.detach()


@contextlib.contextmanager
def _without_gradients(parameters: Sequence[torch.nn.Parameter]) -> Iterator[None]:
    """Within the context, parameters get no gradients: those of all would take as much memory as the network."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_()


def _cotangents(options: Options, result: Any, outputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Return the gradients of the loss, or random ones, of all outputs with numbers."""
    if options.loss is not None:
        arrays = loss_gradients(options.loss, result, outputs)
    else:
        arrays = random_cotangents([as_array(out) for out in outputs], np.dtype(np.float32), options.seed)
    return [None if array is None else tensor_like(array, out) for array, out in zip(arrays, outputs, strict=True)]
