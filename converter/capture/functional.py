"""A graph with its in-place operators made functional: what torch's decompositions do, without tracing a second time.

Tracing again takes twice as long as the first time. It is left out where nothing needs taking apart and every tensor
that is changed in place has one name only: no view of it, no input, nothing that another call may hold.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from .marks import BOUNDARY
from .numbers import ELEMENT
from .tables.complex_table import is_complex
from .tables.table import TABLE

_ATEN = torch.ops.aten
_SIZES = (_ATEN.sym_size.int, _ATEN.sym_numel.default, _ATEN.sym_stride.int, _ATEN.sym_storage_offset.default)
_BATCH_NORM = _ATEN.batch_norm.default


def functional(graph: fx.Graph) -> fx.Graph | None:
    """The same graph of functional operators alone, all of them in the table; None where that takes more."""
    rewriter = _Rewriter()
    try:
        for node in graph.nodes:
            rewriter.copy(node)
    except _TakesMore:
        return None
    rewriter.graph.eliminate_dead_code()
    return rewriter.graph


class _TakesMore(Exception):
    """Raised at a node that can't be rewritten by itself."""


class _Rewriter:
    """Copies nodes into a new graph.

    Attributes:
        graph: the new one.
        values: for each node of the old graph, the node of the new one that holds its tensor as it is by now.
        same: of a node that is another's tensor (the result of an in-place operator), that other one.
        shared: nodes whose tensor something else may be a view of, or held by; they can't be changed in place.
    """

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.values: dict[fx.Node, fx.Node] = {}
        self.same: dict[fx.Node, fx.Node] = {}
        self.shared: set[fx.Node] = set()

    def copy(self, node: fx.Node) -> None:
        """Copy a node, rewritten where it has to be."""
        target = node.target
        if is_complex(node.meta.get("val")):
            raise _TakesMore
        if target is _ATEN.detach_.default and _node(node.args[0]).target is _ATEN.lift_fresh_copy.default:
            self._is(node, _node(node.args[0]))  # of a constant, which has no history
        elif target is _BATCH_NORM:
            self._batch_norm(node)
        elif isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            self._in_place(node, target)
        elif node.op == "call_function" and not _is_ready(node):
            raise _TakesMore
        else:
            self._plain(node)

    def _value(self, node: fx.Node) -> fx.Node:
        return self.values[self.same.get(node, node)]

    def _plain(self, node: fx.Node) -> None:
        self.values[node] = self.graph.node_copy(node, self._value)
        if not _is_fresh(node):
            self.shared.update(self.same.get(n, n) for n in (node, *node.all_input_nodes))

    def _is(self, node: fx.Node, other: fx.Node) -> None:
        """Both are one tensor."""
        self.same[node] = self.same.get(other, other)

    def _batch_norm(self, node: fx.Node) -> None:
        """batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)"""
        *operands, training, momentum, eps, _ = node.args
        value = node.meta["val"]
        if training or None in operands[3:] or statically_known_true(value.numel() == 0):
            raise _TakesMore
        call = self.graph.node_copy(node, self._value)
        call.target = _ATEN._native_batch_norm_legit_no_training.default
        call.args = (*call.args[:5], momentum, eps)
        empty = value.new_empty(0)
        call.meta = node.meta | {"val": (value, empty, empty)}
        self.values[node] = self.graph.call_function(operator.getitem, (call, 0))
        self.values[node].meta = dict(node.meta)

    def _in_place(self, node: fx.Node, target: torch._ops.OpOverload) -> None:
        changed = _node(node.args[0])
        owner = self.same.get(changed, changed)
        if owner in self.shared or not _changes_first_only(target) or free_unbacked_symbols(changed.meta["val"]):
            raise _TakesMore
        operands: Any = fx.map_arg(node.args, lambda n: n.meta["val"])
        keywords: Any = fx.map_arg(node.kwargs, lambda n: n.meta["val"])
        before = operands[0]
        if target is _ATEN.copy_.default and _are_alike(operands[1], before):
            self.values[owner] = self._value(_node(node.args[1]))
        else:
            packet = getattr(_ATEN, target._schema.name.removeprefix("aten::")[:-1], None)
            instead: Any = getattr(packet, target._overloadname, None)
            if str(instead) not in TABLE or torch.Tag.nondeterministic_seeded in target.tags:
                raise _TakesMore
            with before.fake_mode:
                after = instead(*operands, **keywords)
            if not _are_alike(after, before):  # it was to be cast
                raise _TakesMore
            call = self.graph.node_copy(node, self._value)
            call.target = instead
            self.values[owner] = call
        self._is(node, owner)


def _node(argument: Any) -> fx.Node:
    if not isinstance(argument, fx.Node):
        raise _TakesMore
    return argument


def _is_ready(node: fx.Node) -> bool:
    """Whether the node can be translated as it is."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is operator.getitem or not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))
    return str(node.target) in TABLE or node.target in (*_SIZES, *ELEMENT, BOUNDARY)


def _is_fresh(node: fx.Node) -> bool:
    """Whether the node gives a new tensor, never an operand or a view of one, or no tensor at all.

    Of an operator that torch composes of others, the schema doesn't always say.
    """
    if node.op == "call_function" and not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    name = node.target._schema.name, node.target._schema.overload_name
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(".".join(filter(None, name)), "CompositeImplicitAutograd")
    return not composed and all(value.alias_info is None for value in node.target._schema.returns)


def _changes_first_only(target: torch._ops.OpOverload) -> bool:
    """Whether it is an in-place operator as they mostly are: named `name_`, changes and returns its first operand."""
    changed = [a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments]
    return target._schema.name.endswith("_") and changed[0] and not any(changed[1:])


def _are_alike(a: Any, b: torch.Tensor) -> bool:
    """Whether both are tensors of one dtype and shape, as far as is known without a new assumption about sizes."""
    if not isinstance(a, torch.Tensor) or a.dtype != b.dtype or a.ndim != b.ndim:
        return False
    return all(statically_known_true(x == y) for x, y in zip(a.shape, b.shape, strict=True))
