"""Replace in-place operators by functional ones, as torch's decompositions do, without tracing a second time.

A second trace takes twice as long as the first. It isn't needed if no operator needs a decomposition and no tensor that
is changed in place has an alias (a view, an input, a reference in another call). Buffers may be changed: their new
values become outputs.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from .custom_backward_marks import COTANGENT, OWN_GRADIENT
from .marks import BOUNDARY
from .numbers import ELEMENT
from .tables.complex_table import COMPLEX, is_complex
from .tables.table import TABLE

_ATEN = torch.ops.aten
_SIZES = (_ATEN.sym_size.int, _ATEN.sym_numel.default, _ATEN.sym_stride.int, _ATEN.sym_storage_offset.default)
_FOR_ANY_DTYPE = (
    operator.getitem,
    *_SIZES,
    *ELEMENT,
    BOUNDARY,
    COTANGENT,
    OWN_GRADIENT,
)  # translated outside of tables
_BATCH_NORM = _ATEN.batch_norm.default
_DROPOUT = _ATEN.dropout.default


def functionalize(exported: ExportedProgram) -> bool:
    """Rewrite the graph to functional operators of the table; return False if torch must trace it again."""
    graph = exported.graph_module.graph
    rewriter = _Rewriter(_buffers_without_alias(exported))
    try:
        for node in graph.nodes:
            rewriter.copy(node)
    except _NeedsTracing:
        return False
    rewriter.graph.eliminate_dead_code()
    exported.graph_module.graph = rewriter.graph
    exported.graph_signature.output_specs[:0] = [
        OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(new.name), target) for target, new in rewriter.updates()
    ]
    return True


def _buffers_without_alias(exported: ExportedProgram) -> dict[fx.Node, str]:
    """The placeholders of buffers that share memory with no other stored tensor, with the names of the buffers."""
    placeholders = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    stored = {**exported.constants, **exported.state_dict}
    places = {name: t.untyped_storage().data_ptr() for name, t in stored.items() if isinstance(t, torch.Tensor)}
    counts = Counter(places.values())
    return {
        placeholders[spec.arg.name]: spec.target
        for spec in exported.graph_signature.input_specs
        if spec.kind is InputKind.BUFFER and spec.target is not None and spec.target in places
        if counts[places[spec.target]] == 1
    }


class _NeedsTracing(Exception):
    """Raised at a node that can't be rewritten alone."""


class _Rewriter:
    """Copies nodes into a new graph.

    Attributes:
        graph: the new graph.
        values: for each node of the old graph, the node of the new one with the current value of its tensor.
        same: for a node that is the tensor of another node (the result of an in-place operator), that other node.
        shared: nodes whose tensor may have a view or be held elsewhere; they can't be changed in place.
        buffers: the placeholders of buffers that may be changed, with the names of the buffers.
    """

    def __init__(self, buffers: Mapping[fx.Node, str]) -> None:
        self.buffers = buffers
        self.graph = fx.Graph()
        self.values: dict[fx.Node, fx.Node] = {}
        self.same: dict[fx.Node, fx.Node] = {}
        self.shared: set[fx.Node] = set()

    def copy(self, node: fx.Node) -> None:
        """Copy a node, rewritten if necessary."""
        target = node.target
        if _lacks_complex_form(node):
            raise _NeedsTracing
        if target is _ATEN.detach_.default and _node(node.args[0]).target is _ATEN.lift_fresh_copy.default:
            self._alias(node, _node(node.args[0]))  # a constant has no history
        elif node in self.buffers:
            self.values[node] = self.graph.node_copy(node)
        elif node.op == "output":
            results: Any = fx.map_arg(node.args[0], self._value)
            self.graph.output((*(value for _, value in self.updates()), *results))
        elif target is _BATCH_NORM:
            self._batch_norm(node)
        elif target is _DROPOUT and node.args[2]:
            self._first_result(node, _ATEN.native_dropout.default, node.args[:3])
        elif isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            self._in_place(node, target)
        elif node.op == "call_function" and not _is_ready(node):
            raise _NeedsTracing
        else:
            self._plain(node)

    def _value(self, node: fx.Node) -> fx.Node:
        return self.values[self.same.get(node, node)]

    def _plain(self, node: fx.Node) -> None:
        self.values[node] = self.graph.node_copy(node, self._value)
        if not _is_fresh(node):
            self.shared.update(self.same.get(n, n) for n in (node, *node.all_input_nodes))

    def _alias(self, node: fx.Node, other: fx.Node) -> None:
        """Record that both nodes are one tensor."""
        self.same[node] = self.same.get(other, other)

    def updates(self) -> list[tuple[str, fx.Node]]:
        """The buffers that were changed, each with its new value."""
        return [
            (name, self.values[node]) for node, name in self.buffers.items() if self.values[node].op != "placeholder"
        ]

    def _batch_norm(self, node: fx.Node) -> None:
        """batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)"""
        *operands, training, momentum, eps, _ = node.args
        statistics = operands[3:]
        if None in statistics or statically_known_true(node.meta["val"].numel() == 0):
            raise _NeedsTracing
        if not training:
            form = _ATEN._native_batch_norm_legit_no_training.default
            value = node.meta["val"]
            empty = value.new_empty(0)
            self._first_result(node, form, (*operands, momentum, eps), (value, empty, empty))
            return
        owners = [self.same.get(_node(statistic), _node(statistic)) for statistic in statistics]
        if any(owner not in self.buffers or owner in self.shared for owner in owners):
            raise _NeedsTracing
        form = _ATEN._native_batch_norm_legit_functional.default
        call = self._first_result(node, form, (*operands, True, momentum, eps))
        for position, owner in enumerate(owners, 3):
            self.values[owner] = self._result(node, call, position)

    def _first_result(self, node: fx.Node, form: Any, args: tuple[Any, ...], results: Any = None) -> fx.Node:
        """Put the first result of an operator in place of a node, and return the call.

        Args:
            node: the node that is replaced.
            form: the operator.
            args: its arguments, with nodes of the old graph.
            results: what torch says of the results, if it isn't asked.
        """
        if results is None:
            operands: Any = fx.map_arg(args, lambda n: n.meta["val"])
            with node.meta["val"].fake_mode:
                results = form(*operands)
        if not _are_alike(results[0], node.meta["val"]):
            raise _NeedsTracing
        call = self.graph.call_function(form, fx.map_arg(args, self._value))
        call.meta = node.meta | {"val": results}
        self.values[node] = self._result(node, call, 0)
        return call

    def _result(self, node: fx.Node, call: fx.Node, position: int) -> fx.Node:
        result = self.graph.call_function(operator.getitem, (call, position))
        result.meta = node.meta | {"val": call.meta["val"][position]}
        return result

    def _in_place(self, node: fx.Node, target: torch._ops.OpOverload) -> None:
        changed = _node(node.args[0])
        owner = self.same.get(changed, changed)
        if owner in self.shared or not _changes_first_only(target) or free_unbacked_symbols(changed.meta["val"]):
            raise _NeedsTracing
        operands: Any = fx.map_arg(node.args, lambda n: n.meta["val"])
        keywords: Any = fx.map_arg(node.kwargs, lambda n: n.meta["val"])
        before = operands[0]
        if target is _ATEN.copy_.default and _are_alike(operands[1], before):
            self.values[owner] = self._value(_node(node.args[1]))
        else:
            packet = getattr(_ATEN, target._schema.name.removeprefix("aten::")[:-1], None)
            replacement: Any = getattr(packet, target._overloadname, None)
            if str(replacement) not in TABLE or torch.Tag.nondeterministic_seeded in target.tags:
                raise _NeedsTracing
            try:
                with before.fake_mode:
                    after = replacement(*operands, **keywords)
            except RuntimeError:  # a buffer is replaced by one of another shape: torch's second trace says so
                raise _NeedsTracing from None
            if not _are_alike(after, before):  # the in-place operator casts
                raise _NeedsTracing
            call = self.graph.node_copy(node, self._value)
            call.target = replacement
            self.values[owner] = call
        self._alias(node, owner)


def _node(argument: Any) -> fx.Node:
    if not isinstance(argument, fx.Node):
        raise _NeedsTracing
    return argument


def _is_ready(node: fx.Node) -> bool:
    """Whether the node can be translated without a rewrite."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is operator.getitem or not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))
    return str(node.target) in TABLE or node.target in _FOR_ANY_DTYPE


def _lacks_complex_form(node: fx.Node) -> bool:
    """Whether a node computes with complex numbers and its operator is translated for real ones only."""
    if node.op != "call_function" or str(node.target) in COMPLEX or node.target in _FOR_ANY_DTYPE:
        return False
    return any(is_complex(n.meta.get("val")) for n in (node, *node.all_input_nodes))


def _is_fresh(node: fx.Node) -> bool:
    """Whether the node returns a new tensor (never an operand or a view of one) or no tensor at all.

    For an operator that torch composes of others, the schema doesn't always show aliases.
    """
    if node.op == "call_function" and not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
        return True
    if node.target is operator.getitem:  # one of several results
        return _is_fresh(_node(node.args[0]))
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    name = node.target._schema.name, node.target._schema.overload_name
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(".".join(filter(None, name)), "CompositeImplicitAutograd")
    return not composed and all(value.alias_info is None for value in node.target._schema.returns)


def _changes_first_only(target: torch._ops.OpOverload) -> bool:
    """Whether it is a usual in-place operator: named `name_`, it changes and returns its first operand."""
    changed = [a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments]
    return target._schema.name.endswith("_") and changed[0] and not any(changed[1:])


def _are_alike(a: Any, b: torch.Tensor) -> bool:
    """Whether both are tensors of the same dtype and shape, without new assumptions about sizes."""
    if not isinstance(a, torch.Tensor) or a.dtype != b.dtype or a.ndim != b.ndim:
        return False
    return all(statically_known_true(x == y) for x, y in zip(a.shape, b.shape, strict=True))
