"""What the program of a module made by `to_torch` calls its modules, parameters and buffers.

Names that can't be attributes of torch's modules have others there. Whatever tells of the module to people, or holds it
against its program, calls them as the program does. Any other module's names are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn

NAMES = "_program_names"
"""The attribute of the outermost module that holds them."""


@dataclass
class ProgramNames:
    """Names that are others in the program; all else has one name.

    Attributes:
        cells: paths of Cells, by those of the modules.
        classes: names of their classes, likewise.
        tensors: qualified names of parameters and buffers, by those that they have in torch.
    """

    cells: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)


def names_of(module: nn.Module) -> ProgramNames:
    """The names that a module made by `to_torch` keeps; none for any other one."""
    found = vars(module).get(NAMES)
    return found if isinstance(found, ProgramNames) else ProgramNames()


def named_modules(root: nn.Module) -> Iterator[tuple[str, str, nn.Module]]:
    """For each module: path and name of the class, as the program has them, and the module."""
    names = names_of(root)
    for path, module in root.named_modules():
        yield names.cells.get(path, path), names.classes.get(path, type(module).__name__), module


def named_parameters(root: nn.Module, *, remove_duplicate: bool = True) -> Iterator[tuple[str, nn.Parameter]]:
    """Parameters by the names that the program has for them."""
    tensors = names_of(root).tensors
    for name, parameter in root.named_parameters(remove_duplicate=remove_duplicate):
        yield tensors.get(name, name), parameter


def named_buffers(root: nn.Module, *, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Buffers by the names that the program has for them."""
    tensors = names_of(root).tensors
    for name, buffer in root.named_buffers(remove_duplicate=remove_duplicate):
        yield tensors.get(name, name), buffer
