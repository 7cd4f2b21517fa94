"""ONNX models to mutate, and mutations specific to their structure."""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference.ops import op_pool_common

from cellbridge.converter import from_onnx, to_onnx
from cellbridge.converter.onnx_in.model.protos import graphs_of
from tests.converter.test_onnx_in import model
from tests.mutation import NUMBERS, TEXTS, mutate_json, mutate_proto

DATA = "w.bin"  # external data
NAMES = (
    *TEXTS,
    "/a./relu",
    "a\0b",
    "\x1b[2J",
    "../../x",
    "w\", open('OWNED', 'w')) if 1 else (\"",
    "\n",
    "‮",
    "self",
    "x" * 5000,
)

BRANCHES = """net (float[n, 3] x, bool c) => (float[n, 3] y, int64[m, 2] k) {
    s = Shape(x)
    t = Relu(x)
    r = If(c) <then_branch = a () => (float[n, 3] p) { p = Neg(t) },
               else_branch = b () => (float[n, 3] q) { q = Add(t, w) }>
    y = Reshape(r, s)
    i = NonZero(y)
    k = Transpose<perm = [1, 0]>(i)
}"""
LOOPS = """net (float[3] x) => (float[3] y) {
    s = SequenceConstruct(x)
    r = Loop(m, , s) <body = outer (int64 i, bool c, seq(float[3]) a) => (bool c2, seq(float[3]) z) {
        c2 = Identity(c)
        z = Loop(m, , a) <body = inner (int64 k, bool d, seq(float[3]) e) => (bool d2, seq(float[3]) f) {
            d2 = Identity(d)
            f = Identity(e)
        } >
    } >
    y = SequenceAt(r, n)
}"""
LAYERS = """net (float[batch, 3, 9, 9] x) => (float[batch, 4] y) {
    a = Conv<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x, kernel)
    b = MaxPool<kernel_shape = [2, 2]>(a)
    s = Shape<start = 0, end = 1>(b)
    e = Concat<axis = 0>(s, rest)
    d = Reshape(b, e)
    y = Gemm<transB = 1>(d, w)
}"""


def functions(count: int, calls: int, last: str = "Relu") -> ModelProto:
    """Return a chain of functions, each calling the next `calls` times."""
    proto = model("net (float[3] x) => (float[3] y) { y = Relu(x) }")
    proto.opset_import.append(helper.make_opsetid("f", 1))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    for i in range(count):
        name, domain = (f"f{i + 1}", "f") if i < count - 1 else (last, "f" if last != "Relu" else "")
        values = ["x", *(f"a{k}" for k in range(calls))]
        nodes = [helper.make_node(name, [values[k]], [values[k + 1]], domain=domain) for k in range(calls)]
        proto.functions.append(helper.make_function("f", f"f{i}", ["x"], [values[-1]], nodes, opsets))
    proto.graph.node[0].CopyFrom(helper.make_node("f0", ["x"], ["y"], domain="f"))
    return proto


@functools.cache
def bases() -> tuple[bytes, ...]:
    """Return models with sizes, branches, loops, functions, layers and the exporter's own metadata."""
    weights = np.ones(3, np.float32)
    exported = ModelProto()
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(from_onnx(model(BRANCHES, w=weights)), f"{folder}/m.onnx")
        exported.CopyFrom(onnx.load(f"{folder}/m.onnx"))
    rng = np.random.default_rng(0)
    kernel, w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32), rng.standard_normal((4, 16)).astype(np.float32)
    proto = [
        model(BRANCHES, w=weights), model(LOOPS, m=np.array(3), n=np.array(0)), functions(3, 2), exported,
        model(LAYERS, kernel=kernel, w=w, rest=np.array([-1])),
    ]  # fmt: skip
    return tuple(m.SerializeToString() for m in proto)


TYPED = """net ({t}[n, 3] x, {t}[3] b) => ({t}[m, 6] y, {t}[3] s, bool[n, 3] c, float[n, 3] f) {{
    a = Add(x, b)
    d = Mul(a, w)
    e = Concat<axis = 1>(d, x)
    y = Reshape(e, sizes)
    c = Less(x, b)
    z = Where(c, a, x)
    s = ReduceMax<keepdims = 0>(z, axes)
    f = Cast<to = 1>(z)
}}"""
FLOATING = """net ({t}[n, 3] x) => ({t}[n, 3] y, {t}[n, 3] z) {{
    a = MatMul(x, w)
    y = Softmax<axis = -1>(a)
    b = ReduceMean<axes = [1]>(a)
    c = Sub(a, b)
    d = Sigmoid(c)
    z = Div(c, d)
}}"""


@functools.cache
def typed_models() -> tuple[bytes, ...]:
    """Return a model for each dtype of numbers, and another one for those of floating-point numbers."""
    dtypes = {
        "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
        "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "float16": np.float16, "float": np.float32,
        "double": np.float64,
    }  # fmt: skip
    protos = []
    for name, dtype in dtypes.items():
        weight = np.full(3, 3, dtype)
        protos.append(model(TYPED.format(t=name), w=weight, sizes=np.array([-1, 6]), axes=np.array([0])))
        if np.issubdtype(dtype, np.floating):
            protos.append(model(FLOATING.format(t=name), w=np.eye(3, dtype=dtype) / 2))
    return tuple(proto.SerializeToString() for proto in protos)


@functools.cache
def backend_models() -> tuple[bytes, ...]:
    """Return the small models of onnx's own tests.

    The expected results of pooling take seconds, window by window, and no mutant is compared with them.
    """
    with warnings.catch_warnings(), patch.object(op_pool_common, "pool", _pool_to_zeros):
        warnings.simplefilter("ignore")  # onnx computes its expected results with overflows and divisions by zero
        models = [case.model for case in collect_testcases(None) if case.model is not None]
    return tuple(m.SerializeToString() for m in models if m.ByteSize() < 50_000)


def _pool_to_zeros(
    padded: Any, x_shape: list[int], kernel: list[int], strides: list[int], out_shape: list[int], *_: Any, **__: Any
) -> Any:
    return np.zeros((*x_shape[:2], *out_shape), padded.dtype)


def mutate_model(base: bytes, random: Random, folder: Path) -> ModelProto:
    """Return a model with a few mutations; files that it refers to are in the folder."""
    proto = ModelProto.FromString(base)
    if proto.metadata_props and random.random() < 0.3:
        entry = random.choice(proto.metadata_props)
        with contextlib.suppress(json.JSONDecodeError):  # not all of them are JSON
            entry.value = json.dumps(mutate_json(json.loads(entry.value), random))
    for _ in range(random.randint(0, 2)):
        random.choice(CHANGES)(proto, random, folder)
    if random.random() < 0.7:
        mutate_proto(proto, random)
    return proto


def _graph(proto: ModelProto, random: Random) -> GraphProto:
    return random.choice(graphs_of(proto.graph))


def _name(proto: ModelProto, random: Random, folder: Path) -> None:
    """Rename a value everywhere, or a node, the graph, a function or a tensor."""
    graph = _graph(proto, random)
    new = random.choice(NAMES)
    values = sorted({name for node in graph.node for name in (*node.input, *node.output) if name})
    if random.random() < 0.4 or not values:
        named: list[Any] = [graph, *graph.node, *graph.initializer, *proto.functions]
        random.choice(named).name = new
        return
    old = random.choice(values)
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        if info.name == old:
            info.name = new


def _operator(proto: ModelProto, random: Random, folder: Path) -> None:
    """Replace a node's operator by one of onnx's, or by a function of the model, possibly the enclosing one."""
    nodes = [*_graph(proto, random).node, *(node for function in proto.functions for node in function.node)]
    if not nodes:
        return
    node = random.choice(nodes)
    if proto.functions and random.random() < 0.5:
        function = random.choice(proto.functions)
        node.op_type, node.domain = function.name, function.domain
    else:
        node.op_type = random.choice(_operators())


@functools.cache
def _operators() -> tuple[str, ...]:
    return tuple(sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}))


def _integers(proto: ModelProto, random: Random, folder: Path) -> None:
    """Set an integer attribute of the operator's schema to an extreme value."""
    nodes = list(_graph(proto, random).node)
    if not nodes:
        return
    node = random.choice(nodes)
    try:
        schema = onnx.defs.get_schema(node.op_type, 18, node.domain)
    except onnx.defs.SchemaError:
        return
    attributes: Any = schema.attributes
    names = [name for name, item in attributes.items() if int(item.type.value) in (2, 7)]
    if not names:
        return
    name = random.choice(names)
    for i, item in enumerate(node.attribute):
        if item.name == name:
            del node.attribute[i]
            break
    single = int(attributes[name].type.value) == 2
    value: Any = random.choice(NUMBERS) if single else [random.choice(NUMBERS) for _ in range(random.randint(0, 5))]
    node.attribute.append(helper.make_attribute(name, value, attr_type=2 if single else 7))


def _shape(proto: ModelProto, random: Random, folder: Path) -> None:
    """Change sizes or element type of an input or a stored tensor."""
    graph = _graph(proto, random)
    if graph.initializer and random.random() < 0.5:
        tensor = random.choice(graph.initializer)
        if random.random() < 0.5:
            tensor.data_type = random.randrange(30)
        else:
            del tensor.dims[:]
            tensor.dims.extend(random.choice(NUMBERS) for _ in range(random.randint(0, 4)))
    elif graph.input:
        declared = random.choice(graph.input).type.tensor_type
        if random.random() < 0.3:
            declared.elem_type = random.randrange(30)
        elif declared.shape.dim:
            dim = random.choice(declared.shape.dim)
            if random.random() < 0.5:
                dim.dim_value = random.choice(NUMBERS)
            else:
                dim.dim_param = random.choice(NAMES)


def _external(proto: ModelProto, random: Random, folder: Path) -> None:
    """Move data to a file beside the model, which may be too short or missing."""
    tensors = [tensor for tensor in proto.graph.initializer if tensor.raw_data]
    if not tensors:
        return
    tensor = random.choice(tensors)
    data = tensor.raw_data
    (folder / DATA).write_bytes(data[: random.choice([len(data), len(data), len(data) // 2, 0])])
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    location = random.choice([DATA, DATA, DATA, *NAMES])
    tensor.external_data.add(key="location", value=location)
    for key in ("offset", "length"):
        if random.random() < 0.4:
            tensor.external_data.add(key=key, value=str(random.choice([*NUMBERS, len(data), "9" * 30, "-", "1e3"])))


def _raw(proto: ModelProto, random: Random, folder: Path) -> None:
    """Add or remove bytes of data."""
    tensors = list(proto.graph.initializer)
    if tensors:
        tensor = random.choice(tensors)
        tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)] + bytes(random.randrange(9))


def _sparse(proto: ModelProto, random: Random, folder: Path) -> None:
    """Add a sparse tensor with the name of a stored one."""
    if not proto.graph.initializer:
        return
    name = random.choice(proto.graph.initializer).name
    places = [random.choice(NUMBERS) for _ in range(random.randint(1, 3))]
    values = helper.make_tensor(name, TensorProto.FLOAT, [len(places)], [1.0] * len(places))
    indices = helper.make_tensor("i", TensorProto.INT64, [len(places)], places)
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, indices, [random.choice(NUMBERS) for _ in range(random.randint(0, 2))])
    )


def _nested(proto: ModelProto, random: Random, folder: Path) -> None:
    """Nest the graph in an attribute of one of its nodes, a few times."""
    for _ in range(random.randint(1, 4)):
        nodes = list(proto.graph.node)
        if not nodes or proto.ByteSize() > 20_000:
            return
        node = random.choice(nodes)
        inner = GraphProto()
        inner.CopyFrom(proto.graph)
        holders = [item for item in node.attribute if item.HasField("g")]
        holder = random.choice(holders) if holders else node.attribute.add(name="body", type=5)
        holder.g.CopyFrom(inner)


def _twice(proto: ModelProto, random: Random, folder: Path) -> None:
    """Duplicate a node, a stored tensor, a function or an input."""
    graph = _graph(proto, random)
    items: Any = random.choice([x for x in (graph.node, graph.initializer, proto.functions, graph.input) if x] or [[]])
    if items:
        items.append(random.choice(items))


CHANGES: tuple[Callable[[ModelProto, Random, Path], None], ...] = (
    _name, _operator, _integers, _shape, _external, _raw, _sparse, _nested, _twice,
)  # fmt: skip
