"""ONNX files that draw random numbers: the same numbers are put in the place of their draws on all sides.

Each side would draw its own numbers. A node that draws is therefore replaced by nodes that look numbers up in a table
by their position, which any side computes to the bit, at any size and in any sub-graph or function.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.inliner
from onnx import ModelProto, NodeProto, TensorProto

from ...converter.onnx_in.importing import read_model
from ...converter.onnx_in.model.inference import infer_shapes
from ...runtime.errors import UsageError
from .drawn_numbers import NumberWriter

STANDARD = ("", "ai.onnx")
DRAWING = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
MAX_NAMED = 3  # nodes that a note names

Name = tuple[str, str]
"""The operator of a node that draws, and the name of its output."""


@dataclass(frozen=True)
class SharedDraws:
    """A file whose draws are replaced.

    Attributes:
        model: the model without draws, with all of its data; None if the file draws nothing.
        notes: where it draws.
    """

    model: ModelProto | None = None
    notes: tuple[str, ...] = ()


def share_draws(*paths: str) -> list[SharedDraws]:
    """Replace the draws of files that are compared by the same numbers.

    Draws of two files are paired by the names of their outputs if these are the same, else by their order among the
    nodes of the same operator.

    Raises:
        UsageError: a file is too large, its data can't be read, or its opset can't express the numbers.
        ConversionError: a file is no ONNX model.
    """
    models = [read_model(path) for path in paths]
    places = [drawing_nodes(model) for model in models]
    by_name = len({frozenset(map(_name, nodes)) for nodes in places}) == 1
    return [
        SharedDraws(_replaced(path, _numbers(places[0] if by_name else nodes)), (_note(path, nodes),))
        if nodes else SharedDraws()
        for path, nodes in zip(paths, places, strict=True)
    ]  # fmt: skip


def drawing_nodes(model: ModelProto) -> list[NodeProto]:
    """Return the nodes that draw random numbers, those of sub-graphs and calls of functions included, in order."""
    model = _with_calls_inlined(model)
    return list(_drawing_nodes(model.graph.node, _false_tensors(model.graph)))


def _with_calls_inlined(model: ModelProto) -> ModelProto:
    """Return the model without functions if some of them draw, since each call draws its own numbers."""
    drawing = any(any(_drawing_nodes(function.node, frozenset())) for function in model.functions)
    return onnx.inliner.inline_local_functions(model) if drawing else model


def name_draws(nodes: Sequence[NodeProto]) -> str:
    """Return the nodes that draw as a text: their operators and names."""
    names = [f"{node.op_type} {node.name or _name(node)[1]}" for node in nodes]
    others = f" and {len(names) - MAX_NAMED} others" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{others}"


def _note(path: str, nodes: Sequence[NodeProto]) -> str:
    return (
        f"{path} draws random numbers ({name_draws(nodes)}): all sides were given the same numbers instead, so how "
        "they are drawn wasn't judged"
    )


def _drawing_nodes(nodes: Iterable[NodeProto], false: frozenset[str]) -> Iterator[NodeProto]:
    nodes = list(nodes)
    false |= _false_constants(nodes)
    for node in nodes:
        for graph in _graphs(node):
            yield from _drawing_nodes(graph.node, false | _false_tensors(graph))
        if _draws(node, false):
            yield node


def _graphs(node: NodeProto) -> list[onnx.GraphProto]:
    """Return the sub-graphs of a node."""
    single = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [*single, *(graph for attribute in node.attribute for graph in attribute.graphs)]


def _false_constants(nodes: Iterable[NodeProto]) -> frozenset[str]:
    constants = (node for node in nodes if node.op_type == "Constant" and node.output)
    return frozenset(node.output[0] for node in constants if any(_is_false(a.t) for a in node.attribute))


def _false_tensors(graph: onnx.GraphProto) -> frozenset[str]:
    input_names = {value.name for value in graph.input}
    return frozenset(t.name for t in graph.initializer if t.name not in input_names and _is_false(t))


def _is_false(tensor: TensorProto) -> bool:
    stored = tensor.data_location != TensorProto.EXTERNAL
    return tensor.data_type == TensorProto.BOOL and stored and not any(tensor.raw_data) and not any(tensor.int32_data)


def _draws(node: NodeProto, false: frozenset[str]) -> bool:
    """Whether a node draws; `Dropout` does unless its training mode is one of these values, which are known."""
    if node.domain not in STANDARD or not any(node.output):
        return False
    if node.op_type == "Dropout":
        return len(node.input) > 2 and bool(node.input[2]) and node.input[2] not in false
    return node.op_type in DRAWING


def _name(node: NodeProto) -> Name:
    return node.op_type, next(filter(None, node.output), "")


def _numbers(nodes: Sequence[NodeProto]) -> dict[Name, int]:
    """Number the nodes of each operator."""
    counts: Counter[str] = Counter()
    numbers = {}
    for node in nodes:
        numbers[_name(node)] = counts[node.op_type]
        counts[node.op_type] += 1
    return numbers


def _replaced(path: str, numbers: dict[Name, int]) -> ModelProto:
    """Return the model in a file, with its data, without the nodes that draw."""
    try:
        model = onnx.load(path)
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise UsageError(f"{path} draws random numbers, and its data can't be read: {error}") from error
    if model.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        raise UsageError(f"{path} draws random numbers, and is too large (2 GiB and more) for them to be replaced")
    model = _with_calls_inlined(model)
    opset = next((entry.version for entry in model.opset_import if entry.domain in STANDARD), 1)
    writer = NumberWriter(path, opset, _element_types(model))
    _replace(model.graph.node, _false_tensors(model.graph), numbers, writer, "")
    return model


def _replace(nodes: Any, false: frozenset[str], numbers: dict[Name, int], writer: NumberWriter, iteration: str) -> None:
    """Replace the nodes that draw in a list of nodes; `iteration` is the number of the loop's iteration, if any."""
    false |= _false_constants(nodes)
    replacements: list[NodeProto] = []
    for node in nodes:
        for graph in _graphs(node):
            in_loop = node.op_type == "Loop" and len(graph.input) > 0
            inner = graph.input[0].name if in_loop else iteration
            _replace(graph.node, false | _false_tensors(graph), numbers, writer, inner)
        draws = _draws(node, false)
        replacements += writer.replacement(node, numbers[_name(node)], iteration) if draws else [copy.deepcopy(node)]
    del nodes[:]
    nodes.extend(replacements)


def _element_types(model: ModelProto) -> dict[str, int]:
    """Return the element types of values, as far as onnx infers them."""
    try:
        inferred = infer_shapes(model).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        inferred = model.graph
    values = [*inferred.input, *inferred.value_info, *inferred.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return types | {tensor.name: tensor.data_type for tensor in inferred.initializer}
