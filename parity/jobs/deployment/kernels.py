"""The nodes of a file for which ONNX Runtime has no kernel on CUDA, known without a GPU.

`kernels.json` has the kernels that a version of ONNX Runtime registers (`scripts/cuda_kernels.py`). A kernel without a
last version is for the version of the operator that it names, and not for later ones: so new operator sets lack
kernels.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import NodeProto, TensorProto

STANDARD = ("", "ai.onnx")


@functools.cache
def _table() -> dict[str, Any]:
    text = importlib.resources.files(__package__).joinpath("kernels.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def version_of_table() -> str:
    """Return the version of ONNX Runtime whose kernels are known."""
    return str(_table()["onnxruntime"])


def nodes_without_cuda(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Return the nodes that have no kernel on CUDA and one on the CPU, which runs them: type and name.

    A node without either is a function, and its parts are run.

    Args:
        model: the model, with or without its external data.
    """
    versions = {"" if opset.domain in STANDARD else opset.domain: opset.version for opset in model.opset_import}
    local = {(function.domain, function.name) for function in model.functions}
    types = _types(model)
    return [
        (node.op_type, node.name)
        for node in _nodes(model.graph)
        if node.op_type != "Constant" and (node.domain, node.op_type) not in local and _left(node, versions, types)
    ]


def _nodes(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _nodes(inner)


def _types(model: onnx.ModelProto) -> dict[str, str]:
    """Return the dtypes of tensors, as far as they are known."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except (ValueError, onnx.shape_inference.InferenceError):  # it is too large, or malformed
        graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    dtypes = {value.name: value.type.tensor_type.elem_type for value in values}
    dtypes |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return {name: TensorProto.DataType.Name(kind).lower() for name, kind in dtypes.items() if kind}


def _left(node: NodeProto, versions: Mapping[str, int], types: Mapping[str, str]) -> bool:
    domain = "" if node.domain in STANDARD else node.domain
    operator = f"{domain}:{node.op_type}" if domain else node.op_type
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        schema = None
    version = 1 if schema is None else schema.since_version
    if not any(_covers(kernel, version) for kernel in _table()["providers"]["cpu"].get(operator, [])):
        return False
    bound = {} if schema is None else _bound(node, schema, types)
    return not any(
        _covers(kernel, version) and any(_takes(constraints, bound) for constraints in kernel[2])
        for kernel in _table()["providers"]["cuda"].get(operator, [])
    )


def _covers(kernel: list[Any], version: int) -> bool:
    first, last = kernel[:2]
    return bool(first == version or first <= version <= last)


def _bound(node: NodeProto, schema: onnx.defs.OpSchema, types: Mapping[str, str]) -> dict[str, str]:
    """Return the dtypes of a node by the names of its schema's type parameters."""
    bound: dict[str, str] = {}
    for formal, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for index, name in enumerate(names):
            if name in types and formal:
                bound.setdefault(formal[min(index, len(formal) - 1)].type_str, types[name])
    return bound


def _takes(constraints: Mapping[str, list[str]], bound: Mapping[str, str]) -> bool:
    return all(bound.get(name, types[0]) in types for name, types in constraints.items() if types)
