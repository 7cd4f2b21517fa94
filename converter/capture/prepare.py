"""What is put right in a graph that `torch.export` gives, before its operators are taken apart."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import fx

from .marks import BOUNDARY
from .strided_marks import CALLED, IN_PLACE
from .unrecorded import DETACH, has_history, pass_on_gradients

_ATEN = torch.ops.aten
# (input, probability, train)
_DROPOUTS = (
    *(_ATEN.dropout.default, _ATEN.dropout_.default, _ATEN.feature_dropout.default, _ATEN.feature_dropout_.default),
    *(_ATEN.alpha_dropout.default, _ATEN.alpha_dropout_.default),
    *(_ATEN.feature_alpha_dropout.default, _ATEN.feature_alpha_dropout_.default),
)


def prepare(module: fx.GraphModule) -> None:
    """Change the graph of the module in place."""
    pass_on_gradients(module.graph)
    _inline_regions(module)
    _leave_out_idle_dropout(module.graph)
    _renorm_in_sight(module.graph)
    _mark_calls(module.graph)
    module.recompile()


def _inline_regions(module: fx.GraphModule) -> None:
    """Write what runs with gradients switched on or off in place; what comes out of `torch.no_grad()` is detached.

    `run_decompositions` would forget where such a region was, and from which lines its nodes come.
    """
    for node in list(module.graph.nodes):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled:
            continue
        enabled, held, *arguments = cast("tuple[Any, ...]", node.args)
        region = getattr(module, held.target)
        _inline_regions(region)
        inputs = zip(region.graph.find_nodes(op="placeholder"), arguments, strict=True)
        with_history = set() if enabled else pass_on_gradients(region.graph, [x for x, y in inputs if has_history(y)])
        for attribute in region.graph.find_nodes(op="get_attr"):
            name = f"{held.target}_{attribute.target}"
            setattr(module, name, getattr(region, attribute.target))
            attribute.target = name
        placeholders = region.graph.find_nodes(op="placeholder")
        values = dict(zip(placeholders, arguments, strict=True))
        with module.graph.inserting_before(node):
            results: Any = module.graph.graph_copy(region.graph, values)
            if not enabled:
                given = region.graph.output_node().args[0]
                results = [
                    value if inner in with_history else _detached(module.graph, value, node)
                    for value, inner in zip(results, given, strict=True)
                ]
        for item in list(node.users):
            item.replace_all_uses_with(results[item.args[1]])
            module.graph.erase_node(item)
        module.graph.erase_node(node)
        module.graph.erase_node(held)


def _detached(graph: fx.Graph, value: Any, region: fx.Node) -> Any:
    if not isinstance(value, fx.Node) or not isinstance(value.meta.get("val"), torch.Tensor):
        return value
    if value.target is BOUNDARY:
        marked, call, _, is_output = cast("tuple[Any, ...]", value.args)
        if is_output and not call:  # the mark stays the last: what the model hands out is what it marks
            with graph.inserting_before(value):
                value.replace_input_with(marked, _detached(graph, marked, region))
            return value
    node = graph.call_function(DETACH, (value,))
    told: dict[str, Any] = {key: region.meta[key] for key in ("nn_module_stack", "stack_trace") if key in region.meta}
    node.meta = told | {"val": value.meta["val"]}
    return node


def _leave_out_idle_dropout(graph: fx.Graph) -> None:
    """Take a dropout in eval mode out: it gives its operand itself, where `run_decompositions` makes a copy."""
    for node in graph.nodes:
        if node.target in _DROPOUTS and not node.args[2]:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _renorm_in_sight(graph: fx.Graph) -> None:
    """Let an embedding scale its weights themselves, not a detached alias: gradients go on to them (see the table)."""
    for node in graph.nodes:
        if node.target is _ATEN.embedding_renorm_.default and node.args[0].target is DETACH:
            node.replace_input_with(node.args[0], node.args[0].args[0])


def _mark_calls(graph: fx.Graph) -> None:
    """Mark the calls of `as_strided_scatter` before in-place changes become some, too."""
    for node in graph.nodes:
        if node.target is IN_PLACE:
            node.target = CALLED
