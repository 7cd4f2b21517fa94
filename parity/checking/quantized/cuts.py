"""A quantized file and its float network, cut where values are rounded, so that each part is judged alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from ...sides.float_operators import INTEGER
from .float_form import FloatForm
from .quantizers import Quantizer

COMPUTED = " (as computed)"
PASSING = frozenset({"Identity", "Transpose"})


@dataclass(frozen=True)
class Cut:
    """A tensor that is compared, and from whose value in the float network the next part starts.

    Attributes:
        tensor: its name in the float network.
        codes: the name of its codes in the file, or of the tensor itself where the file doesn't round it.
        quantizer: its quantizer; None where the file doesn't round it.
        bounds: range outside which its values don't matter.
    """

    tensor: str
    codes: str
    quantizer: Quantizer | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def fed(self) -> str:
        """The name, in the float network, of the tensor that the next part takes."""
        return self.tensor if self.quantizer is None else self.codes


class Cuts:
    """Where a file is cut: at its quantizers, and behind operators with rounded weights whose results aren't rounded.

    Attributes:
        cuts: the tensors that are compared.
        outputs: names of outputs of the network that are compared, and lie behind the last cut.
    """

    def __init__(self, form: FloatForm, quantized: onnx.ModelProto) -> None:
        self.form = form
        self.quantized = quantized
        of_file = {name: node for node in quantized.graph.node for name in node.output}
        self.cuts = [
            Cut(tensor.tensor, tensor.codes, tensor.quantizer, tensor.bounds)
            for tensor in form.quantized
            if tensor.quantizer.scale.size
        ]
        chains = _Chains(form, of_file)
        outputs = {value.name for value in quantized.graph.output}
        rounded = {cut.tensor for cut in self.cuts}
        for node in chains.nodes_with_weights():
            for name in filter(None, node.output):
                result = chains.numbers_behind(name)
                if result is not None and not chains.reaches(result, rounded) and result not in outputs:
                    self.cuts.append(Cut(result, form.name_in_file(result)))
        covered = {cut.tensor for cut in self.cuts}
        self.outputs = [value.name for value in form.model.graph.output if value.name not in covered]

    def of_file(self) -> onnx.ModelProto:
        """Return the file with its codes, and the cut tensors, as inputs and outputs."""
        kinds = {
            cut.codes: TensorProto.FLOAT
            if cut.quantizer is None
            else helper.np_dtype_to_tensor_dtype(cut.quantizer.dtype)
            for cut in self.cuts
        }
        return _cut(self.quantized, kinds)

    def of_form(self) -> onnx.ModelProto:
        """Return the float network with the values that are rounded, weights too, as inputs."""
        fed = {cut.fed for cut in self.cuts} | {codes for _, codes in self.form.dynamic}
        result = _cut(self.form.model, dict.fromkeys(fed, TensorProto.FLOAT))
        graph, names = result.graph, {weight.tensor for weight in self.form.weights if weight.tensor}
        initializers = [tensor for tensor in graph.initializer if tensor.name not in names]
        nodes = [node for node in graph.node if node.op_type != "Constant" or node.output[0] not in names]
        names_in_graph = {tensor.name for tensor in graph.initializer} | {
            name for node in graph.node for name in node.output
        }
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend(initializers)
        graph.node.extend(nodes)
        graph.input.extend(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(names & names_in_graph)
        )
        return result


def computed_name(name: str) -> str:
    """Return the name under which a cut model returns a tensor that it takes."""
    return name + COMPUTED


def _cut(model: onnx.ModelProto, kinds: Mapping[str, int]) -> onnx.ModelProto:
    """Return a model in which these tensors, of these element types, are inputs, and outputs under another name."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    produced = {name for node in graph.node for name in node.output}
    for node in graph.node:
        node.ClearField("name")  # ONNX Runtime refuses duplicates
        node.output[:] = [computed_name(name) if name in kinds else name for name in node.output]
    for name, kind in kinds.items():
        if name in produced:
            graph.input.append(helper.make_tensor_value_info(name, kind, None))
            graph.output.append(helper.make_tensor_value_info(computed_name(name), kind, None))
    kept = [value for value in graph.value_info if value.name not in kinds]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return result


class _Chains:
    """The ways from operators with rounded weights on, through nodes whose result has one use."""

    def __init__(self, form: FloatForm, of_file: Mapping[str, NodeProto]) -> None:
        self.form = form
        self._of_file = of_file
        self._uses: dict[str, list[NodeProto]] = {}
        for node in form.model.graph.node:
            for name in node.input:
                self._uses.setdefault(name, []).append(node)

    def nodes_with_weights(self) -> Iterable[NodeProto]:
        """Yield the nodes of the float network that take a rounded weight."""
        names = {weight.tensor or f"{weight.stored}, as numbers" for weight in self.form.weights}
        for node in self.form.model.graph.node:
            if names.intersection(node.input):
                if node.op_type in PASSING:
                    names |= set(node.output)
                else:
                    yield node

    def numbers_behind(self, name: str) -> str | None:
        """Return the first tensor from here on that the file holds as numbers; None if there is none."""
        while self._in_codes(name):
            following = self._following(name)
            if following is None:
                return None
            name = following
        return name

    def _in_codes(self, name: str) -> bool:
        """Whether the file holds codes, or a product of codes, instead of the numbers."""
        in_file = self.form.name_in_file(name)
        if in_file in self.form.codes:
            return True
        node = self._of_file.get(in_file)
        while node is not None and node.op_type == "Cast":
            node = self._of_file.get(node.input[0])
        return node is not None and (node.domain, node.op_type) in INTEGER

    def reaches(self, name: str, tensors: Collection[str]) -> bool:
        """Whether the tensor, or one that is computed from it alone, is among these."""
        following: str | None = name
        while following is not None and following not in tensors:
            following = self._following(following)
        return following is not None

    def _following(self, name: str) -> str | None:
        uses = self._uses.get(name, [])
        return uses[0].output[0] if len(uses) == 1 else None
