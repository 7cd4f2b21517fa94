"""Ensembles of decision trees as tables: the comparison and successors of each node, and the weights of leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ...unsupported import Unsupported
from .table import require_few

Array = np.ndarray[Any, Any]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
MEMBER, LEAF = 6, 7
SMALL, MAX_TABLE_ELEMENTS = 2**20, 2**26  # sizes of a table that is always allowed, and of the largest table
SPARSEST = 1000  # between the two, the largest ratio of elements in a table to elements in the file


@dataclass(frozen=True)
class Forest:
    """Trees, whose nodes are rows of these tables.

    Attributes:
        roots: the root node of each tree.
        features: the feature that a node compares.
        modes: the comparison, an index of `MODES`.
        splits: the value that it compares with.
        yes: the next node if the comparison holds; a leaf leads to itself.
        no: the next node if it doesn't.
        follows_missing: whether the comparison holds for NaN.
        weights: the weight of each node for each result; shape (nodes, results).
        weighted: whether a node has a weight.
        members: a row of values for each node that tests membership, padded with NaN; empty if there are none.
        member_rows: the row of each node.
        depth: the largest number of comparisons.
    """

    roots: Array
    features: Array
    modes: Array
    splits: Array
    yes: Array
    no: Array
    follows_missing: Array
    weights: Array
    weighted: Array
    members: Array
    member_rows: Array
    depth: int


def forest(
    *,
    roots: Array,
    features: Array,
    modes: Array,
    splits: Array,
    yes: Array,
    no: Array,
    follows_missing: Array,
    rows: Sequence[int],
    results: Sequence[int],
    amounts: Array,
    count: int,
    membership: Array | None = None,
) -> Forest:
    """Build the tables of trees; check that the nodes form trees.

    Args:
        roots, features, modes, splits, yes, no, follows_missing: as in `Forest`, unchecked.
        rows: the nodes with weights.
        results: the result of each weight.
        amounts: the weights.
        count: the number of results.
        membership: the values that nodes test for, node by node; NaN ends the values of a node.

    Raises:
        ShapeError: a number is out of range, or the nodes have a cycle or a common successor.
        Unsupported: the tables are too large.
    """
    size = len(modes)
    if count < 1:
        raise ShapeError(f"needed one result or more, given {count}")
    if size * count > min(MAX_TABLE_ELEMENTS, max(SMALL, SPARSEST * amounts.size)):
        raise Unsupported(f"{size} nodes with {count} results each")
    for what, numbers, limit in (("node", roots, size), ("node", yes, size), ("node", no, size)):
        _require_below(numbers, limit, what)
    _require_below(np.asarray(features), 2**31, "feature")
    targets = np.asarray(results, np.int64)
    _require_below(targets, count, "result")
    weights, weighted = np.zeros((size, count), amounts.dtype), np.zeros((size, count), bool)
    np.add.at(weights, (np.asarray(rows, np.int64), targets), amounts)
    weighted[np.asarray(rows, np.int64), targets] = True
    depth = _depth(roots, modes, yes, no)
    members, member_rows = _members(modes, membership)
    return Forest(
        roots, features, modes, splits, yes, no, follows_missing, weights, weighted, members, member_rows, depth
    )


def _require_below(numbers: Array, limit: int, what: str) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= limit)]
    if wrong.size:
        raise ShapeError(f"{what} {wrong.flat[0]} is out of range: there are {limit}")


def _depth(roots: Array, modes: Array, yes: Array, no: Array) -> int:
    """The number of comparisons on the longest path from a root to a leaf."""
    reached = np.zeros(len(modes), np.int64)
    current, depth = roots[modes[roots] != LEAF], 0
    while current.size:
        np.add.at(reached, current, 1)
        if (reached > 1).any():
            raise ShapeError(f"node {int(np.argmax(reached > 1))} has more than one path from a root: needed trees")
        successors = np.concatenate([yes[current], no[current]])
        current, depth = successors[modes[successors] != LEAF], depth + 1
        require_few(8 * depth, "operations for a tree of this depth")
    return depth


def _members(modes: Array, membership: Array | None) -> tuple[Array, Array]:
    """A table of the values that each node tests for, and the row of each node in it."""
    member_nodes = np.flatnonzero(modes == MEMBER)
    rows = np.zeros(len(modes), np.int64)
    if not member_nodes.size:
        return np.zeros((0, 0), np.float32), rows
    values = np.zeros(0, np.float32) if membership is None else membership.reshape(-1)
    ends = np.flatnonzero(np.isnan(values.astype(np.float64)))
    if ends.size != member_nodes.size:
        raise ShapeError(f"{member_nodes.size} nodes test membership, but there are values for {ends.size}")
    sets = np.split(values, ends + 1)[: ends.size]
    longest = max(len(members) for members in sets)
    if member_nodes.size * longest > min(MAX_TABLE_ELEMENTS, max(SMALL, SPARSEST * values.size)):
        raise Unsupported(f"{member_nodes.size} sets of up to {longest} values")
    table = np.full((member_nodes.size, longest), np.nan, values.dtype)
    for row, members in enumerate(sets):
        table[row, : len(members)] = members
    rows[member_nodes] = np.arange(member_nodes.size)
    return table, rows


def forest_from_lists(nodes: Mapping[str, Any], leaves: Mapping[str, Any], count: int) -> Forest:
    """The trees of TreeEnsembleRegressor and TreeEnsembleClassifier: nodes are named by tree and number.

    Args:
        nodes: the attributes `nodes_...` by the rest of their names, lists or None.
        leaves: the attributes of weights by the rest of their names: `treeids`, `nodeids`, `ids`, `weights`.
        count: the number of results.
    """
    trees, numbers, names = nodes["treeids"], nodes["nodeids"], nodes["modes"]
    values = _numbers(nodes["values"])
    lengths = {name: len(nodes[name]) for name in ("treeids", "nodeids", "modes", "featureids", "truenodeids")}
    lengths |= {"falsenodeids": len(nodes["falsenodeids"]), "values": values.size}
    _require_equal_lengths("nodes", lengths)
    if nodes["missing_value_tracks_true"]:
        _require_equal_lengths(
            "nodes", {**lengths, "missing_value_tracks_true": len(nodes["missing_value_tracks_true"])}
        )
    amounts = _numbers(leaves["weights"])
    of_leaves = {name: len(leaves[name]) for name in ("treeids", "nodeids", "ids")} | {"weights": amounts.size}
    _require_equal_lengths("leaves", of_leaves)
    if unknown := sorted(set(names) - {*MODES} | {"BRANCH_MEMBER"} & set(names)):
        raise ShapeError(f"a node must be {', '.join((*MODES[:MEMBER], MODES[LEAF]))}, given {unknown[0]!r}")
    size = len(trees)
    rows_by_key = {key: row for row, key in enumerate(zip(trees, numbers, strict=True))}
    if len(rows_by_key) < size:
        raise ShapeError("two nodes of a tree have the same number")
    firsts = [row for row in range(size) if row == 0 or trees[row] != trees[row - 1]]
    if len(firsts) != len(set(trees)):
        raise Unsupported("trees whose nodes aren't contiguous")
    modes = np.array([MODES.index(name) for name in names], np.int64)
    branches = modes != LEAF

    def successors(ids: Sequence[int]) -> Array:
        successor_rows = np.arange(size)
        for row in np.flatnonzero(branches).tolist():
            key = (trees[row], ids[row])
            if key not in rows_by_key:
                raise ShapeError(
                    f"node {numbers[row]} of tree {trees[row]} leads to node {ids[row]}, which doesn't exist"
                )
            successor_rows[row] = rows_by_key[key]
        return successor_rows

    rows = []
    for key in zip(leaves["treeids"], leaves["nodeids"], strict=True):
        if key not in rows_by_key or branches[rows_by_key[key]]:
            raise ShapeError(f"node {key[1]} of tree {key[0]} has a weight, but isn't a leaf")
        rows.append(rows_by_key[key])
    return forest(
        roots=np.array(firsts, np.int64),
        features=np.where(branches, np.asarray(nodes["featureids"], np.int64), 0),
        modes=modes,
        splits=values,
        yes=successors(nodes["truenodeids"]),
        no=successors(nodes["falsenodeids"]),
        follows_missing=np.array(nodes["missing_value_tracks_true"] or [0] * size, np.int64) != 0,
        rows=rows,
        results=leaves["ids"],
        amounts=amounts,
        count=count,
    )


def _numbers(numbers: Any) -> Array:
    """The numbers of an attribute; a list becomes float32."""
    return numbers.reshape(-1) if isinstance(numbers, np.ndarray) else np.asarray(numbers, np.float32)


def _require_equal_lengths(what: str, lengths: Mapping[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ShapeError(f"the attributes of {what} have different lengths: {shown}")


def forest_from_numbers(
    nodes: Mapping[str, Any], leaves: Mapping[str, Any], roots: Sequence[int], count: int
) -> Forest:
    """The trees of TreeEnsemble: nodes and leaves are numbered.

    Args:
        nodes: `modes`, `splits`, `featureids`, `truenodeids`, `falsenodeids`, `trueleafs`, `falseleafs`,
            `missing_value_tracks_true` (or nothing), `membership` (or None).
        leaves: `targetids`, `weights`.
        roots: the root nodes.
        count: the number of results.
    """
    modes, splits = np.asarray(nodes["modes"]).reshape(-1).astype(np.int64), _numbers(nodes["splits"])
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    lengths = {"modes": modes.size, "splits": splits.size} | {name: len(nodes[name]) for name in names}
    tracks = nodes["missing_value_tracks_true"]
    _require_equal_lengths("nodes", lengths | ({"missing_value_tracks_true": len(tracks)} if tracks else {}))
    amounts, targets = _numbers(leaves["weights"]), leaves["targetids"]
    _require_equal_lengths("leaves", {"targetids": len(targets), "weights": amounts.size})
    _require_below(modes, MEMBER + 1, "mode")
    inner, ends = modes.size, amounts.size
    starts = np.asarray(roots, np.int64)
    _require_below(starts, inner, "root")

    def successors(name: str) -> Array:
        ids, leads = np.asarray(nodes[f"{name}nodeids"], np.int64), np.asarray(nodes[f"{name}leafs"]) != 0
        _require_below(ids[~leads], inner, "node")
        _require_below(ids[leads], ends, "leaf")
        return np.concatenate([np.where(leads, ids + inner, ids), inner + np.arange(ends)])

    yes, no = successors("true"), successors("false")
    alone = (yes[starts] == no[starts]) & (yes[starts] >= inner)  # a tree of a single leaf
    more = np.zeros(ends, np.int64)
    return forest(
        roots=np.where(alone, yes[starts], starts),
        features=np.concatenate([np.asarray(nodes["featureids"], np.int64), more]),
        modes=np.concatenate([modes, more + LEAF]),
        splits=np.concatenate([splits, more.astype(splits.dtype)]),
        yes=yes,
        no=no,
        follows_missing=np.concatenate([np.asarray(tracks or [0] * inner, np.int64) != 0, more != 0]),
        rows=range(inner, inner + ends),
        results=targets,
        amounts=amounts,
        count=count,
        membership=nodes["membership"],
    )
