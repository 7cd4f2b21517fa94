"""Hooks at every module boundary, which report the run of a torch network Cell by Cell.

Capture and the torch side of a parity run both use `watch`, so that "output `[0]` of the second call of
`encoder.layer`" is the same tensor in both.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

from ...runtime.ir.types import CellCall
from ..structure.program_names import named_modules
from .containers import is_stateful, open_containers


class Visitor(Protocol):
    """Receives the events of a run; the tensors that it returns replace those that it receives."""

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """A Cell is called with tensors of these names; `number` counts the calls of the run from 0 (the root)."""

    def input(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor goes into the Cell; `position` counts the call's tensors, `slot` names this one."""

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        """The Cell returns tensors of these names; a call of `output` follows for each."""

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor comes out of the Cell."""

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """The Cell has returned."""


@contextlib.contextmanager
def watch(root: torch.nn.Module, visitor: Visitor, only: Collection[str] | None = None) -> Iterator[None]:
    """Within the context, report calls of `root` and of its submodules (of the paths in `only`) to `visitor`.

    The visitor must return new tensors (a clone, not a view), so that each boundary crossing is a separate tensor. A
    module that changes its input in place still does: the change is copied back when it returns.
    """
    watcher = _Watcher(visitor)
    handles: list[Any] = []
    for path, class_name, module in named_modules(root):
        if isinstance(module, torch.jit.ScriptModule):
            continue  # compiled: it runs no Python hooks, but its parent's boundary covers it
        if only is not None and path not in only:
            continue
        before, after = watcher.hooks(path, class_name, is_root=module is root)
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Watcher:
    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.count = 0
        self.calls_of: dict[str, int] = {}
        # number of the call, and for each input tensor (original, replacement by the visitor, its version at that time)
        self.stack: list[tuple[int, list[tuple[torch.Tensor, torch.Tensor, int]]]] = []

    def hooks(self, path: str, class_name: str, *, is_root: bool) -> tuple[Any, Any]:
        def before(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
            if not _is_watching():
                return None
            count_call()
            if is_root:  # a new run
                self.count, self.stack = 0, []
                self.calls_of.clear()
            number = self.count
            self.count += 1
            index = self.calls_of.get(path, 0)
            self.calls_of[path] = index + 1
            parent = self.stack[-1][0] if self.stack else None
            inputs: list[tuple[torch.Tensor, torch.Tensor, int]] = []
            open_containers((args, kwargs))
            is_leaf = None if is_root else is_stateful
            leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=is_leaf)
            places = input_slots(module, args, kwargs, is_leaf)
            call = CellCall(path, class_name, index, parent)
            self.visitor.enter(number, call, module, [slot for _, slot in places])
            for position, (place, slot) in enumerate(places):
                original = leaves[place]
                visited = leaves[place] = self.visitor.input(number, position, slot, original)
                inputs.append((original, visited, _version(visited)))
            self.stack.append((number, inputs))
            return pytree.tree_unflatten(leaves, spec)

        def after(module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
            if not _is_watching():
                return None
            number, inputs = self.stack.pop()
            for original, visited, version in inputs:
                if _version(visited) != version:
                    original.copy_(visited)
            open_containers(result)
            leaves, spec = pytree.tree_flatten_with_path(result, is_leaf=None if is_root else is_stateful)
            values = [leaf for _, leaf in leaves]
            slots = {
                place: pytree.keystr(key) or "result"
                for place, (key, leaf) in enumerate(leaves)
                if isinstance(leaf, torch.Tensor)
            }
            self.visitor.returns(number, result, list(slots.values()))
            for position, (place, slot) in enumerate(slots.items()):
                values[place] = self.visitor.output(number, position, slot, values[place])
            self.visitor.leave(number, module)
            return pytree.tree_unflatten(values, spec)

        return before, after


def _version(tensor: torch.Tensor) -> int:
    """Return how often a tensor was changed in place, without asking the modes that are on."""
    with torch._C.DisableTorchFunction():
        return tensor._version


_watching: ContextVar[bool] = ContextVar("watching", default=True)
_on_call: ContextVar[Callable[[], None] | None] = ContextVar("on_call", default=None)


@contextlib.contextmanager
def notify_calls(notify: Callable[[], None]) -> Iterator[None]:
    """Within the context, call a function for each call that is counted: to show how far a run is."""
    token = _on_call.set(notify)
    try:
        yield
    finally:
        _on_call.reset(token)


def count_call() -> None:
    """Count a call of a module, or its backward pass; calls that are reported to a visitor are counted."""
    if (notify := _on_call.get()) is not None:
        notify()


@contextlib.contextmanager
def pause_watching() -> Iterator[None]:
    """Within the context, calls of modules aren't reported: used for branches and loop bodies of `torch.cond` etc.

    Which of these run, and how often, depends on the data. In a program they are sub-programs without Cells.
    """
    token = _watching.set(False)
    try:
        yield
    finally:
        _watching.reset(token)


def _is_watching() -> bool:
    """Whether calls are reported now: torch and a program make the same calls, and tensors have readable values.

    Calls aren't reported while torch traces branches with dynamo, or within `torch.vmap`, `torch.func.grad` and others.
    """
    if torch.compiler.is_dynamo_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return _watching.get()


def input_slots(
    module: torch.nn.Module, args: Any, kwargs: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[int, str]]:
    """The tensors of a call, in the order of the parameters of `forward`: (index among all leaves, name)."""
    argument_names = _argument_names(module, args, kwargs)
    tensors: list[tuple[int, int, str]] = []
    leaves, _ = pytree.tree_flatten_with_path((args, kwargs), is_leaf=is_leaf)
    for place, (path, leaf) in enumerate(leaves):
        key: Any = path
        if isinstance(leaf, torch.Tensor):
            is_keyword, argument = key[0].idx == 1, key[1]
            order, name = argument_names[argument.key if is_keyword else argument.idx]
            tensors.append((order, place, name + pytree.keystr(key[2:])))
    return [(place, slot) for _, place, slot in sorted(tensors)]


def _argument_names(module: torch.nn.Module, args: Any, kwargs: Any) -> dict[Any, tuple[int, str]]:
    """For each positional index and keyword: the index of its parameter in the signature of `forward`, and its name."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    order = {p.name: i for i, p in enumerate(parameters)}
    names: dict[Any, tuple[int, str]] = {}
    for i in range(len(args)):
        name = positional[i].name if i < len(positional) else f"{rest}[{i - len(positional)}]"
        names[i] = (order.get(name, order.get(rest, len(order))), name)
    for key in kwargs:
        names[key] = (order.get(key, len(order)), key)
    return names
