"""ONNX models that are changed, and changes that know what a model consists of."""

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

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper
from onnx.backend.test.case.node import collect_testcases

from cellbridge.converter import from_onnx, to_onnx
from cellbridge.converter.onnx_in.model.protos import graphs_of
from tests.converter.test_onnx_in import model
from tests.mutation import NUMBERS, TEXTS, changed_json, changed_proto

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
    """A chain of functions, each calling the next so many times."""
    made = model("net (float[3] x) => (float[3] y) { y = Relu(x) }")
    made.opset_import.append(helper.make_opsetid("f", 1))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    for i in range(count):
        name, domain = (f"f{i + 1}", "f") if i < count - 1 else (last, "f" if last != "Relu" else "")
        values = ["x", *(f"a{k}" for k in range(calls))]
        nodes = [helper.make_node(name, [values[k]], [values[k + 1]], domain=domain) for k in range(calls)]
        made.functions.append(helper.make_function("f", f"f{i}", ["x"], [values[-1]], nodes, opsets))
    made.graph.node[0].CopyFrom(helper.make_node("f0", ["x"], ["y"], domain="f"))
    return made


@functools.cache
def bases() -> tuple[bytes, ...]:
    """Sizes, branches, loops, functions, layers, our own metadata; and onnx's own tests, which use every operator."""
    weights = np.ones(3, np.float32)
    own = ModelProto()
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(from_onnx(model(BRANCHES, w=weights)), f"{folder}/m.onnx")
        own.CopyFrom(onnx.load(f"{folder}/m.onnx"))
    rng = np.random.default_rng(0)
    kernel, w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32), rng.standard_normal((4, 16)).astype(np.float32)
    made = [
        model(BRANCHES, w=weights), model(LOOPS, m=np.array(3), n=np.array(0)), functions(3, 2), own,
        model(LAYERS, kernel=kernel, w=w, rest=np.array([-1])),
    ]  # fmt: skip
    return tuple(m.SerializeToString() for m in made)


@functools.cache
def backend_models() -> tuple[bytes, ...]:
    """The small models of onnx's own tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes what it expects with overflows and divisions by zero
        found = [case.model for case in collect_testcases(None) if case.model is not None]
    return tuple(m.SerializeToString() for m in found if m.ByteSize() < 50_000)


def changed_model(base: bytes, random: Random, folder: Path) -> ModelProto:
    """A model with a few changes; files that it refers to are in the folder."""
    made = ModelProto.FromString(base)
    if made.metadata_props and random.random() < 0.3:
        entry = random.choice(made.metadata_props)
        with contextlib.suppress(json.JSONDecodeError):  # not all of them are JSON
            entry.value = json.dumps(changed_json(json.loads(entry.value), random))
    for _ in range(random.randint(0, 2)):
        random.choice(CHANGES)(made, random, folder)
    if random.random() < 0.7:
        changed_proto(made, random)
    return made


def _graph(made: ModelProto, random: Random) -> GraphProto:
    return random.choice(graphs_of(made.graph))


def _name(made: ModelProto, random: Random, folder: Path) -> None:
    """Another name for a value, wherever it stands, or for a node, the graph, a function, a dimension."""
    graph = _graph(made, random)
    new = random.choice(NAMES)
    values = sorted({name for node in graph.node for name in (*node.input, *node.output) if name})
    if random.random() < 0.4 or not values:
        named: list[Any] = [graph, *graph.node, *graph.initializer, *made.functions]
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


def _operator(made: ModelProto, random: Random, folder: Path) -> None:
    """Another operator for a node: one of onnx's, or a function of the model, be it the one around it."""
    nodes = [*_graph(made, random).node, *(node for function in made.functions for node in function.node)]
    if not nodes:
        return
    node = random.choice(nodes)
    if made.functions and random.random() < 0.5:
        function = random.choice(made.functions)
        node.op_type, node.domain = function.name, function.domain
    else:
        node.op_type = random.choice(_operators())


@functools.cache
def _operators() -> tuple[str, ...]:
    return tuple(sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}))


def _integers(made: ModelProto, random: Random, folder: Path) -> None:
    """An integer attribute at an extreme: one that is there, or any other of the operator's schema."""
    nodes = list(_graph(made, random).node)
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


def _shape(made: ModelProto, random: Random, folder: Path) -> None:
    """Other sizes, or another element type, of an input or a stored tensor."""
    graph = _graph(made, random)
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


def _external(made: ModelProto, random: Random, folder: Path) -> None:
    """Data in a file beside the model, which may be too short; or not there."""
    tensors = [tensor for tensor in made.graph.initializer if tensor.raw_data]
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


def _raw(made: ModelProto, random: Random, folder: Path) -> None:
    """More or fewer bytes of data."""
    tensors = list(made.graph.initializer)
    if tensors:
        tensor = random.choice(tensors)
        tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)] + bytes(random.randrange(9))


def _sparse(made: ModelProto, random: Random, folder: Path) -> None:
    """A sparse tensor for a stored one."""
    if not made.graph.initializer:
        return
    name = random.choice(made.graph.initializer).name
    places = [random.choice(NUMBERS) for _ in range(random.randint(1, 3))]
    values = helper.make_tensor(name, TensorProto.FLOAT, [len(places)], [1.0] * len(places))
    indices = helper.make_tensor("i", TensorProto.INT64, [len(places)], places)
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, indices, [random.choice(NUMBERS) for _ in range(random.randint(0, 2))])
    )


def _nested(made: ModelProto, random: Random, folder: Path) -> None:
    """A graph within an attribute of one of its nodes, a few times over."""
    for _ in range(random.randint(1, 4)):
        nodes = list(made.graph.node)
        if not nodes or made.ByteSize() > 20_000:
            return
        node = random.choice(nodes)
        inner = GraphProto()
        inner.CopyFrom(made.graph)
        holders = [item for item in node.attribute if item.HasField("g")]
        holder = random.choice(holders) if holders else node.attribute.add(name="body", type=5)
        holder.g.CopyFrom(inner)


def _twice(made: ModelProto, random: Random, folder: Path) -> None:
    """A node, a stored tensor or a function that is there twice."""
    graph = _graph(made, random)
    items: Any = random.choice([x for x in (graph.node, graph.initializer, made.functions, graph.input) if x] or [[]])
    if items:
        items.append(random.choice(items))


CHANGES: tuple[Callable[[ModelProto, Random, Path], None], ...] = (
    _name, _operator, _integers, _shape, _external, _raw, _sparse, _nested, _twice,
)  # fmt: skip
