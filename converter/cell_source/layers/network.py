"""The network of a Cell source: modules that may be known layers, or call modules that aren't their children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ....runtime.ir.dims import symbols_in
from ....runtime.ir.flow import Flow
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.namespace import unique_name
from ...structure import network as structure
from ...structure.interfaces import Interface
from ...structure.network import Array, common
from ..text.expressions import RESERVED, Literals, attribute_of, identifier
from .idioms import merge_idioms

__all__ = ["Array", "CellModule", "CellNetwork", "Layer", "common"]


@dataclass(frozen=True)
class Layer:
    """A known layer that represents a module.

    Attributes:
        text: the expression that creates it.
        names: for each Parameter of the layer, the attribute of the module.
        argument_pattern: the pattern of its arguments; `{0}` is the first input.
        output_pattern: the pattern of its outputs.
        unit_axes: whether its kernels have an axis of size 1 before the last (convolutions along one axis).
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    argument_pattern: str = "{0}"
    output_pattern: str = "{0}"
    unit_axes: bool = False

    @property
    def kind(self) -> str:
        """The class of the layer."""
        return self.text[: self.text.index("(")]

    @property
    def arguments(self) -> str:
        """The arguments of the class."""
        return self.text[self.text.index("(") + 1 : -1]


@dataclass(eq=False)
class CellModule(structure.Module):
    """One module, which becomes a Cell.

    Attributes:
        constants: constants of the program that its calls use, by attribute.
        borrowed: modules that it calls and that aren't below it, with the attributes that refer to them.
        layer: the known layer that represents it; None if its code is generated.
        varies: whether its calls compute different things: each gets the number of its variant.
    """

    constants: dict[str, Value] = field(default_factory=dict)
    borrowed: dict[CellModule, str] = field(default_factory=dict)
    layer: Layer | None = None
    varies: bool = False

    def layer_name(self, attribute: str) -> str:
        """The name of a parameter or buffer in the generated layer."""
        if self.layer is None:
            return attribute
        return next(name for name, qualified in self.layer.names.items() if qualified == attribute)

    def path_from(self, above: CellModule) -> str:
        """The expression of the module in a method of a containing module, or of itself."""
        if self is above:
            return "self"
        assert self.parent is not None, f"{self.path} is not below {above.path}"
        path = self.parent.path_from(above)
        return f"{path}[{self.name}]" if self.parent.is_numbered else attribute_of(path, self.name)

    @property
    def is_numbered(self) -> bool:
        """Whether its children are numbered from 0, like those of a list."""
        return bool(self.children) and list(self.children) == [str(i) for i in range(len(self.children))]


class CellNetwork(structure.Network[CellModule]):
    """The modules of a program; in `flows`, each idiom is one node.

    Attributes:
        target: the framework that the source is for.
        uses: how often each value is an operand or an output, not counting idioms.
        literals: the literals of the generated source.
        size_names: names of symbols in the source.
    """

    def __init__(self, program: Program, target: str) -> None:
        super().__init__(program, CellModule)
        self.target = target
        self.literals = Literals()
        self.size_names: dict[str, str] = {}
        operands = Counter(value for node in self.nodes for value in node.inputs)
        for flow in self.flows:
            flow.body[:] = merge_idioms(flow.body, operands, self.scalar)
        self.uses = operands + Counter(program.outputs)
        self._add_modules_and_state()

    def _add_modules_and_state(self) -> None:
        self.add_calls()
        for name, parameter in self.program.parameters.items():
            self.add_state(name, name, parameter.value)
            for alias in parameter.aliases:
                if alias.rpartition(".")[0] in self.modules:
                    self.add_state(alias, name, parameter.value)
        for name, buffer in self.program.buffers.items():
            if self.uses[buffer.value] or buffer.update is not None:
                self.add_state(name, name, buffer.value)
        for module in self.modules.values():
            if not module.class_name:
                module.class_name = "".join(part.capitalize() for part in identifier(module.name, "part").split("_"))
            if module.children and all(name.isdigit() for name in module.children):
                module.children = dict(sorted(module.children.items(), key=lambda item: int(item[0])))
        for flow in self.flows[1:]:
            self._borrow(self.module_of(self.flows[flow.call.parent or 0]), self.module_of(flow))

    def name_sizes(self, reserved: Iterable[str]) -> None:
        """Name the symbols; each keeps its name if that is valid in the source and isn't in `reserved`."""
        values = [*self.program.inputs, *(value for node in self.nodes for value in node.outputs)]
        all_reserved = [*RESERVED, *reserved]
        for symbol in sorted(symbols_in(*(value.shape for value in values)) | self.size_sources.keys()):
            self.size_names[symbol] = unique_name(
                identifier(symbol, "size"), [*all_reserved, *self.size_names.values()]
            )

    def size_arguments(self, interface: Interface) -> list[str]:
        """The names of the sizes that a call receives."""
        return [self.size_names[symbol] for symbol in interface.symbols]

    def is_opaque(self, flow: Flow) -> bool:
        """Whether the module is a known layer."""
        return self.module_of(flow).layer is not None

    def _borrow(self, caller: CellModule, called: CellModule) -> None:
        """Record a call of a module that isn't below the caller, and order the branch that contains it first."""
        if caller in called.lineage() or called in caller.borrowed:
            return
        caller.borrowed[called] = unique_name(called.name, [*caller.children, *caller.state, *caller.borrowed.values()])
        around, (branch, *_) = common(caller, called), called.lineage()[len(common(caller, called).lineage()) :]
        if not around.is_numbered:
            around.children = {branch.name: branch, **around.children}
