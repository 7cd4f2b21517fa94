"""Wrappers around a module (`torch.compile`, `DataParallel`, checkpoints), which are removed while it is converted.

Programs of `torch.export` and TorchScript are replaced by modules, too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch

from ..exported.modules import is_exported, module_of_program, without_guards
from ..torchscript.modules import module_of_script

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

WRAPPED_ATTRIBUTES = {"OptimizedModule": "_orig_mod", "CheckpointWrapper": "_checkpoint_wrapped_module"}
"""The attributes in which `torch.compile` and torch's checkpoints keep the module; their classes import slowly."""
PARALLEL = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


def unwrap_arguments(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A decorator: the function receives its module arguments without wrappers, and exported programs as modules."""

    @functools.wraps(function)
    def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with contextlib.ExitStack() as stack:

            def unwrap_value(value: Any) -> Any:
                value = as_module(value)
                return stack.enter_context(unwrap(value)) if isinstance(value, torch.nn.Module) else value

            keywords: Any = {name: unwrap_value(value) for name, value in kwargs.items()}
            positional: Any = tuple(map(unwrap_value, args))
            return function(*positional, **keywords)

    return wrapper


@contextlib.contextmanager
def unwrap(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Within the context, the module without wrappers around it or its submodules, and without `Module.compile`."""
    root = _innermost(module)
    with contextlib.ExitStack() as stack:
        for owner in [part for part in root.modules() if not isinstance(part, torch.jit.ScriptModule)]:
            compiled = vars(owner).get("_compiled_call_impl")
            if compiled is not None:
                owner._compiled_call_impl = None
                stack.callback(setattr, owner, "_compiled_call_impl", compiled)
            for name, child in list(owner._modules.items()):
                inside = None if child is None else _innermost(child)
                if inside is not child:
                    owner._modules[name] = inside
                    stack.callback(owner._modules.__setitem__, name, child)
                    stack.callback(_add_alias(inside, child))
        yield root


def as_module(value: Any) -> Any:
    """The module of a program of `torch.export`; any other value itself."""
    return module_of_program(value) if isinstance(value, torch.export.ExportedProgram) else value


def _innermost(module: torch.nn.Module) -> torch.nn.Module:
    """The module within any number of wrappers."""
    while (attribute := _attribute(module)) is not None:
        module = getattr(module, attribute)
    if isinstance(module, torch.jit.ScriptModule):
        return module_of_script(module)
    return without_guards(module) if is_exported(module) else module


def _attribute(module: torch.nn.Module) -> str | None:
    attribute = WRAPPED_ATTRIBUTES.get(type(module).__name__)
    if attribute in module._modules:
        return attribute
    return "module" if isinstance(module, PARALLEL) else None


def _add_alias(module: Any, wrapper: Any) -> Callable[[], None]:
    """Let `wrapper.module` find the module that replaces the wrapper; return a function that undoes it."""
    attribute = _attribute(wrapper)
    if attribute is None or hasattr(module, attribute):
        return lambda: None
    vars(module)[attribute] = module
    return lambda: vars(module).pop(attribute, None)
