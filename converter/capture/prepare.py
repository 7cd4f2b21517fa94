"""Corrections to an exported graph, before its operators are decomposed."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import fx

from .marks import BOUNDARY
from .strided_marks import EXPLICIT, IN_PLACE
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
    _remove_idle_dropout(module.graph)
    _expose_embedding_renorm(module.graph)
    _mark_calls(module.graph)
    module.recompile()


def _inline_regions(module: fx.GraphModule) -> None:
    """Inline the regions with gradients switched on or off; results of `torch.no_grad()` are detached.

    `run_decompositions` would lose such regions and the source lines of their nodes.
    """
    for node in list(module.graph.nodes):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled:
            continue
        enabled, submodule, *arguments = cast("tuple[Any, ...]", node.args)
        region = getattr(module, submodule.target)
        _inline_regions(region)
        inputs = zip(region.graph.find_nodes(op="placeholder"), arguments, strict=True)
        with_history = set() if enabled else pass_on_gradients(region.graph, [x for x, y in inputs if has_history(y)])
        for attribute in region.graph.find_nodes(op="get_attr"):
            name = f"{submodule.target}_{attribute.target}"
            setattr(module, name, getattr(region, attribute.target))
            attribute.target = name
        placeholders = region.graph.find_nodes(op="placeholder")
        values = dict(zip(placeholders, arguments, strict=True))
        with module.graph.inserting_before(node):
            results: Any = module.graph.graph_copy(region.graph, values)
            if not enabled:
                outputs = region.graph.output_node().args[0]
                results = [
                    value if inner in with_history else _detach(module.graph, value, node)
                    for value, inner in zip(results, outputs, strict=True)
                ]
        for item in list(node.users):
            item.replace_all_uses_with(results[item.args[1]])
            module.graph.erase_node(item)
        module.graph.erase_node(node)
        module.graph.erase_node(submodule)


def _detach(graph: fx.Graph, value: Any, region: fx.Node) -> Any:
    if not isinstance(value, fx.Node) or not isinstance(value.meta.get("val"), torch.Tensor):
        return value
    if value.target is BOUNDARY:
        marked, call, _, is_output = cast("tuple[Any, ...]", value.args)
        if is_output and not call:  # the mark stays last: the model returns the marked tensor itself
            with graph.inserting_before(value):
                value.replace_input_with(marked, _detach(graph, marked, region))
            return value
    node = graph.call_function(DETACH, (value,))
    meta: dict[str, Any] = {key: region.meta[key] for key in ("nn_module_stack", "stack_trace") if key in region.meta}
    node.meta = meta | {"val": value.meta["val"]}
    return node


def _remove_idle_dropout(graph: fx.Graph) -> None:
    """Remove dropout in eval mode: it returns its operand itself, but `run_decompositions` would copy it."""
    for node in graph.nodes:
        if node.target in _DROPOUTS and not node.args[2]:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _expose_embedding_renorm(graph: fx.Graph) -> None:
    """Let an embedding scale its weights, not a detached alias, so that gradients reach them (see the table)."""
    for node in graph.nodes:
        if node.target is _ATEN.embedding_renorm_.default and node.args[0].target is DETACH:
            node.replace_input_with(node.args[0], node.args[0].args[0])


def _mark_calls(graph: fx.Graph) -> None:
    """Mark the model's calls of `as_strided_scatter`, before in-place changes are turned into such calls too."""
    for node in graph.nodes:
        if node.target is IN_PLACE:
            node.target = EXPLICIT
