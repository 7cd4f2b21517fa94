"""The code of each module: its children, Parameters and constants, and its construct."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.ir.types import FLOAT32, Value
from ..structure.interfaces import interfaces
from .classes import Body, Classes
from .construct import Construct, ConstructText
from .forms.table import dtype_name
from .layers import known_layer
from .layers.network import CellModule, CellNetwork, common
from .signature import signature_of, signature_of_root
from .text.expressions import attribute_of, call, elements, fill_holes, is_attribute, number, quote, tuple_literal
from .text.helpers import HELPERS

SMALL = 64
"""Elements of the largest constant that is written as a literal; a larger one goes to the checkpoint."""


class Bodies:
    """Generates the code of the modules of a network.

    Attributes:
        helpers: names of the helper functions that the source needs.
        missing: (op, Cell, source line) of each op without a form.
    """

    def __init__(self, network: CellNetwork) -> None:
        self.network = network
        self.helpers: set[str] = set()
        self.missing: list[tuple[str, str, str]] = []
        for module in network.modules.values():
            module.layer = known_layer(network, module)
        self.interfaces = interfaces(network)
        root = signature_of_root(network.program, self.interfaces[0])
        network.name_sizes([*HELPERS, *root.names, *(p.partition("=")[0] for p in root.parameters)])
        self.constructs: dict[CellModule, list[ConstructText]] = {}
        for module in list(network.root.all())[::-1]:
            if module.layer is None and not self.is_sequence(module):
                self._construct(module)

    def _construct(self, module: CellModule) -> None:
        constructs: list[ConstructText] = []
        for flow in module.calls:
            interface = self.interfaces[flow.number]
            construct = Construct(self.network, flow, self.interfaces, self.missing)
            construct.compute()
            helpers = construct.scope.helpers
            self.helpers |= helpers
            signature = (
                signature_of(interface, self.network.size_arguments(interface), helpers)
                if flow.number
                else signature_of_root(self.network.program, interface, helpers)
            )
            constructs.append(construct.to_text(signature))
        texts = [
            fill_holes("\n".join([*construct.parameters, *construct.lines]), self.network.literals.text)
            for construct in constructs
        ]
        module.varies = len(set(texts)) > 1
        self.constructs[module] = constructs if module.varies else constructs[:1]

    def is_sequence(self, module: CellModule) -> bool:
        """Whether the module only calls its numbered children one after the other."""
        if not module.is_numbered or module.state or not module.calls or module is self.network.root:
            return False
        return all(self._is_chain(module, number) for number in (flow.number for flow in module.calls))

    def _is_chain(self, module: CellModule, number: int) -> bool:
        flow, interface = self.network.flows[number], self.interfaces[number]
        if len(interface.parameters) != 1 or len(interface.results) != 1 or interface.symbols or interface.updates:
            return False
        value = interface.parameters[0]
        children = list(module.children.values())
        if len(flow.body) != len(children):
            return False
        for part, child in zip(flow.body, children, strict=True):
            if (
                not isinstance(part, int)
                or self.network.module_of(self.network.flows[part]) is not child
                or child.varies
            ):
                return False
            inner = self.interfaces[part]
            if inner.arguments != [value] or len(inner.returned) != 1 or inner.symbols:
                return False
            value = inner.returned[0]
        return value is interface.results[0]

    # ---- classes ----

    def define(self, classes: Classes) -> None:
        """Define the classes, children before parents."""
        heights: dict[CellModule, int] = {}
        for module in list(self.network.root.all())[::-1]:
            heights[module] = 1 + max((heights[child] for child in module.children.values()), default=0)
        expressions: dict[CellModule, str] = {}
        for height in sorted(set(heights.values())):
            bodies: list[tuple[CellModule, Body]] = []
            for module in self.network.root.all():
                if heights[module] == height:
                    text = self._expression(module, expressions)
                    if text is None or module is self.network.root:
                        bodies.append((module, self._body(module, expressions)))
                    else:
                        expressions[module] = text
            expressions |= classes.add(bodies)

    def _expression(self, module: CellModule, expressions: dict[CellModule, str]) -> str | None:
        """The expression for a module that needs no class; None if it needs one."""
        if module.layer is not None:
            return module.layer.text
        if not self._is_list(module):
            return None
        children = elements([expressions[child] for child in module.children.values()])
        return f"nn.{'SequentialCell' if module.calls else 'CellList'}({children})"

    def _is_list(self, module: CellModule) -> bool:
        """Whether a module only has numbered children, as a list or a sequence."""
        if not module.is_numbered or module.state or module.constants or module is self.network.root:
            return False
        return not module.calls or self.is_sequence(module)

    def _enclosing_class(self, module: CellModule) -> CellModule:
        """The innermost module with a class that is or contains the module."""
        while module.parent is not None and (module.layer is not None or self._is_list(module)):
            module = module.parent
        return module

    def _body(self, module: CellModule, expressions: dict[CellModule, str]) -> Body:
        body = Body("nn.Cell")
        if module.is_numbered:
            body.base, body.base_arguments = (
                "nn.CellList",
                elements([expressions[child] for child in module.children.values()]),
            )
        else:
            body.init += [_assign("self", name, expressions[child]) for name, child in module.children.items()]
        body.init += [self._parameter(name, qualified) for name, qualified in module.state.items()]
        body.init += [self._constant(name, value) for name, value in module.constants.items()]
        body.init += self._ties(module) + self._borrowed_modules(module)
        if module is self.network.root:
            body.init += self._freeze()
        constructs = self.constructs.get(module, [])
        if module.varies:
            body.methods.append(
                ("def construct(self, *inputs, variant):", ['return getattr(self, f"variant_{variant}")(*inputs)'])
            )
        for i, construct in enumerate(constructs):
            name = f"variant_{i}" if module.varies else "construct"
            body.methods.append((f"def {name}({', '.join(['self', *construct.parameters])}):", construct.lines))
        return body

    def _parameter(self, name: str, qualified: str) -> str:
        program = self.network.program
        trained = program.parameters.get(qualified)
        item = trained or program.buffers[qualified]
        start = (
            "zeros"
            if trained is None
            else "normal"
            if len(item.value.shape) > 1
            else "ones"
            if "weight" in name
            else "zeros"
        )
        text = self._initializer(item.value, start, trained=trained is not None)
        return _assign("self", name, text)

    def _initializer(self, value: Value, start: str, *, trained: bool) -> str:
        shape = (
            tuple_literal([self.network.literals.hole(str(size), "size") for size in value.shape])
            if value.shape
            else "()"
        )
        dtype = [] if value.dtype == FLOAT32 else [dtype_name(value.dtype)]
        first = call("initializer", f'"{start}"', shape, *dtype).text
        return call("Parameter", first, requires_grad=None if trained else "False").text

    def _constant(self, name: str, value: Value) -> str:
        data = self.network.constants[value]
        if data.size > SMALL:
            return f"self.{name} = {self._initializer(value, 'zeros', trained=False)}"
        items = _list_literal(data.astype(value.dtype))
        return f"self.{name} = Tensor({self.network.literals.hole(items, name)}, {dtype_name(value.dtype)})"

    def _ties(self, module: CellModule) -> list[str]:
        """The lines that share a Parameter between modules, if this is the innermost class that contains them all."""
        lines = []
        for value, name in self.network.names.items():
            owners = self.network.owners(value)
            if len(owners) < 2:
                continue
            around = self._enclosing_class(common(*(owner for owner, _ in owners)))
            if around is module and name in self.network.program.parameters:
                ordered = sorted(owners, key=self._position)
                first, *others = [(o.path_from(module), o.layer_name(a)) for o, a in ordered]
                lines += [_assign(*other, attribute_of(*first)) for other in others]
        return lines

    def _borrowed_modules(self, module: CellModule) -> list[str]:
        """The lines that pass a module to another caller, if this is the innermost class that contains both."""
        return [
            f"{caller.path_from(module)}.insert_child_to_cell({quote(name)}, {called.path_from(module)})"
            for caller in module.all()
            for called, name in caller.borrowed.items()
            if self._enclosing_class(common(caller, called)) is module
        ]

    def _position(self, owner: tuple[CellModule, str]) -> int:
        return list(self.network.root.all()).index(owner[0])

    def _freeze(self) -> list[str]:
        """The lines that freeze Parameters that aren't trained."""
        parameters = self.network.program.parameters
        frozen = [name for name, parameter in parameters.items() if not parameter.trainable]
        if not frozen:
            return []
        names = self.cell_names()
        listed = ", ".join(quote(names[name]) for name in frozen)
        return [
            "parameters = self.parameters_dict()",
            f"for name in [{listed}]:\n    parameters[name].requires_grad = False",
        ]

    # ---- names of Parameters ----

    def cell_names(self) -> dict[str, str]:
        """The names of the Parameters in the source, by qualified names of parameters and buffers."""
        result: dict[str, str] = {}
        for module in self.network.root.all():
            for name, qualified in _parameter_names(module):
                result.setdefault(qualified, name)
        return result

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the generated network's Parameters, by name."""
        program = self.network.program
        result: dict[str, np.ndarray[Any, Any]] = {}
        added: set[str] = set()
        for module in self.network.root.all():
            for name, qualified in _parameter_names(module):
                if qualified not in added:
                    item = program.parameters.get(qualified) or program.buffers[qualified]
                    array = program.constant_data[item.value]
                    if module.layer is not None and module.layer.unit_axes and array.ndim == 3:
                        array = array[:, :, None]
                    result[name] = array
                    added.add(qualified)
            for attribute, value in module.constants.items():
                if self.network.constants[value].size > SMALL:
                    result[_qualified_name(module, attribute)] = program.constant_data[value]
        return result


def _parameter_names(module: CellModule) -> list[tuple[str, str]]:
    """Names of the Parameters of a generated module, each with that of its parameter or buffer in the program."""
    if module.layer is None:
        return [(_qualified_name(module, name), qualified) for name, qualified in module.state.items()]
    return [(_qualified_name(module, name), module.state[attribute]) for name, attribute in module.layer.names.items()]


def _qualified_name(module: CellModule, name: str) -> str:
    return f"{module.path}.{name}" if module.path else name


def _assign(on: str, name: str, text: str) -> str:
    return f"{on}.{name} = {text}" if is_attribute(name) else f"setattr({on}, {quote(name)}, {text})"


def _list_literal(data: np.ndarray[Any, Any]) -> str:
    return f"[{', '.join(_list_literal(row) for row in data)}]" if data.ndim else number(data[()])
