"""Decision trees of the domain ai.onnx.ml: all trees are walked at once, level by level."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import FLOAT32, FLOAT64, INT64, is_floating
from ....runtime.ops import comparison, elementwise, indexing, reduction, shaping, slicing, sorting
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ..model import protos
from ..model.values import known_tensor
from .context import Context
from .forests import LEAF, MEMBER, MODES, Forest, forest_from_lists, forest_from_numbers
from .ml import DOMAIN, apply_post_transform
from .table import cast, onnx

COMPARISONS = {
    "BRANCH_LEQ": comparison.less_equal,
    "BRANCH_LT": comparison.less,
    "BRANCH_GTE": comparison.greater_equal,
    "BRANCH_GT": comparison.greater,
    "BRANCH_EQ": comparison.equal,
    "BRANCH_NEQ": comparison.not_equal,
}
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
# ONNX Runtime's numbering; the specification has SOFTMAX before LOGISTIC
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


@onnx("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(
    context: Context, X: SymbolicTensor, *, aggregate_function: str = "SUM", base_values: Any = (),
    base_values_as_tensor: Any = None, n_targets: int = 1, post_transform: str = "NONE", target_ids: Any = (),
    target_nodeids: Any = (), target_treeids: Any = (), target_weights: Any = (), target_weights_as_tensor: Any = None,
    **nodes: Any,
) -> Any:  # fmt: skip
    """TreeEnsembleRegressor-1..3(X) -> Y"""
    weights = _tensor(context, target_weights_as_tensor, target_weights)
    leaves = {"treeids": target_treeids, "nodeids": target_nodeids, "ids": target_ids, "weights": weights}
    trees = forest_from_lists(_nodes(context, nodes), leaves, n_targets)
    base = _tensor(context, base_values_as_tensor, base_values)
    return cast(_regress(context, X, trees, aggregate_function, np.asarray(base), post_transform), FLOAT32)


@onnx("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(
    context: Context, X: SymbolicTensor, *, aggregate_function: int = 1, leaf_targetids: Any, leaf_weights: Any,
    membership_values: Any = None, n_targets: int = 1, nodes_falseleafs: Any, nodes_falsenodeids: Any,
    nodes_featureids: Any, nodes_hitrates: Any = None, nodes_missing_value_tracks_true: Any = (), nodes_modes: Any,
    nodes_splits: Any, nodes_trueleafs: Any, nodes_truenodeids: Any, post_transform: int = 0, tree_roots: Any,
) -> Any:  # fmt: skip
    """TreeEnsemble-5(X) -> Y"""
    if not (0 <= aggregate_function < len(AGGREGATES) and 0 <= post_transform < len(TRANSFORMS)):
        raise ShapeError(f"there is no aggregate_function {aggregate_function} or no post_transform {post_transform}")
    nodes = {
        "modes": _tensor(context, nodes_modes), "splits": _tensor(context, nodes_splits),
        "featureids": nodes_featureids, "truenodeids": nodes_truenodeids, "falsenodeids": nodes_falsenodeids,
        "trueleafs": nodes_trueleafs, "falseleafs": nodes_falseleafs,
        "missing_value_tracks_true": nodes_missing_value_tracks_true,
        "membership": None if membership_values is None else _tensor(context, membership_values),
    }  # fmt: skip
    leaves = {"targetids": leaf_targetids, "weights": _tensor(context, leaf_weights)}
    trees = forest_from_numbers(nodes, leaves, tree_roots, n_targets)
    scores = _regress(context, X, trees, AGGREGATES[aggregate_function], np.zeros(0), TRANSFORMS[post_transform])
    return cast(scores, X.dtype)


@onnx("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(
    context: Context, X: SymbolicTensor, *, base_values: Any = (), base_values_as_tensor: Any = None,
    class_ids: Any = (),
    class_nodeids: Any = (), class_treeids: Any = (), class_weights: Any = (), class_weights_as_tensor: Any = None,
    classlabels_int64s: Any = (), classlabels_strings: Any = (), post_transform: str = "NONE", **nodes: Any,
) -> Any:  # fmt: skip
    """TreeEnsembleClassifier-1..3(X) -> Y, Z"""
    if classlabels_strings:
        raise Unsupported("classes that are strings: tensors hold numbers only")
    labels, count = np.asarray(classlabels_int64s, INT64), len(classlabels_int64s)
    weights = np.asarray(_tensor(context, class_weights_as_tensor, class_weights))
    leaves = {"treeids": class_treeids, "nodeids": class_nodeids, "ids": class_ids, "weights": weights}
    trees = forest_from_lists(_nodes(context, nodes), leaves, count)
    base = np.asarray(_tensor(context, base_values_as_tensor, base_values)).reshape(-1)
    amounts, present = _amounts(context, X, trees)
    scores = reduction.reduce_sum(amounts, axes=(1,))
    if count == 2:
        second, both = _classify_two(scores, trees, base, bool((weights >= 0).all()), post_transform)
        if trees.weighted.any(axis=0).all():
            labels = np.arange(2)  # if both classes have scores, ONNX Runtime returns 0 and 1 instead of the labels
        return indexing.take(labels, cast(second, INT64), axis=0), cast(both, FLOAT32)
    if count < 2 or base.size not in (0, count):
        raise Unsupported(f"{count} classes with {base.size} base values")
    if base.size:
        scores = scores + base.astype(scores.dtype)
    else:  # a class without a score is never chosen
        lowest = np.asarray(-np.inf, scores.dtype)
        best = elementwise.where(reduction.reduce_any(present, axes=(1,)), scores, lowest)
    index = sorting.argmax(scores if base.size else best, axis=1)
    return indexing.take(labels, index, axis=0), cast(apply_post_transform(scores, post_transform), FLOAT32)


def _classify_two(scores: Any, trees: Forest, base: Any, positive: bool, transform: str) -> tuple[Any, Any]:
    """Whether a sample belongs to the second of two classes, and the scores of both, as in ONNX Runtime.

    If only the first class has scores, they are used for the second, and the first's are computed from them. If only
    the second class has scores, the first's are 0.
    """
    if base.size > 1 or transform == "PROBIT":
        raise Unsupported(f"two classes with {base.size} base values and post_transform {transform!r}")
    first, second = (slicing.slice(scores, starts=(i,), stops=(i + 1,), steps=(1,), axes=(1,)) for i in (0, 1))
    has_weights = [bool(trees.weighted[:, i].any()) for i in (0, 1)]
    if base.size and has_weights[0]:
        first = first + base.astype(scores.dtype)
    limit = np.asarray(0.5 if positive and has_weights != [True, True] else 0, scores.dtype)
    chosen = shaping.reshape(comparison.greater(second if has_weights[1] else first, limit), shape=(scores.shape[0],))
    if has_weights[1]:
        if not np.all(trees.weighted[trees.modes == LEAF, 1]):
            raise Unsupported("two classes, the second of which has a score in some leaves only")
        return chosen, apply_post_transform(slicing.concat(first, second, axis=1), transform)
    if transform == "LOGISTIC":
        return chosen, elementwise.sigmoid(slicing.concat(-first, first, axis=1))
    other = np.asarray(1, scores.dtype) - first if positive else -first
    return chosen, slicing.concat(other, first, axis=1)


def _regress(context: Context, x: SymbolicTensor, trees: Forest, aggregate: str, base: Any, transform: str) -> Any:
    count = trees.weights.shape[1]
    if aggregate not in AGGREGATES:
        raise ShapeError(f"aggregate_function must be one of {', '.join(AGGREGATES)}, given {aggregate!r}")
    if base.size not in (0, count):
        raise Unsupported(f"{base.size} base values for {count} targets")
    amounts, present = _amounts(context, x, trees)
    if aggregate in ("SUM", "AVERAGE"):
        scores = reduction.reduce_sum(amounts, axes=(1,))
        if aggregate == "AVERAGE":
            scores = scores / float(len(trees.roots))
    else:
        worst = np.asarray(np.inf if aggregate == "MIN" else -np.inf, amounts.dtype)
        reduce = reduction.reduce_min if aggregate == "MIN" else reduction.reduce_max
        extreme = reduce(elementwise.where(present, amounts, worst), axes=(1,))
        zero = np.asarray(0, amounts.dtype)
        scores = elementwise.where(reduction.reduce_any(present, axes=(1,)), extreme, zero)
    if base.size:  # only where there is a score
        more, none = base.reshape(-1).astype(scores.dtype), np.zeros(count, scores.dtype)
        scores = scores + elementwise.where(reduction.reduce_any(present, axes=(1,)), more, none)
    # for one target, ONNX Runtime applies only PROBIT
    return apply_post_transform(scores, transform if count > 1 or transform == "PROBIT" else "NONE")


def _amounts(context: Context, x: SymbolicTensor, trees: Forest) -> tuple[Any, Any]:
    """The weight that each tree gives each result, and whether it gives one; shape (batch, trees, results)."""
    if x.ndim != 2:
        raise Unsupported(f"an input of {x.ndim} dimensions instead of (batch, features)")
    width, needed = x.shape[1], int(trees.features.max(initial=0))
    if isinstance(width, int) and needed >= width:
        raise ShapeError(f"a node compares feature {needed}, but the input has {width} features")
    dtype = FLOAT64 if x.dtype == FLOAT64 else FLOAT32
    x = cast(x, dtype)
    roots = context.tensor(known_tensor(trees.roots.reshape(1, -1)))
    at: Any = shaping.expand(roots, shape=(x.shape[0], len(trees.roots)))
    for _ in range(trees.depth):
        value = indexing.gather(x, indexing.take(trees.features, at, axis=0), axis=1)
        holds = _compare(value, at, trees, dtype)
        at = elementwise.where(holds, indexing.take(trees.yes, at, axis=0), indexing.take(trees.no, at, axis=0))
    amounts = indexing.take(trees.weights.astype(dtype), at, axis=0)
    return amounts, indexing.take(trees.weighted, at, axis=0)


def _compare(value: Any, at: Any, trees: Forest, dtype: Any) -> Any:
    """Whether the comparison of each tree's current node holds."""
    split = indexing.take(trees.splits.astype(dtype), at, axis=0)
    modes = [mode for mode in np.unique(trees.modes).tolist() if mode != LEAF]
    holds: Any = None
    for mode in modes:
        if mode == MEMBER:
            sets = indexing.take(trees.members.astype(dtype), indexing.take(trees.member_rows, at, axis=0), axis=0)
            same = comparison.equal(shaping.reshape(value, shape=(*value.shape, 1)), sets)
            result = reduction.reduce_any(same, axes=(2,))
        else:
            result = COMPARISONS[MODES[mode]](value, split)
        if holds is not None:
            applies = comparison.equal(indexing.take(trees.modes, at, axis=0), np.asarray(mode, INT64))
            result = elementwise.where(applies, result, holds)
        holds = result
    if trees.follows_missing.any():
        follows = indexing.take(trees.follows_missing, at, axis=0)
        holds = comparison.logical_or(holds, comparison.logical_and(comparison.isnan(value), follows))
    return holds


def _nodes(context: Context, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes `nodes_...` by the rest of their names."""
    known_names = {
        "featureids",
        "modes",
        "nodeids",
        "treeids",
        "truenodeids",
        "falsenodeids",
        "values",
        "values_as_tensor",
    }
    known_names |= {"missing_value_tracks_true", "hitrates", "hitrates_as_tensor"}
    nodes = {name.removeprefix("nodes_"): value for name, value in attributes.items()}
    if unknown := sorted(nodes.keys() - known_names):
        raise Unsupported(f"attribute {unknown[0]!r}")
    values = _tensor(context, nodes.get("values_as_tensor"), nodes.get("values", ()))
    return {**{name: nodes.get(name, ()) for name in known_names}, "values": values}


def _tensor(context: Context, proto: Any, otherwise: Any = ()) -> Any:
    """The numbers of a tensor attribute, or of the list that replaces it."""
    if proto is None:
        return otherwise
    array = protos.array_of(proto, context.folder, "attribute")
    if not is_floating(array.dtype) and array.dtype.kind not in "iu":
        raise ShapeError(f"needed numbers, given {array.dtype.name}")
    return array
