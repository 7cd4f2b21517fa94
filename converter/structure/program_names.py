"""The program's names of the modules, parameters and buffers of a module made by `to_torch`.

Names that can't be attributes of torch's modules are different there. Reports and comparisons with the program use the
program's names. Other modules have only their own names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn

NAMES = "_program_names"
"""The attribute of the outermost module that holds the names."""


@dataclass
class ProgramNames:
    """The names that differ in the program.

    Attributes:
        cells: paths of Cells by paths of modules.
        classes: class names of Cells by paths of modules.
        tensors: qualified names of parameters and buffers in the program, by their names in torch.
    """

    cells: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)


def names_of(module: nn.Module) -> ProgramNames:
    """The program's names stored in a module made by `to_torch`; empty for any other module."""
    names = vars(module).get(NAMES)
    return names if isinstance(names, ProgramNames) else ProgramNames()


def named_modules(root: nn.Module) -> Iterator[tuple[str, str, nn.Module]]:
    """Yield each module with its path and class name in the program."""
    names = names_of(root)
    for path, module in root.named_modules():
        yield names.cells.get(path, path), names.classes.get(path, type(module).__name__), module


def named_parameters(root: nn.Module, *, remove_duplicate: bool = True) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield parameters with their names in the program."""
    tensors = names_of(root).tensors
    for name, parameter in root.named_parameters(remove_duplicate=remove_duplicate):
        yield tensors.get(name, name), parameter


def named_buffers(root: nn.Module, *, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Yield buffers with their names in the program."""
    tensors = names_of(root).tensors
    for name, buffer in root.named_buffers(remove_duplicate=remove_duplicate):
        yield tensors.get(name, name), buffer
