"""What a framework with Cells must be able to do to be seen Cell by Cell: ours, and MindSpore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from .records import Array

Pull = Callable[[Array], Array | None]
Hook = Callable[..., Any]


class Framework(Protocol):
    """Tensors, gradients and hooks of a framework."""

    name: str
    checks: tuple[str, ...]  # "meaning" (it runs in float64) and "rounding"
    replays: bool  # whether its random draws can be seen and replaced

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor."""

    def tensor(self, array: Array) -> Any:
        """A tensor with these elements."""

    def array(self, tensor: Any) -> Array:
        """The elements of a tensor."""

    def tracked(self, tensor: Any) -> bool:
        """Whether a gradient is being computed that goes through this tensor."""

    def recording(self) -> bool:
        """Whether a gradient is being computed that goes through what runs now."""

    def cross(self, tensor: Any, passed: Array, pull: Pull) -> Any:
        """A tensor with the elements `passed`, whose gradient goes, as `pull` returns it, to `tensor`."""

    def run(
        self,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Any],
        parameters: Sequence[Any],
        seeds: Callable[[Sequence[Any]], Sequence[Array | None]] | None,
    ) -> tuple[list[Any], list[Array | None], list[Array | None]]:
        """Outputs of `function(*inputs)`, and the gradients of its inputs and of the parameters.

        `seeds` gives the gradients of the outputs, None for one that has none; without it no gradient is computed.
        """

    def prepared(
        self, cell: Any, values: Mapping[int, Array], dtype: str, train: bool, perturbed: bool = False
    ) -> AbstractContextManager[None]:
        """Within the context, the Parameters have `values` (by `id`), in `dtype`; afterwards all is as before.

        If `perturbed`, other numbers are off as `rounded_numbers` says.
        """

    def drawing(self, observer: Callable[[str, Array], Array]) -> AbstractContextManager[None]:
        """Within the context, `observer(kind, array)` is told of random draws and replaces them."""


@contextlib.contextmanager
def hooked(framework: Framework, cell: Any, before: Hook, after: Hook, shared: Mapping[str, Pull]) -> Iterator[None]:
    """Within the context, `before(args, kwargs)` replaces the arguments and `after(output)` the output of a Cell.

    Args:
        framework: that of the Cell; the hooks of Cells are the same in all.
        cell: what is hooked.
        before: from the arguments to those that take their place.
        after: likewise for the output.
        shared: for Parameters of this very Cell, by attribute, what is told of this Cell's share in their gradients:
            stand-ins take their place while it runs.
    """
    originals: list[dict[str, Any]] = []

    def pre(_: Any, args: Any, kwargs: Any) -> Any:
        replaced = before(args, kwargs)
        originals.append({name: cell._params[name] for name in shared})
        for name, pull in shared.items():
            cell._params[name] = framework.cross(cell._params[name], framework.array(cell._params[name]), pull)
        return replaced

    def post(_: Any, args: Any, kwargs: Any, output: Any) -> Any:
        cell._params.update(originals.pop())
        return after(output)

    handles = [
        cell.register_forward_pre_hook(pre, prepend=True, with_kwargs=True),
        cell.register_forward_hook(post, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        if originals:
            cell._params.update(originals[0])
