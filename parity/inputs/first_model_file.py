"""Writes a first model file for a class of somebody who has none yet."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..sides.kinds import Kind, file_of
from ..sides.opening import kind_of
from ..support.user_code import report_user_errors
from .guessed_inputs import Draw, guess_inputs, required_parameters
from .user_source import open_source


@dataclass(frozen=True)
class FirstModelFile:
    """A model file, not yet written.

    Attributes:
        path: where it belongs: beside the file of the class, whose module it imports.
        text: its contents.
        open_points: what its owner has to fill in; empty if it runs as it is.
    """

    path: Path
    text: str
    open_points: tuple[str, ...]


def first_model_file(target: str) -> FirstModelFile:
    """Return a model file for a class, or for a function that makes a network.

    Args:
        target: `path/file.py:Class` or `package.module:Class`.

    Raises:
        UsageError: there is no such class, or it makes no torch module.
    """
    head = file_of(target)
    name = target.removeprefix(head).removeprefix(":")
    if not name:
        raise UsageError(f"needed a class, package.module:Class or file.py:Class, given {visible_name(target)}")
    module_name = Path(head).stem if head.endswith(".py") else head
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(
            f"{visible_name(head)} can't be imported by its name; rename it to a name that Python can import"
        )
    make: Any = getattr(open_source(head), name, None)
    is_class = inspect.isclass(make)
    if not callable(make) or (is_class and not issubclass(make, nn.Module)):
        raise UsageError(f"{visible_name(head)} defines no torch module {name}")
    missing = required_parameters(make)
    draws = None if missing else _guess(target, name, make)
    parameters = required_parameters(make.forward)[1:] if is_class else []
    points = [f"the arguments of {name} ({', '.join(missing)})"] if missing else []
    points += ["the inputs"] if draws is None else []
    folder = Path(head).parent if head.endswith(".py") else Path()
    text = _text(module_name, name, missing, draws, parameters)
    return FirstModelFile(folder / f"parity_{name.lower()}.py", text, tuple(points))


def _guess(target: str, name: str, make: Callable[..., Any]) -> list[Draw] | None:
    with report_user_errors(target, f"when {name}() was called"):
        network = make()
    if kind_of(network) is not Kind.MODULE:
        raise UsageError(f"{name}() must return a torch module; it returned {type(network).__name__}")
    return guess_inputs(network)


def _text(module_name: str, name: str, missing: list[str], draws: list[Draw] | None, parameters: list[str]) -> str:
    """Return the contents of the file.

    Args:
        module_name: the module of the class.
        name: the name of the class.
        missing: its parameters that need a value.
        draws: the inputs; None if they aren't known.
        parameters: the parameters of `forward` that need a value.
    """
    arguments = ", ".join(f"{parameter}=..." for parameter in missing)
    if draws is None:
        items = ["torch.randn(2, 3, 32, 32)"] * max(1, len(parameters))
        remark = f"  # to do: {', '.join(parameters) or 'its arguments'}"
    else:
        items, remark = [draw.source() for draw in draws], "  # guessed: the network runs with it"
    returned = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return f'''"""What `parity run` and `pytest` judge: {name}, with its inputs."""

import torch
from {module_name} import {name}


def model():
    network = {name}({arguments}){"  # to do: its arguments" if missing else ""}
    # network.load_state_dict(torch.load("weights.pt"))
    return network


def inputs():  # a tuple of arguments, or a dict of keyword arguments; `yield` several to judge all
    return {returned}{remark}


# def loss(outputs):  # a scalar whose gradient is sent back, in place of seeded random gradients
#     return outputs.square().mean()

# dynamic_shapes = ({{0: "batch"}},)  # as torch.export.export takes it: other sizes are compared, too
'''
