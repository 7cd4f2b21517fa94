"""The graph that `torch.export` gives of a module, with the operators that have a translation left whole."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from .autocast_regions import DetachedInAutocast, TakenApartInAutocast
from .cell_hooks import watch
from .functional import functional
from .known_decisions import KnownDecisions
from .known_numbers import KnownNumbers, UnseenDraws, extreme_draws, known_settings
from .libraries import decided_without_values
from .marks import Marker
from .prepare import prepare
from .refusals import explained, silence_torch_logs
from .result_shapes import shapes_alone
from .tables.complex_table import COMPLEX, is_complex
from .tables.table import TABLE
from .undecided import Undecided
from .unrecorded import DataInSight, VarianceClampedInSight

# operators that torch knows how to take apart, but counts among those that stay whole
TAKEN_APART = [torch.ops.aten.grid_sampler_2d.default, torch.ops.aten.dist.default, torch.ops.aten.ldexp.Tensor]

INSTANCE_NORM = torch.ops.aten.instance_norm.default


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, marker: Marker
) -> torch.export.ExportedProgram:
    """Trace a call of the module; where Python code draws random numbers, they must not change what is traced.

    Raises:
        ConversionError: `torch.export` refuses the module; the message says what, where and what to do.
    """
    draws, decisions = UnseenDraws(), KnownDecisions()
    exported = _trace(module, args, kwargs, dynamic_shapes, marker, decisions)
    if draws.sources():
        for least in (True, False):
            with extreme_draws(least):
                again = _trace(module, args, kwargs, dynamic_shapes, marker, decisions)
            if not _are_the_same(exported, again):
                draws.refuse()
    decisions.tell()
    return exported


def _are_the_same(a: torch.export.ExportedProgram, b: torch.export.ExportedProgram) -> bool:
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
        stack.enter_context(explained(module, args, kwargs))
        stack.enter_context(silence_torch_logs())
        stack.enter_context(watch(module, marker))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(decided_without_values())
        stack.enter_context(shapes_alone())
        warnings.simplefilter("ignore")
        with (
            KnownNumbers(),
            Undecided(),
            TakenApartInAutocast(),
            DetachedInAutocast(),
            VarianceClampedInSight(),
            DataInSight(),
            decisions,
            known_settings(module),
        ):
            # torch refuses what it has from `@dynamic_spec` already
            shapes = None if hasattr(module.forward, "_dynamic_spec") else dynamic_shapes
            exported = torch.export.export(_called(module), args, kwargs, dynamic_shapes=shapes, strict=False)
        prepare(exported.graph_module)
        unseen = any(map(_updates_statistics_unseen, exported.graph.nodes))
        graph = None if unseen else functional(exported.graph)
        if graph is not None:
            exported.graph_module.graph = graph
            return exported
        table = decompositions()
        default = torch.export.default_decompositions()
        if unseen:
            table = table | {INSTANCE_NORM: default[INSTANCE_NORM]}
        # what has a translation for real tensors only is taken apart where it is applied to complex ones
        table = table | {op: default[op] for op in _on_complex(exported.graph_module) if op in default}
        # makes in-place operators functional, too
        taken_apart: torch.export.ExportedProgram = exported.run_decompositions(table)
        return taken_apart


def _called(module: torch.nn.Module) -> torch.nn.Module:
    """A module that is called, hooks and all, when it is exported: a graph module's own nodes would be run instead."""
    if not isinstance(module, torch.fx.GraphModule):
        return module
    caller = torch.nn.Module()
    for held in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules", "training"):
        vars(caller)[held] = vars(module)[held]
    caller.forward = functools.wraps(module.forward)(lambda *args, **kwargs: module(*args, **kwargs))
    return caller


def _updates_statistics_unseen(node: torch.fx.Node) -> bool:
    """Whether it is an instance norm that updates running statistics: its schema doesn't say that it changes them.

    Taken apart, it shows.
    """
    if node.target is not INSTANCE_NORM:
        return False
    names = [argument.name for argument in INSTANCE_NORM._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return bool(given["use_input_stats"]) and given["running_mean"] is not None


def _on_complex(module: torch.nn.Module) -> set[Any]:
    """The operators that are applied to complex tensors, but lack a translation for those."""
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {
        node.target
        for graph in graphs
        for node in graph.nodes
        if node.op == "call_function" and str(node.target) in TABLE and str(node.target) not in COMPLEX
        if any(is_complex(n.meta.get("val")) for n in (node, *node.all_input_nodes))
    }


@functools.cache
def decompositions() -> dict[Any, Any]:
    """How torch takes apart the operators that the table lacks; those it has stay whole.

    Random operators stay whole too: their draws are recorded and replayed one for one.
    """
    default = torch.export.default_decompositions().items()  # type: ignore[no-untyped-call]
    rules = dict(default) | torch._decomp.get_decompositions(TAKEN_APART)
    sampler = torch.ops.aten.grid_sampler_2d.default
    rules[sampler] = functools.partial(_sampled, rules[sampler])
    return {
        operator: rule
        for operator, rule in rules.items()
        if str(operator) not in TABLE and torch.Tag.nondeterministic_seeded not in operator.tags
    }


def _sampled(
    rule: Callable[..., torch.Tensor],
    a: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int = 0,
    padding_mode: int = 0,
    align_corners: bool = False,
) -> torch.Tensor:
    """How torch takes `grid_sampler_2d` apart, with the gradient 0 at the bounds: ATen clip_coordinates_set_grad.

    In torch's decomposition it is that of `clamp`, which passes there. Bicubic sampling clips no coordinates.
    """
    border, reflection, bicubic = 1, 2, 2
    if align_corners and padding_mode in (border, reflection) and interpolation_mode != bicubic:
        distance = grid.abs()
        held = distance >= 1 if padding_mode == border else distance == 1
        grid = torch.where(held, grid.sign(), grid)
    return rule(a, grid, interpolation_mode, padding_mode, align_corners)
