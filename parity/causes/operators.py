"""Operators whose settings differ, in the words of the model: one of them may be many nodes of a program.

An ONNX node or a function of torch, such as Resize, GRU or `torch.std`, is read as several nodes. Where both sides have
the operator with other settings, all of its nodes are one change, named by these settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...converter.capture.tables.sampling import INTERPOLATIONS, PADDINGS
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Source
from ...runtime.visible import visible_name
from ..results.cause import Cause
from .descriptions import in_places, place_of_node, plain, spelling
from .differences import Comparison, Difference

ABSENT = object()
"""The value of a setting that an operator doesn't have."""
INTERPOLATE = "interpolate"
"""The function of torch that its operators for upsampling belong to."""
GRID_SAMPLE = "grid_sample"
SAMPLERS = ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "cudnn_grid_sampler")
"""The function of torch that samples images, and its operators."""
FUNCTIONS = {"im2col": "unfold", "col2im": "fold", "affine_grid_generator": "affine_grid"}
"""Functions of `torch.nn.functional`, by the operators of ATen that they call."""
_UPSAMPLING = re.compile(r"_?upsample_(nearest_exact|nearest|linear|bilinear|trilinear|bicubic)\d?d?(_aa)?")


@dataclass(frozen=True)
class Operator:
    """A call of an operator that a model has.

    Attributes:
        name: its name, as `interpolate` or `Resize`.
        settings: its settings by name.
        source: where it is called.
        nodes: the nodes that compute it.
    """

    name: str
    settings: Mapping[str, Any]
    source: Source
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class OperatorChange:
    """Operators whose settings differ in the same way.

    Attributes:
        cause: the change in words, without its proof.
        differences: all differences of the two programs in the nodes of these operators.
        is_one_node: whether each of them is a single node.
    """

    cause: Cause
    differences: list[Difference]
    is_one_node: bool


def operators(program: Program) -> list[Operator]:
    """Return the operators of a program whose settings are known, in their order."""
    nodes: dict[int, list[Node]] = {}
    for node in program.nodes:
        if node.source is not None and node.source.settings and node.op != "boundary":
            nodes.setdefault(id(node.source), []).append(node)
    return [_operator(own) for own in nodes.values()]


def _operator(nodes: list[Node]) -> Operator:
    source = nodes[0].source
    assert source is not None
    settings = dict(source.settings)
    if not source.operator.startswith("aten."):
        return Operator(source.operator.partition(" ")[0], settings, source, tuple(nodes))
    name = source.operator.split(".")[1]
    if upsampling := _UPSAMPLING.fullmatch(name):
        mode, antialias = upsampling.groups()
        settings = {k: v for k, v in settings.items() if k in ("align_corners", "scale_factors")}
        known = {"mode": mode.replace("_", "-"), "antialias": antialias is not None, "align_corners": False}
        return Operator(INTERPOLATE, known | settings, source, tuple(nodes))
    if name in SAMPLERS:
        mode, padding = INTERPOLATIONS[settings["interpolation_mode"]], PADDINGS[settings["padding_mode"]]
        settings = {"mode": mode, "padding_mode": padding, "align_corners": settings["align_corners"]}
        return Operator(GRID_SAMPLE, settings, source, tuple(nodes))
    if name.startswith("adaptive_avg_pool") and f"{INTERPOLATE}(" in source.text:
        return Operator(INTERPOLATE, {"mode": "area", "antialias": False, "align_corners": False}, source, tuple(nodes))
    return Operator(FUNCTIONS.get(name, name), settings, source, tuple(nodes))


def operator_changes(comparison: Comparison) -> Iterator[OperatorChange]:
    """Yield the operators with other settings: those that differ alike together.

    An operator is left out where attributes of a single node are all that differs: these say the same.
    """
    alike: dict[tuple[Any, ...], list[tuple[Operator, Operator]]] = {}
    for reference, candidate in _pairs(comparison):
        names = dict.fromkeys([*reference.settings, *candidate.settings])
        values = [(name, reference.settings.get(name, ABSENT), candidate.settings.get(name, ABSENT)) for name in names]
        ranks = {value.type.rank for node in reference.nodes for value in (*node.inputs, *node.outputs) if value}
        different = tuple((name, a, b) for name, a, b in values if not _are_same(a, b, ranks))
        if different:
            alike.setdefault((reference.name, different), []).append((reference, candidate))
    for (name, different), pairs in alike.items():
        differences = _differences_of(pairs, comparison)
        is_one_node = all(None not in d.pair for d in differences) and len({d.pair for d in differences}) == len(pairs)
        if differences and (name == INTERPOLATE or not is_one_node or any(d.kind != "attribute" for d in differences)):
            yield OperatorChange(in_places(_cause(name, different, pairs[0][1]), len(pairs)), differences, is_one_node)


def _are_same(a: Any, b: Any, ranks: Collection[int]) -> bool:
    """Whether two values of a setting mean the same: an axis may be counted from either end."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_are_same(x, y, ranks) for x, y in zip(a, b, strict=True))
    is_axis = type(a) is int and type(b) is int and min(a, b) < 0 <= max(a, b)
    return (a is not ABSENT and b is not ABSENT and a == b) or (is_axis and abs(a - b) in ranks)


def _pairs(comparison: Comparison) -> Iterator[tuple[Operator, Operator]]:
    """Yield the operators of one name of both sides, in their order, where both have as many."""
    by_name: tuple[dict[str, list[Operator]], dict[str, list[Operator]]] = ({}, {})
    for side, cell in enumerate((comparison.reference, comparison.candidate)):
        for operator in operators(cell.program):
            by_name[side].setdefault(operator.name, []).append(operator)
    for name, reference_operators in by_name[0].items():
        candidate_operators = by_name[1].get(name, [])
        if len(reference_operators) == len(candidate_operators):
            yield from zip(reference_operators, candidate_operators, strict=True)


def _differences_of(pairs: list[tuple[Operator, Operator]], comparison: Comparison) -> list[Difference]:
    """Return the differences in the nodes of some operators, and in none but these."""
    own = {id(node) for pair in pairs for operator in pair for node in operator.nodes}

    def nodes_of(d: Difference) -> list[Node]:
        i, j = d.pair
        if i is None or j is None:
            return [*d.nodes, *d.other_nodes]
        return [comparison.reference.program.nodes[i], comparison.candidate.program.nodes[j]]

    return [d for d in comparison.differences if (nodes := nodes_of(d)) and all(id(node) in own for node in nodes)]


def settings_in_words(different: Sequence[tuple[str, Any, Any]]) -> tuple[str, str]:
    """Return settings that differ in words, and what to do; each has its name and the values of both sides."""
    parts = [
        f"{visible_name(n)} is {_spelled(b)} in the candidate, {_spelled(a)} in the reference" for n, a, b in different
    ]
    fixes = [f"{visible_name(n)}={_spelled(a)}" for n, a, _ in different if a is not ABSENT]
    return "; ".join(parts), f"use {', '.join(fixes)}" if fixes else ""


def _cause(name: str, different: tuple[tuple[str, Any, Any], ...], candidate: Operator) -> Cause:
    """Return the cause in the words of the settings."""
    words, fix = settings_in_words(different)
    setting, reference_value, candidate_value = different[0]
    operator = visible_name(name.removeprefix("native_"))
    return Cause(
        "attribute", f"in {operator}, {words}", fix,
        op=name, attribute=setting, reference_value=None if reference_value is ABSENT else plain(reference_value),
        candidate_value=None if candidate_value is ABSENT else plain(candidate_value),
        source=place_of_node(candidate.nodes[0]),
    )  # fmt: skip


def _spelled(value: Any) -> str:
    return "not given" if value is ABSENT else spelling(value)
