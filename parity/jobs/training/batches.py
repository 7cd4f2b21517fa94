"""The batches that a network is trained on: the given inputs, and others derived from them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....converter.dtypes import is_inexact
from ....runtime import tree
from ....runtime.errors import UsageError
from ....runtime.ir.program import Program
from ....runtime.programs.call import as_array
from ....runtime.programs.interpreter import bind
from ...dtypes import cast_floating
from .torch_steps import Batch


def first_batches(example: Batch, more_inputs: Iterable[Batch], count: int) -> tuple[list[Batch], bool]:
    """Return the first `count` inputs, and whether there are more."""
    others = iter(more_inputs)
    return [example, *itertools.islice(others, count - 1)], next(others, None) is not None


def example_batches(inputs: Sequence[Batch], count: int, seed: int) -> list[Batch]:
    """Return `count` batches: the given inputs, then others derived from them in turn; see `check_training`."""
    generator = torch.Generator().manual_seed(seed)

    def shrink(tensor: torch.Tensor) -> torch.Tensor:
        if not is_inexact(tensor):
            return tensor
        factor = 0.5 + 0.5 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        return (tensor.detach().cpu() * factor).to(tensor.dtype)

    others = itertools.islice(itertools.cycle(inputs), count - len(inputs))
    return [*inputs, *(pytree.tree_map_only(torch.Tensor, shrink, batch) for batch in others)]


def reorder_batch(program: Program, example: Batch, batch: Batch, number: int) -> Batch:
    """Return a batch with its arguments in the order of the example's.

    Raises:
        UsageError: the program captured with the example can't take the batch.
    """

    def error_about(problem: str) -> UsageError:
        return UsageError(f"input number {number} of the model can't be trained on: {problem}")

    expected_leaves, spec = _by_path(example)
    leaves, _ = _by_path(batch)
    if expected_leaves.keys() != leaves.keys():
        needed_paths, given_paths = (", ".join(paths) or "nothing" for paths in (expected_leaves, leaves))
        raise error_about(f"needed {needed_paths}, as in the first input; given {given_paths}")
    for path, leaf in expected_leaves.items():
        other = leaves[path]
        if tree.is_tensor(leaf) != tree.is_tensor(other) or (not tree.is_tensor(leaf) and leaf != other):
            raise error_about(
                f"{path} is {_describe(other)}, and {_describe(leaf)} in the first input, with which it was captured"
            )
    whole = pytree.tree_unflatten([leaves[path] for path in expected_leaves], spec)
    batch = whole["args"], whole["kwargs"]
    arrays = zip(arrays_of(batch), program.inputs, strict=True)
    try:
        bind(program, [cast_floating(a, v.dtype) for a, v in arrays])
    except UsageError as error:
        raise error_about(str(error)) from error
    return batch


def arrays_of(batch: Batch) -> list[Any]:
    """The tensors of a batch, in order."""
    return [as_array(leaf) for leaf in pytree.tree_leaves(batch) if tree.is_tensor(leaf)]


def _by_path(batch: Batch) -> tuple[dict[str, Any], pytree.TreeSpec]:
    """Return the leaves by path, `['args'][0]` or `['kwargs']['x']`, and their structure."""
    args, kwargs = batch
    leaves, spec = pytree.tree_flatten_with_path({"args": args, "kwargs": kwargs})
    return {pytree.keystr(path): leaf for path, leaf in leaves}, spec


def _describe(leaf: Any) -> str:
    return "a tensor" if tree.is_tensor(leaf) else repr(leaf)
