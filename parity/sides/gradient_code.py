"""The Cells in which a module's own code sets gradients: by a `torch.autograd.Function`, or by a hook.

Such a gradient is the network's. Elsewhere torch alone computes gradients, from its own operators.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from ...converter.capture.cell_hooks import CurrentCell, watch
from ...converter.capture.custom_backward import Function, intercept_functions, with_backward_hooks
from .precision import DoublePrecision, in_dtype


def cells_with_gradient_code(
    module: torch.nn.Module,
    args: Any,
    kwargs: Any,
    working: torch.dtype,
    *,
    train: bool | None,
    cell_paths: Collection[str] | None = None,
) -> set[str]:
    """Return the paths of the Cells whose own code sets gradients, found in a call in float64.

    Args:
        module: the network.
        args: positional inputs in float64, with gradients.
        kwargs: keyword inputs.
        working: the dtype that its numbers are rounded to first.
        train: whether it runs in train mode.
        cell_paths: paths of the modules that are Cells; all if None.
    """
    current = CurrentCell()
    # a hook of a module runs at its boundary, where the Cell around it sees what it does
    paths = {around for name in with_backward_hooks(module) for around in _prefixes(name)}

    def apply(kind: Function, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        paths.add(current.paths[-1])
        return run()

    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(in_dtype(module, torch.float64, through=working, train=train))
        stack.enter_context(torch.random.fork_rng(devices=()))
        stack.enter_context(DoublePrecision(working, kept))
        stack.enter_context(intercept_functions(apply))
        stack.enter_context(_intercept_hooks(lambda: paths.add(current.paths[-1])))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(watch(module, current, cell_paths))
        module(*args, **kwargs)
    return paths


@contextlib.contextmanager
def _intercept_hooks(note: Callable[[], None]) -> Iterator[None]:
    """Within the context, call `note` whenever a hook is registered on a tensor."""
    original = torch.Tensor.register_hook

    def register_hook(tensor: torch.Tensor, hook: Any) -> Any:
        note()
        return original(tensor, hook)  # type: ignore[no-untyped-call]

    torch.Tensor.register_hook = register_hook  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.register_hook = original  # type: ignore[method-assign]


def _prefixes(name: str) -> Iterator[str]:
    """Yield a name, and the paths of everything around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]
    yield ""
