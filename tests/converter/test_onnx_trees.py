"""Ensembles of trees, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cellbridge.converter import from_onnx, to_torch
from cellbridge.runtime import compile as compiled
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import CellbridgeError

FEATURES = 4
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def listed(rng: np.random.Generator, modes: list[str], trees: int = 3, splits: int = 6) -> dict[str, Any]:
    """The attributes `nodes_...` of random trees, whose nodes stand in an order of their own."""
    rows: list[tuple[Any, ...]] = []
    for tree in range(trees):
        leaves, following, made = [0], 1, {}
        for _ in range(splits):
            node = leaves.pop(int(rng.integers(len(leaves))))
            mode, tracks = modes[int(rng.integers(len(modes)))], int(rng.integers(2))
            value = float(np.float32(rng.integers(-2, 3)) / 2)
            made[node] = (tree, node, mode, int(rng.integers(FEATURES)), value, following, following + 1, tracks)
            leaves += [following, following + 1]
            following += 2
        made |= {node: (tree, node, "LEAF", 0, 0.0, 0, 0, 0) for node in leaves}
        rows += [made[0], *(made[node] for node in sorted(made, reverse=True) if node)]
    names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    columns = list(zip(*rows, strict=True))
    nodes = {f"nodes_{name}": list(column) for name, column in zip(names, columns, strict=False)}
    return {**nodes, "nodes_missing_value_tracks_true": list(columns[7])}


def weights(rng: np.random.Generator, nodes: dict[str, Any], results: list[int], kind: str, scale: Any) -> Any:
    """The attributes of what leaves add, to each of the results."""
    node_modes = zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True)
    rows = [(t, n, r) for t, n, mode in node_modes if mode == "LEAF" for r in results]
    amounts = [float(x) for x in np.float32(scale(rng, len(rows)))]
    return {
        f"{kind}_treeids": [t for t, _, _ in rows],
        f"{kind}_nodeids": [n for _, n, _ in rows],
        f"{kind}_ids": [r for _, _, r in rows],
        f"{kind}_weights": amounts,
    }


def model(operator: str, attributes: dict[str, Any], version: int = 3, kind: int = TensorProto.FLOAT) -> Any:
    outputs = ["y", "z"] if operator == "TreeEnsembleClassifier" else ["y"]
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    made = [helper.make_tensor_value_info("y", TensorProto.INT64 if len(outputs) > 1 else kind, None)]
    if version < 5 and len(outputs) == 1:
        made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    made += [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)][: len(outputs) - 1]
    graph = helper.make_graph([node], "net", [helper.make_tensor_value_info("x", kind, ["n", FEATURES])], made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def inputs(rng: np.random.Generator, dtype: Any = np.float32) -> Any:
    """Numbers of which many are those that trees compare with."""
    return (rng.integers(-6, 7, (40, FEATURES)) / 4 if np.dtype(dtype).kind == "f" else
            rng.integers(-3, 4, (40, FEATURES))).astype(dtype)  # fmt: skip


def agrees(made: onnx.ModelProto, x: Any, atol: float = 1e-6) -> None:
    """A model gives in the interpreter, compiled and in torch what the file gives in ONNX Runtime."""
    import torch

    expected_outputs = [*run_model(made, {"x": x}).values()]
    program = from_onnx(made)
    results = [program(x), compiled(program)(x), to_torch(program)(torch.from_numpy(x))]
    for outputs in results:
        for y, expected in zip(outputs if isinstance(outputs, tuple) else (outputs,), expected_outputs, strict=True):
            assert np.asarray(y).dtype == expected.dtype
            np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-5, atol=atol)


def normal(rng: np.random.Generator, size: int) -> Any:
    return rng.standard_normal(size)


def positive(rng: np.random.Generator, size: int) -> Any:
    return rng.uniform(0.05, 0.3, size)


@pytest.mark.parametrize("modes", [*([mode] for mode in MODES), MODES], ids=[*MODES, "mixed"])
def test_comparisons_and_what_is_missing(modes: list[str]) -> None:
    rng = np.random.default_rng(0)
    nodes = listed(rng, modes)
    x = inputs(rng)
    x[::5, 1] = np.nan
    for results in ([0], [0, 1, 2]):
        attributes = {**nodes, **weights(rng, nodes, results, "target", normal), "n_targets": len(results)}
        agrees(model("TreeEnsembleRegressor", attributes), x)
        del attributes["nodes_missing_value_tracks_true"]
        agrees(model("TreeEnsembleRegressor", attributes, 1), x)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("results", [[0], [0, 2]])
@pytest.mark.parametrize("base", [False, True])
def test_aggregates(aggregate: str, results: list[int], base: bool) -> None:
    rng = np.random.default_rng(1)
    nodes, count = listed(rng, ["BRANCH_LEQ"]), results[-1] + 1
    attributes = {**nodes, **weights(rng, nodes, results, "target", normal), "n_targets": count}
    attributes |= {"base_values": [0.5, -1.0, 2.0][:count]} if base else {}
    agrees(model("TreeEnsembleRegressor", {**attributes, "aggregate_function": aggregate}), inputs(rng))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("count", [1, 3])
def test_transforms(transform: str, count: int) -> None:
    rng = np.random.default_rng(2)
    nodes = listed(rng, ["BRANCH_LEQ"])
    attributes = {**nodes, **weights(rng, nodes, list(range(count)), "target", positive), "n_targets": count}
    made = model("TreeEnsembleRegressor", {**attributes, "post_transform": transform})
    agrees(made, inputs(rng), 1e-4 if transform == "PROBIT" else 1e-6)


def test_dtypes() -> None:
    rng = np.random.default_rng(3)
    nodes = listed(rng, ["BRANCH_LT"])
    attributes = {**nodes, **weights(rng, nodes, [0, 1], "target", normal), "n_targets": 2}
    agrees(model("TreeEnsembleRegressor", attributes, kind=TensorProto.DOUBLE), inputs(rng, np.float64))
    x = inputs(rng, np.int64)  # for which ONNX Runtime has no kernel
    whole = model("TreeEnsembleRegressor", attributes, kind=TensorProto.INT64)
    (expected,) = run_model(model("TreeEnsembleRegressor", attributes), {"x": x.astype(np.float32)}).values()
    np.testing.assert_allclose(from_onnx(whole)(x), expected, rtol=1e-5)
    for name in ("nodes_values", "target_weights"):
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name), np.float64))
    agrees(model("TreeEnsembleRegressor", attributes, kind=TensorProto.DOUBLE), inputs(rng, np.float64))


@pytest.mark.every(2)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("scale", [normal, positive])
@pytest.mark.parametrize(("labels", "ids"), [([7, 3, 11], [0, 1, 2]), ([5, 9], [0, 1]), ([5, 9], [0]), ([5, 9], [1])])
@pytest.mark.parametrize("base", [0, 1, 3])
def test_classes(transform: str, scale: Any, labels: list[int], ids: list[int], base: int) -> None:
    if base not in (0, {2: 1, 3: 3}[len(labels)]):
        return
    rng = np.random.default_rng(4)
    nodes = listed(rng, ["BRANCH_LEQ"])
    attributes = {**nodes, **weights(rng, nodes, ids, "class", scale), "classlabels_int64s": labels}
    attributes |= {"base_values": [0.1, -0.2, 0.3][:base]} if base else {}
    agrees(model("TreeEnsembleClassifier", {**attributes, "post_transform": transform}), inputs(rng))


def test_classes_of_which_some_leaves_have_no_score() -> None:
    rng = np.random.default_rng(5)
    nodes = listed(rng, ["BRANCH_LEQ"], trees=2)
    attributes = {**weights(rng, nodes, [0, 1, 2], "class", normal), **nodes, "classlabels_int64s": [4, 5, 6]}
    kept = [i for i in range(len(attributes["class_ids"])) if i % 2]
    attributes |= {name: [value[i] for i in kept] for name, value in attributes.items() if name.startswith("class_")}
    agrees(model("TreeEnsembleClassifier", attributes), inputs(rng))


def numbered(rng: np.random.Generator, dtype: Any = np.float32, **more: Any) -> dict[str, Any]:
    """Two trees in the form of TreeEnsemble: one of two nodes and three leaves, and one of one node."""
    splits = np.array([0.5, -0.25, 0.0], dtype)
    return {
        "tree_roots": [0, 2],
        "nodes_modes": numpy_helper.from_array(np.array([0, 3, 1], np.uint8)),
        "nodes_splits": numpy_helper.from_array(splits),
        "nodes_featureids": [0, 2, 1],
        "nodes_truenodeids": [1, 1, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [0, 2, 4],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": numpy_helper.from_array(rng.standard_normal(5).astype(dtype)),
        "n_targets": 2,
        **more,
    }


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
@pytest.mark.parametrize("transform", [0, 1, 2])
def test_numbered_trees(dtype: Any, aggregate: int, transform: int) -> None:
    rng = np.random.default_rng(6)
    more = {"aggregate_function": aggregate, "post_transform": transform}
    x, kind = inputs(rng, dtype), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    agrees(model("TreeEnsemble", numbered(rng, dtype, **more), 5, kind), x)
    x[::3, 0] = np.nan
    tracks = {"nodes_missing_value_tracks_true": [1, 0, 1]}
    agrees(model("TreeEnsemble", numbered(rng, dtype, **more, **tracks), 5, kind), x)


def test_membership() -> None:
    rng = np.random.default_rng(7)
    values = np.array([1.0, np.nan, 1.0, np.nan], np.float32)  # ONNX Runtime takes whole ones only
    more = {
        "nodes_modes": numpy_helper.from_array(np.array([6, 6, 1], np.uint8)),
        "membership_values": numpy_helper.from_array(values),
    }
    agrees(model("TreeEnsemble", numbered(rng, **more), 5), inputs(rng))


def test_a_tree_that_is_a_leaf() -> None:
    rng = np.random.default_rng(8)
    more = {"nodes_truenodeids": [1, 1, 3], "nodes_falsenodeids": [0, 2, 3]}
    agrees(model("TreeEnsemble", numbered(rng, **more), 5), inputs(rng))


CHAIN = 3000


def chain(rng: np.random.Generator) -> dict[str, Any]:
    """A tree of that many nodes, each below the one before."""
    more = {name: [*range(CHAIN)] for name in ("nodes_falsenodeids",)}
    return numbered(
        rng,
        tree_roots=[0],
        nodes_modes=numpy_helper.from_array(np.zeros(CHAIN, np.uint8)),
        nodes_splits=numpy_helper.from_array(np.zeros(CHAIN, np.float32)),
        nodes_featureids=[0] * CHAIN,
        nodes_truenodeids=[*range(1, CHAIN), 0],
        nodes_trueleafs=[0] * (CHAIN - 1) + [1],
        nodes_falseleafs=[1] * CHAIN,
        leaf_targetids=[0] * CHAIN,
        leaf_weights=numpy_helper.from_array(np.ones(CHAIN, np.float32)),
        **more,
    )


HOSTILE_NUMBERED = {
    "a circle": ({"nodes_truenodeids": [0, 1, 3]}, "more than one path"),
    "trees that meet": ({"nodes_truenodeids": [2, 1, 3]}, "more than one path"),
    "a node that isn't there": ({"nodes_truenodeids": [2**40, 1, 3]}, "node 1099511627776 is out of range"),
    "a leaf that isn't there": ({"nodes_falsenodeids": [-1, 2, 4]}, "leaf -1 is out of range: there are 5"),
    "a root that isn't there": ({"tree_roots": [0, 3]}, "root 3"),
    "a feature that isn't there": ({"nodes_featureids": [0, 4, 1]}, "feature 4, but the input has 4"),
    "a feature before all": ({"nodes_featureids": [0, -1, 1]}, "feature -1"),
    "a target that isn't there": ({"leaf_targetids": [0, 1, 0, 2, 0]}, "result 2 is out of range: there are 2"),
    "no target": ({"n_targets": 0}, "one result or more"),
    "targets without end": ({"n_targets": 2**62}, "8 nodes with"),
    "other lengths": ({"nodes_featureids": [0, 1]}, "different lengths"),
    "lengths of leaves": ({"leaf_targetids": [0, 1]}, "different lengths"),
    "no such aggregate": ({"aggregate_function": 4}, "no aggregate_function 4"),
    "no such transform": ({"post_transform": -1}, "no post_transform -1"),
    "no such mode": ({"nodes_modes": numpy_helper.from_array(np.array([0, 7, 1], np.uint8))}, "mode 7"),
    "sets that aren't there": ({"nodes_modes": numpy_helper.from_array(np.array([0, 6, 1], np.uint8))}, "membership"),
    "a tree as deep as a well": (chain(np.random.default_rng(9)), "operations for a tree of this depth"),
}


@pytest.mark.parametrize("name", HOSTILE_NUMBERED)
def test_numbered_trees_that_are_none(name: str) -> None:
    changed, message = HOSTILE_NUMBERED[name]
    with pytest.raises(CellbridgeError, match=message):
        from_onnx(model("TreeEnsemble", numbered(np.random.default_rng(0), **changed), 5))


def first_of(name: str, value: Any) -> Any:
    return lambda a: a[name].__setitem__(0, value)


HOSTILE_LISTED = {
    "a circle": (first_of("nodes_truenodeids", 0), "more than one path"),
    "a node that isn't there": (first_of("nodes_truenodeids", 2**62), "leads to node 4611686018427387904"),
    "two of one number": (lambda a: a["nodes_nodeids"].__setitem__(1, 0), "same number"),
    "trees apart": (lambda a: a["nodes_treeids"].__setitem__(2, 9), "aren't contiguous"),
    "no such mode": (first_of("nodes_modes", "BRANCH_\x1b[2J"), "a node must be"),
    "other lengths": (lambda a: a["nodes_modes"].pop(), "different lengths"),
    "lengths of leaves": (lambda a: a["target_ids"].pop(), "different lengths"),
    "a weight of a branch": (first_of("target_nodeids", 0), "isn't a leaf"),
    "a target that isn't there": (first_of("target_ids", -(2**63)), "is out of range: there are 1"),
    "a feature that isn't there": (first_of("nodes_featureids", 9), "feature 9"),
    "no such aggregate": (lambda a: a.update(aggregate_function="MEAN"), "aggregate_function must be"),
    "no such transform": (lambda a: a.update(post_transform="RELU", n_targets=2), "'RELU'"),
    "base values": (lambda a: a.update(base_values=[1.0, 2.0]), "2 base values"),
    "an attribute of its own": (lambda a: a.update(nodes_colours=[1]), "nodes_colours|colours"),
}


@pytest.mark.parametrize("name", HOSTILE_LISTED)
def test_listed_trees_that_are_none(name: str) -> None:
    rng = np.random.default_rng(0)
    nodes = listed(rng, ["BRANCH_LEQ"])
    attributes = {**nodes, **weights(rng, nodes, [0], "target", normal)}
    change, message = HOSTILE_LISTED[name]
    change(attributes)
    with pytest.raises(CellbridgeError, match=message):
        from_onnx(model("TreeEnsembleRegressor", attributes))
