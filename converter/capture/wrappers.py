"""Modules around a module (`torch.compile`, `DataParallel`, checkpoints): what is inside is looked at."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

KEPT = {"OptimizedModule": "_orig_mod", "CheckpointWrapper": "_checkpoint_wrapped_module"}
"""The attributes in which `torch.compile` and torch's checkpoints keep the module; their classes import slowly."""
PARALLEL = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


def looking_through(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function of modules that is given them as they are without wrappers."""

    @functools.wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with contextlib.ExitStack() as stack:

            def plain(value: Any) -> Any:
                return stack.enter_context(unwrapped(value)) if isinstance(value, torch.nn.Module) else value

            keywords: Any = {name: plain(value) for name, value in kwargs.items()}
            positional: Any = tuple(map(plain, args))
            return function(*positional, **keywords)

    return called


@contextlib.contextmanager
def unwrapped(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Within the context, the module without wrappers, around it or inside, and without `Module.compile`."""
    root = _inside(module)
    with contextlib.ExitStack() as stack:
        for owner in list(root.modules()):
            compiled = vars(owner).get("_compiled_call_impl")
            if compiled is not None:
                owner._compiled_call_impl = None
                stack.callback(setattr, owner, "_compiled_call_impl", compiled)
            for name, child in list(owner._modules.items()):
                inside = None if child is None else _inside(child)
                if inside is not child:
                    owner._modules[name] = inside
                    stack.callback(owner._modules.__setitem__, name, child)
                    stack.callback(_name_itself(inside, child))
        yield root


def _inside(module: torch.nn.Module) -> torch.nn.Module:
    """The module in wrappers, however many."""
    while (attribute := _attribute(module)) is not None:
        module = getattr(module, attribute)
    return module


def _attribute(module: torch.nn.Module) -> str | None:
    kept = KEPT.get(type(module).__name__)
    if kept in module._modules:
        return kept
    return "module" if isinstance(module, PARALLEL) else None


def _name_itself(module: Any, wrapper: Any) -> Callable[[], None]:
    """Let code that says `wrapper.module` find the module, which stands in the wrapper's place; what undoes it."""
    attribute = _attribute(wrapper)
    if attribute is None or hasattr(module, attribute):
        return lambda: None
    vars(module)[attribute] = module
    return lambda: vars(module).pop(attribute, None)
