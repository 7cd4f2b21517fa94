"""The protocol that a framework must implement so that its Cells can be watched: the runtime's own, and MindSpore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from .records import Array
from .side import native_checks

Pull = Callable[[Array], Array | None]
Hook = Callable[..., Any]


class Framework(Protocol):
    """Tensors, gradients and hooks of a framework."""

    name: str
    checks: tuple[str, ...]  # "meaning" (it runs in float64) and "rounding"
    replays: bool  # whether its random draws can be observed and replaced
    sees_updates: bool  # whether the updates of its optimizers can be observed

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor."""

    def tensor(self, array: Array) -> Any:
        """A tensor with these elements."""

    def array(self, tensor: Any) -> Array:
        """The elements of a tensor."""

    def is_tracked(self, tensor: Any) -> bool:
        """Whether a gradient that goes through this tensor is being computed."""

    def is_recording(self) -> bool:
        """Whether a gradient of the running code is being computed."""

    def cross(self, tensor: Any, passed: Array, pull: Pull) -> Any:
        """Return a tensor with the elements `passed`, whose gradient is passed through `pull` to `tensor`."""

    def run(
        self,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Any],
        parameters: Sequence[Any],
        seeds: Callable[[Sequence[Any]], Sequence[Array | None]] | None,
    ) -> tuple[list[Any], list[Array | None], list[Array | None]]:
        """Return the outputs of `function(*inputs)`, and the gradients of the inputs and the parameters.

        `seeds` returns the gradients of the outputs, None for an output without one; without `seeds` no gradient is
        computed.
        """

    def prepare(
        self, cell: Any, values: Mapping[int, Array], dtype: str, train: bool | None, perturbed: bool = False
    ) -> AbstractContextManager[None]:
        """Within the context, the Parameters have `values` (by `id`), in `dtype`; afterwards everything is restored.

        If `perturbed`, other numbers are perturbed as `rounded_numbers` describes.
        """

    def observe_draws(self, observer: Callable[[str, Array], Array]) -> AbstractContextManager[None]:
        """Within the context, `observer(kind, array)` is called for every random draw, and returns its replacement."""

    def observe_updates(self, observer: Callable[[Mapping[int, Array]], None]) -> AbstractContextManager[None]:
        """Within the context, `observer(gradients)` is called before every update, with the Parameters' `id`s as keys.

        A loss scale that the optimizer divides out has been divided out of the gradients.
        """


def checks_of(framework: Framework, working_dtype: str) -> tuple[tuple[str, str], ...]:
    """Return the checks of a side, each with its dtype, that a framework can run."""
    return tuple(check for check in native_checks(working_dtype) if check[0] in framework.checks)


@contextlib.contextmanager
def hook_cell(framework: Framework, cell: Any, before: Hook, after: Hook, shared: Mapping[str, Pull]) -> Iterator[None]:
    """Within the context, `before(args, kwargs)` replaces the arguments and `after(output)` the output of a Cell.

    Args:
        framework: the Cell's framework; hooks work the same in all frameworks.
        cell: the Cell.
        before: maps the arguments to their replacements.
        after: maps the output to its replacement.
        shared: for shared Parameters of this Cell, by attribute, a function that gets this Cell's share of the
            gradient; placeholders take the Parameters' place while the Cell runs.
    """
    originals: list[dict[str, Any]] = []

    def pre(_: Any, args: Any, kwargs: Any) -> Any:
        arguments = before(args, kwargs)
        originals.append({name: cell._params[name] for name in shared})
        for name, pull in shared.items():
            cell._params[name] = framework.cross(cell._params[name], framework.array(cell._params[name]), pull)
        return arguments

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
