"""The graph that `torch.export` returns for a module, in which operators with a translation aren't decomposed."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import torch

from .autocast_regions import DecomposeInAutocast, DetachInAutocast
from .cell_hooks import watch
from .data_dependence import AvoidDataDependence
from .decompositions import decompose, decompositions
from .export_errors import explain_errors, silence_torch_logs
from .functional import functionalize
from .known_decisions import KnownDecisions
from .known_numbers import KnownNumbers, UntrackedRandomness, extreme_random_numbers, settings_as_numbers
from .libraries import without_value_checks
from .marks import Marker
from .ordered_sizes import ordered_sizes
from .packed_sequences import PackedSequences
from .places import lines_of_functions
from .prepare import prepare
from .result_shapes import trace_by_shape
from .tables.complex_table import COMPLEX, is_complex
from .tables.table import TABLE
from .unrecorded import ClampVariance, RecordData

INSTANCE_NORM = torch.ops.aten.instance_norm.default


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, marker: Marker
) -> torch.export.ExportedProgram:
    """Trace a call of the module; random numbers that Python code draws must not change the traced graph.

    Raises:
        ConversionError: `torch.export` refuses the module; the message says what, where and what to do.
    """
    draws, decisions = UntrackedRandomness(), KnownDecisions()
    exported = _trace(module, args, kwargs, dynamic_shapes, marker, decisions)
    if draws.sources():
        for least in (True, False):
            with extreme_random_numbers(least):
                again = _trace(module, args, kwargs, dynamic_shapes, marker, decisions)
            if not _are_equal_traces(exported, again):
                draws.refuse()
    decisions.warn()
    return exported


def _are_equal_traces(a: torch.export.ExportedProgram, b: torch.export.ExportedProgram) -> bool:
    """Whether two traces of one module compute the same."""
    if str(a.graph) != str(b.graph):
        return False
    pairs = [(x, b.constants[name]) for name, x in a.constants.items()]
    return all(torch.equal(x, y) for x, y in pairs if isinstance(x, torch.Tensor))


def _trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    marker: Marker,
    decisions: KnownDecisions,
) -> torch.export.ExportedProgram:
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(explain_errors(module, args, kwargs))
        stack.enter_context(silence_torch_logs())
        stack.enter_context(watch(module, marker))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(without_value_checks())
        stack.enter_context(trace_by_shape())
        stack.enter_context(ordered_sizes())
        stack.enter_context(lines_of_functions())
        warnings.simplefilter("ignore")
        with (
            KnownNumbers(),
            AvoidDataDependence(),
            DecomposeInAutocast(),
            DetachInAutocast(),
            ClampVariance(),
            RecordData(),
            PackedSequences(),
            decisions,
            settings_as_numbers(module),
        ):
            # torch refuses a spec that it also has from `@dynamic_spec`
            shapes = None if hasattr(module.forward, "_dynamic_spec") else dynamic_shapes
            exported = torch.export.export(_call_wrapper(module), args, kwargs, dynamic_shapes=shapes, strict=False)
        prepare(exported.graph_module)
        hides_update = any(map(_hides_statistics_update, exported.graph.nodes))
        if not hides_update and functionalize(exported):
            return exported
        table = decompositions()
        default = torch.export.default_decompositions()
        if hides_update:
            table = table | {INSTANCE_NORM: default[INSTANCE_NORM]}
        # an operator whose translation is for real tensors only is decomposed where it is applied to complex ones
        table = table | {op: default[op] for op in _complex_operators(exported.graph_module) if op in default}
        return decompose(exported, table)


def _call_wrapper(module: torch.nn.Module) -> torch.nn.Module:
    """A module whose call runs the hooks: torch would run the nodes of a graph module without calling it."""
    if not isinstance(module, torch.fx.GraphModule):
        return module
    caller = torch.nn.Module()
    for name in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules", "training"):
        vars(caller)[name] = vars(module)[name]
    caller.forward = functools.wraps(module.forward)(lambda *args, **kwargs: module(*args, **kwargs))
    return caller


def _hides_statistics_update(node: torch.fx.Node) -> bool:
    """Whether a node is an instance norm that updates running statistics.

    The operator's schema hides this update; its decomposition shows it.
    """
    if node.target is not INSTANCE_NORM:
        return False
    names = [argument.name for argument in INSTANCE_NORM._schema.arguments]
    arguments = dict(zip(names, node.args, strict=False)) | node.kwargs
    return bool(arguments["use_input_stats"]) and arguments["running_mean"] is not None


def _complex_operators(module: torch.nn.Module) -> set[Any]:
    """The operators that are applied to complex tensors and lack a translation for them."""
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {
        node.target
        for graph in graphs
        for node in graph.nodes
        if node.op == "call_function" and str(node.target) in TABLE and str(node.target) not in COMPLEX
        if any(is_complex(n.meta.get("val")) for n in (node, *node.all_input_nodes))
    }
