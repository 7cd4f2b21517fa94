"""The table of known layers, and the argument of a recognizer: a call of a module without submodules."""

from __future__ import annotations

from collections.abc import Callable

from ....runtime.ir.flow import Flow
from ....runtime.ir.types import FLOAT32, Node, Value
from ....runtime.registration import register_as
from ..forms.table import Attributes, UnsupportedForm, dtype_name
from ..text.expressions import fill_holes
from .network import CellModule, CellNetwork, Layer

Recognizer = Callable[["Leaf"], "Layer | None"]

LAYERS: dict[str, Recognizer] = {}


def layer(*ops: str) -> Callable[[Recognizer], Recognizer]:
    """Register a recognizer for layers whose main op is one of `ops`; a registered name raises."""
    return register_as(LAYERS, ops)


class Leaf(Attributes):
    """One call of a module without submodules.

    Attributes:
        node: its main op.
        nodes: all its nodes.
        inputs: its input tensors.
        outputs: its output tensors.
    """

    def __init__(self, network: CellNetwork, module: CellModule, flow: Flow, node: Node) -> None:
        super().__init__(network.literals, node)
        self.network = network
        self.module = module
        self.nodes = network.inner(flow)
        self.inputs = [entry.outputs[0] for entry in flow.entries]
        self.outputs: list[Value] = [value for end in flow.exits for value in end.inputs if value is not None]

    def maps_input(self) -> bool:
        """Whether the call is one op from its only input (the first operand) to its only output (the first)."""
        return (
            self.nodes == [self.node]
            and self.inputs == [self.node.inputs[0]]
            and self.outputs == [self.node.outputs[0]]
        )

    def parameter_attributes(self, **operands: int) -> dict[str, str] | None:
        """The module's attributes by names of the layer's Parameters, each of which is an operand.

        None if the module has other parameters, or an operand isn't a parameter or buffer of the module.
        """
        names: dict[str, str] = {}
        for name, i in operands.items():
            value = self.node.inputs[i] if i < len(self.node.inputs) else None
            if value is not None:
                attributes = [attribute for module, attribute in self.network.owners(value) if module is self.module]
                if not attributes:
                    return None
                names[name] = attributes[0]
        trained = {a for a, name in self.module.state.items() if name in self.network.program.parameters}
        return names if trained <= set(names.values()) else None

    def parameter_dtype(self, i: int = 1) -> str | None:
        """The dtype of the layer's Parameters; None for float32."""
        value = self.node.inputs[i]
        return None if value is None or value.dtype == FLOAT32 else dtype_name(value.dtype)


def known_layer(network: CellNetwork, module: CellModule) -> Layer | None:
    """The known layer that represents a module in all its calls; None if there is none."""
    if not module.calls or module.children:
        return None
    layers = [_recognize_call(network, module, flow) for flow in module.calls]
    texts = {None if layer is None else fill_holes(layer.text, network.literals.text) for layer in layers}
    return layers[0] if len(texts) == 1 else None


def _recognize_call(network: CellNetwork, module: CellModule, flow: Flow) -> Layer | None:
    nodes = network.inner(flow)
    work = [node for node in nodes if node.op in ("lstm", "gru", "rnn", "batch_norm_train")]
    node = work[0] if work else nodes[0] if len(nodes) == 1 else None
    if not flow.number or _has_outside_uses(network, flow):
        return None  # the root's own calls aren't marked
    if not nodes:
        if (
            module.state
            or len(flow.entries) != 1
            or [e.outputs[0] for e in flow.entries] != [e.inputs[0] for e in flow.exits]
        ):
            return None
        return _identity(network, module)
    recognizer = None if node is None else LAYERS.get(node.op)
    if recognizer is None or node is None:
        return None
    try:
        return recognizer(Leaf(network, module, flow, node))
    except UnsupportedForm:
        return None


def _identity(network: CellNetwork, module: CellModule) -> Layer:
    if module.class_name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"):
        rate = "0.0" if network.program.train else "0.5"
        return Layer(f"nn.{module.class_name}(p={rate})")
    return Layer("nn.Identity()")


def _has_outside_uses(network: CellNetwork, flow: Flow) -> bool:
    """Whether values of the call other than its boundary outputs are used outside."""
    nodes = network.inner(flow)
    inside = [value for node in (*nodes, *flow.exits) for value in node.inputs]
    computed = [value for node in nodes for value in node.outputs]
    entered = [entry.outputs[0] for entry in flow.entries]
    return any(network.uses[value] > inside.count(value) for value in entered) or any(
        network.uses[value] > inside.count(value) for value in computed if value not in network.program.updates.values()
    )
