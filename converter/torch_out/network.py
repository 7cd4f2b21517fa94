"""The tree of torch modules for a program, and which calls can be separate modules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import nn

from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ...runtime.namespace import Namespace
from ..structure import network as structure
from ..structure.naming import identifier, is_harmless
from ..structure.program_names import NAMES, ProgramNames
from .modules import OWN

_RESERVED = frozenset([*dir(nn.Module), *vars(nn.Module()), OWN, NAMES])
"""Names that a module uses for other things than its parameters, buffers and children."""


@dataclass(eq=False)
class TorchModule(structure.Module):
    """One module, with its names in torch.

    Attributes:
        attribute: its attribute in the parent module.
        attributes: attributes of its parameters and buffers, by their names in `state`.
        qualified: their qualified names in the program, by their names in `state`.
        values: their values, by their names in `state`.
        names: all names used in the module.
    """

    attribute: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    qualified: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    names: Namespace = field(default_factory=lambda: Namespace(_RESERVED))

    def assign_names(self) -> None:
        """Assign attributes to its contents: their own names if these can be attributes and are free.

        Other names become identifiers, which are assigned last so that they don't collide with the names that are kept.
        """
        items: list[str | TorchModule] = [*self.state, *self.children.values()]
        others: list[str | TorchModule] = []
        for item in items:
            name = item if isinstance(item, str) else item.name
            if is_harmless(name) and name not in self.names:
                self._name(item, self.names.unique(name))
            else:
                others.append(item)
        for item in others:
            self._name(item, self.names.unique(identifier(item if isinstance(item, str) else item.name)))

    def _name(self, item: str | TorchModule, attribute: str) -> None:
        if isinstance(item, str):
            self.attributes[item] = attribute
        else:
            item.attribute = attribute

    def path_from(self, above: TorchModule) -> list[str]:
        """The attributes on the path from a containing module."""
        path: list[str] = []
        module: TorchModule | None = self
        while module is not None and module is not above:
            path.append(module.attribute)
            module = module.parent
        return path[::-1]


class TorchNetwork(structure.Network[TorchModule]):
    """The modules of a program, in the order of its parameters.

    A Cell whose nodes aren't contiguous, as in a gradient program, gets no module: its nodes move to the Cell that
    contains it.

    Attributes:
        used: values that have a user.
        fixed: values of constants and buffers, which need no gradient.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(_make_contiguous(program), TorchModule)
        parameters = self.program.parameters
        stored = [(name, name, item.value) for name, item in parameters.items()]
        stored += [(name, name, item.value) for name, item in self.program.buffers.items()]
        stored += [(alias, name, item.value) for name, item in parameters.items() for alias in item.aliases]
        for qualified, name, value in stored:
            module, attribute = self.add_state(qualified, name, value)
            module.qualified[attribute], module.values[attribute] = qualified, value
        self.used_values = {value for node in self.nodes for value in node.inputs if value is not None}
        self.used_values |= {*self.program.outputs, *self.program.updates.values()}
        self.fixed = {*self.constants, *(buffer.value for buffer in self.program.buffers.values())}
        called = {0} | {part for flow in self.flows for part in flow.body if isinstance(part, int)}
        for flow in self.flows:
            if flow.number not in called:
                continue
            module = self.module(flow.call.path)
            module.class_name = flow.call.class_name
            module.calls.append(flow)
        for module in self.modules.values():
            module.assign_names()

    def program_names(self) -> ProgramNames:
        """The program's names that differ from those in torch."""
        names = ProgramNames()
        for module in self.modules.values():
            path = module.path_from(self.root)
            where, class_name = ".".join(path), module.class_name or "Module"
            if where != module.path:
                names.cells[where] = module.path
            if class_name != identifier(class_name, "Module") or len(module.calls) > 1:
                names.classes[where] = class_name
            for attribute, qualified in module.qualified.items():
                if (name := ".".join([*path, module.attributes[attribute]])) != qualified:
                    names.tensors[name] = qualified
        return names


def _make_contiguous(program: Program) -> Program:
    """The program with contiguous nodes for each Cell call; a call whose nodes aren't is merged into its parent."""
    merged: set[int] = set()
    while (split := _first_split_call(program, merged)) is not None:
        merged.add(split)
    if not merged:
        return program

    def remaining(number: int | None) -> int | None:
        while number in merged:
            number = program.calls[number].parent
        return number

    return program.replace(
        nodes=tuple(replace(node, cell=remaining(node.cell) or 0) for node in program.nodes),
        calls=tuple(replace(call, parent=remaining(call.parent)) for call in program.calls),
    )


def _first_split_call(program: Program, merged: set[int]) -> int | None:
    """The first call that has nodes after nodes of other calls have ended it; None if there is none."""
    running, ended = [0], set[int]()
    for node in program.nodes:
        lineage: list[int] = []
        number: int | None = node.cell
        while number is not None:
            if number not in merged:
                lineage.insert(0, number)
            number = program.calls[number].parent
        while running != lineage[: len(running)]:
            ended.add(running.pop())
        for entered in lineage[len(running) :]:
            if entered in ended:
                return entered
            running.append(entered)
    return None
