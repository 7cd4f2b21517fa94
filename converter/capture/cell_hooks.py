"""Hooks at every module boundary, which report the run of a torch network Cell by Cell.

Capture and the torch side of a parity run both use `watch`, so that "output `[0]` of the second call of
`encoder.layer`" is the same tensor in both.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import CellbridgeError
from ...runtime.ir.types import CellCall
from ..structure.program_names import named_modules
from .containers import is_stateful, open_containers
from .replaced_method import replaced_method


class Visitor:
    """Receives the events of a run; the tensors that it returns replace those that it receives.

    It changes nothing unless a class that is derived from it does.
    """

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """A Cell is called with tensors of these names; `number` counts the calls of the run from 0 (the root)."""

    def input(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor goes into the Cell; `position` counts the call's tensors, `slot` names this one."""
        return tensor

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        """The Cell returns tensors of these names; a call of `output` follows for each."""

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor comes out of the Cell."""
        return tensor

    def changed_input(self, number: int) -> None:
        """The Cell has changed one of its inputs in place, which it doesn't return: the caller's tensor is another."""

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """The Cell has returned, or has raised what a Cell around it caught."""

    def raised(self, module: torch.nn.Module, error: Exception) -> Any:
        """A Cell inside the root raises; return what it returns instead, or None if the error goes on."""
        return None


class CurrentCell(Visitor):
    """Knows which Cell is running.

    Attributes:
        paths: the paths of the Cells that are running, innermost last; "" before the root is called.
    """

    def __init__(self) -> None:
        self.paths = [""]

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """A Cell is called."""
        self.paths.append(call.path)

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """It has returned."""
        self.paths.pop()


@contextlib.contextmanager
def watch(
    root: torch.nn.Module, visitor: Visitor, only: Collection[str] | None = None, *, catch: bool = False
) -> Iterator[None]:
    """Within the context, report calls of `root` and of its submodules to `visitor`.

    A tensor that the visitor replaces must be a new one (a clone, not a view), so that each boundary crossing is a
    separate tensor. A module that changes such an input in place still does: the change is copied back when it returns.
    If it returns that input, what follows takes the result that the visitor passes on, whichever name it has.

    Args:
        root: the network.
        visitor: receives the events.
        only: paths of the modules to watch; None for all.
        catch: whether the visitor is asked what a Cell inside returns in place of an exception.
    """
    watcher = _Watcher(visitor)
    with contextlib.ExitStack() as stack:
        for path, class_name, module in named_modules(root):
            if isinstance(module, torch.jit.ScriptModule):
                continue  # compiled: it runs no Python hooks, but its parent's boundary covers it
            if only is not None and path not in only:
                continue
            before, after = watcher.hooks(path, class_name, is_root=module is root)
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)
            if catch and path:
                stack.enter_context(replaced_method(module, "forward", watcher.catching(module)))
        yield


@dataclass(frozen=True)
class _Running:
    """A call that is running, with each input tensor as given, as the visitor replaced it, and its version then."""

    number: int
    module: torch.nn.Module
    inputs: list[tuple[torch.Tensor, torch.Tensor, int]]


class _Watcher:
    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.count = 0
        self.calls_of: dict[str, int] = {}
        self.stack: list[_Running] = []

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
            parent = self.stack[-1].number if self.stack else None
            inputs: list[tuple[torch.Tensor, torch.Tensor, int]] = []
            open_containers((args, kwargs))
            is_leaf = None if is_root else is_stateful
            leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=is_leaf)
            places = input_slots(module, args, kwargs, is_leaf)
            call = CellCall(path, class_name, index, parent)
            self.visitor.enter(number, call, module, [slot for _, slot in places])
            for position, (leaf_index, slot) in enumerate(places):
                original = leaves[leaf_index]
                visited = leaves[leaf_index] = self.visitor.input(number, position, slot, original)
                if visited is not original:
                    inputs.append((original, visited, _version(visited)))
            self.stack.append(_Running(number, module, inputs))
            return pytree.tree_unflatten(leaves, spec) if inputs else None

        def after(module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
            if not _is_watching():
                return None
            running = self._returning(module)
            changed = [(given, visited) for given, visited, version in running.inputs if _version(visited) != version]
            open_containers(result)
            leaves, spec = pytree.tree_flatten_with_path(result, is_leaf=None if is_root else is_stateful)
            values = [leaf for _, leaf in leaves]
            slots = {
                index: pytree.keystr(key) or "result"
                for index, (key, leaf) in enumerate(leaves)
                if isinstance(leaf, torch.Tensor)
            }
            self.visitor.returns(running.number, result, list(slots.values()))
            is_changed = False
            passed: dict[int, torch.Tensor] = {}
            for position, (index, slot) in enumerate(slots.items()):
                original = values[index]
                values[index] = passed[id(original)] = self.visitor.output(running.number, position, slot, original)
                is_changed |= values[index] is not original
            for given, visited in changed:
                returned = passed.get(id(visited))
                if returned is None:
                    self.visitor.changed_input(running.number)
                given.copy_(visited if returned is None or returned.shape != given.shape else returned)
            self.visitor.leave(running.number, module)
            return pytree.tree_unflatten(values, spec) if is_changed else None

        return before, after

    def _returning(self, module: torch.nn.Module) -> _Running:
        """Return the call that returns; those inside that haven't have raised what was caught."""
        while self.stack[-1].module is not module:
            raised = self.stack.pop()
            self.visitor.leave(raised.number, raised.module)
        return self.stack.pop()

    def catching(self, module: torch.nn.Module) -> Callable[..., Any]:
        """Return a module's forward whose exceptions the visitor may replace by a result."""
        forward = module.forward

        @functools.wraps(forward)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return forward(*args, **kwargs)
            except CellbridgeError:
                raise
            except Exception as error:  # any exception of the user's code is a finding
                result = self.visitor.raised(module, error)
                if result is None:
                    raise
                return result

        return guarded


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
    for index, (path, leaf) in enumerate(leaves):
        key: Any = path
        if isinstance(leaf, torch.Tensor):
            is_keyword, argument = key[0].idx == 1, key[1]
            order, name = argument_names[argument.key if is_keyword else argument.idx]
            tensors.append((order, index, name + pytree.keystr(key[2:])))
    return [(index, slot) for _, index, slot in sorted(tensors)]


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
