"""torch's higher-order operators: `cond`, `while_loop`, `scan`, `map`, `associative_scan`, graphs called in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import fx

from ...runtime.ir.dims import Dim, SymbolicDim
from ...runtime.ir.program import Program
from ...runtime.ir.types import BOOL, INT64, Type
from ...runtime.ops import data_dependent, shaping, slicing
from ...runtime.ops.higher_order import control_flow, loops
from ...runtime.ops.higher_order.subprogram_rules import as_tuple
from ...runtime.programs.subprograms import build_subprogram, inline, trace_subprogram
from ...runtime.registration import register_as
from ...runtime.tracing import Builder, SymbolicTensor
from ..unsupported import Unsupported
from .dims import as_dim
from .tables.table import MISSING, TABLE, Context, cast, scalar

HigherOrder = Callable[..., Any]

HIGHER_ORDER: dict[str, HigherOrder] = {}

# inlined operators, whose operands may be of any kind; sub-programs don't take complex numbers
CALLED_IN_PLACE = frozenset(
    {
        "tag_activation_checkpoint",
        "wrap",
        "wrap_activation_checkpoint",
        "strict_mode",
        "invoke_subgraph",
        "with_effects",
    }
)

NO_LIMIT = 2**63 - 1


class SubgraphTranslator(Protocol):
    """The translator of the graph that contains an operator, as seen by the operator's translation."""

    @property
    def builder(self) -> Builder:
        """The builder of the program under construction."""

    @property
    def names(self) -> Mapping[str, str]:
        """The program's symbols by torch's symbols."""

    def run(self, module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
        """Translate a graph on symbolic `arguments` and return its outputs, flat."""

    def run_inline(self, module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
        """Translate a graph that is inlined at its call and return its outputs, flat."""

    def for_subgraph(self) -> SubgraphTranslator:
        """Return a translator for a graph that becomes a sub-program."""


def higher_order(*names: str) -> Callable[[HigherOrder], HigherOrder]:
    """Register a translation for higher-order operators of these names; a registered name raises."""
    return register_as(HIGHER_ORDER, names)


@higher_order("with_effects")
def with_effects(
    translator: SubgraphTranslator, context: Context, token: Any, operator: Any, *args: Any, **kwargs: Any
) -> Any:
    """with_effects(token, op, *args, **kwargs): keeps operators with side effects, such as checks, in order."""
    translation = TABLE.get(str(operator))
    if translation is None:
        raise Unsupported("")
    result = translation(context, *args, **kwargs)
    return token, *(result if isinstance(result, tuple) else (result,))


@higher_order("cond")
def cond(
    translator: SubgraphTranslator,
    context: Context,
    pred: Any,
    true: fx.GraphModule,
    false: fx.GraphModule,
    operands: Any = (),
) -> Any:
    """cond(pred, true_fn, false_fn, operands)"""
    if isinstance(pred, bool):
        return translator.run_inline(true if pred else false, list(operands))
    predicate = shaping.reshape(cast(pred, BOOL), shape=()) if pred.ndim else cast(pred, BOOL)
    inputs = _operands(context, operands)
    then_branch, else_branch = require_complete(
        subprogram(translator, true, operands, inputs, "then"), subprogram(translator, false, operands, inputs, "else")
    )
    symbols = _new_symbols(context)
    return as_tuple(
        control_flow.cond(predicate, *inputs, then_branch=then_branch, else_branch=else_branch, symbols=symbols)
    )


@higher_order("while_loop")
def while_loop(
    translator: SubgraphTranslator,
    context: Context,
    cond_fn: fx.GraphModule,
    body_fn: fx.GraphModule,
    carried: Any,
    additional: Any,
) -> Any:
    """while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)"""
    every = [*carried, *additional]
    inputs = _operands(context, every)
    condition, body = require_complete(
        subprogram(translator, cond_fn, every, inputs, "condition"),
        subprogram(translator, body_fn, every, inputs, "body"),
    )
    types = [x.value.type for x in inputs]

    def iteration(number: SymbolicTensor, *operands: SymbolicTensor) -> list[SymbolicTensor]:
        state = inline(number.builder, body, operands)
        (again,) = inline(number.builder, condition, [*state, *operands[len(carried) :]])
        return [again, *state]

    step = trace_subprogram(iteration, [Type(INT64, ()), *types], "body")
    (starts,) = inline(context.builder, condition, inputs)
    limit = context.builder.constant(NO_LIMIT, INT64)
    symbols = _new_symbols(context)
    return as_tuple(loops.loop(limit, starts, *inputs, body=step, carried=len(carried), symbols=symbols))


@higher_order("scan")
def scan(
    translator: SubgraphTranslator,
    context: Context,
    combine_fn: fx.GraphModule,
    init: Any,
    xs: Any,
    additional: Any = (),
) -> Any:
    """scan(combine_fn, init, xs, additional_inputs): along the first axis"""
    every = [*init, *xs, *additional]
    inputs = _operands(context, every)
    slices = _first_slices(every, inputs, range(len(init), len(init) + len(xs)))
    (body,) = require_complete(subprogram(translator, combine_fn, every, inputs, "body", slices))
    return as_tuple(loops.scan(*inputs, body=body, carried=len(init), scanned=len(xs)))


@higher_order("map_impl", "map")
def map_impl(translator: SubgraphTranslator, context: Context, f: fx.GraphModule, xs: Any, additional: Any = ()) -> Any:
    """map_impl(f, xs, pos_args): `f` on each slice along the first axis"""
    return scan(translator, context, f, (), xs, additional)


@higher_order("associative_scan")
def associative_scan(
    translator: SubgraphTranslator, context: Context, combine_fn: fx.GraphModule, xs: Any, additional: Any = ()
) -> Any:
    """associative_scan(combine_fn, xs, additional_inputs): all prefix results, along the first axis"""
    inputs = _operands(context, [*xs, *additional])
    count = len(xs)
    first = [shaping.reshape(_rows(x, 0, 1), shape=x.shape[1:]) for x in inputs[:count]]
    types = [x.value.type for x in (*first, *first, *inputs[count:])]
    every = [*first, *first, *additional]
    (combine,) = require_complete(
        subprogram(translator, combine_fn, every, [*first, *first, *inputs[count:]], "combine")
    )

    def step(*operands: SymbolicTensor) -> list[SymbolicTensor]:
        combined = inline(operands[0].builder, combine, operands)
        return [*combined, *combined]

    rest = [_rows(x, 1, x.shape[0]) for x in inputs[:count]]
    body = trace_subprogram(step, types, "body")
    result = as_tuple(loops.scan(*first, *rest, *inputs[count:], body=body, carried=count, scanned=count))
    starts = (shaping.reshape(x, shape=(1, *x.shape)) for x in first)
    return tuple(slicing.concat(start, later, axis=0) for start, later in zip(starts, result[count:], strict=True))


@higher_order("tag_activation_checkpoint", "wrap", "wrap_activation_checkpoint", "strict_mode")
def inline_call(
    translator: SubgraphTranslator, context: Context, graph: fx.GraphModule, *operands: Any, **_: Any
) -> Any:
    """tag_activation_checkpoint(fn, *args): the result is that of `fn`; only memory use differs"""
    return tuple(translator.run_inline(graph, list(operands)))


@higher_order("invoke_subgraph")
def invoke_subgraph(
    translator: SubgraphTranslator, context: Context, graph: fx.GraphModule, identifier: Any, *operands: Any
) -> Any:
    """invoke_subgraph(subgraph, identifier, *operands)"""
    return tuple(translator.run_inline(graph, list(operands)))


# ---- graphs as sub-programs ----


class UntranslatedSubgraph(Exception):
    """Raised for a sub-program with operators without a translation, which the translator has listed."""


def require_complete(*programs: Program | None) -> list[Program]:
    """The sub-programs; `UntranslatedSubgraph` if one couldn't be translated."""
    translated = [program for program in programs if program is not None]
    if len(translated) < len(programs):
        raise UntranslatedSubgraph
    return translated


def subprogram(
    translator: SubgraphTranslator,
    graph: fx.GraphModule,
    operands: Sequence[Any],
    tensors: Sequence[SymbolicTensor],
    name: str,
    slices: Sequence[Type] | None = None,
) -> Program | None:
    """A graph as a sub-program whose inputs are like `tensors`, one for each operand that isn't a constant.

    A size among the operands becomes a tensor. `slices` has the types of the inputs where these are slices of the
    operands. Returns None if the graph has operators without a translation, which are added to the translator's list.
    """
    inner = translator.for_subgraph()
    types = iter(slices or [x.value.type for x in tensors])
    inputs: list[SymbolicTensor] = []
    arguments: list[Any] = []
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, operand in zip(placeholders, operands, strict=True):
        if not isinstance(operand, (SymbolicTensor, SymbolicDim)):
            arguments.append(operand)
            continue
        inputs.append(inner.builder.new_value(node.name, next(types)))
        size = as_dim(node.meta["val"], translator.names) if isinstance(operand, SymbolicDim) else None
        if size is None:
            arguments.append(inputs[-1])
            continue
        if not isinstance(size, SymbolicDim) or str(size) not in size.symbols():
            raise Unsupported(f"a size {size} that {name} takes")
        data_dependent.read_sizes(inputs[-1], symbols=(str(size),))
        arguments.append(size)
    outputs = inner.run(graph, arguments)
    if any(x is MISSING for x in outputs):
        return None
    flat = [x if isinstance(x, SymbolicTensor) else scalar(Context(inner.builder, (), ()), x, INT64) for x in outputs]
    return build_subprogram(inner.builder, inputs, flat, name)


def _operands(context: Context, operands: Sequence[Any]) -> list[SymbolicTensor]:
    """The operands as tensors, sizes too; constant numbers stay in the graph."""
    return [
        x if isinstance(x, SymbolicTensor) else scalar(context, x, INT64)
        for x in operands
        if isinstance(x, (SymbolicTensor, SymbolicDim))
    ]


def _first_slices(operands: Sequence[Any], inputs: Sequence[SymbolicTensor], sliced: range) -> list[Type]:
    """The types of the inputs of one iteration."""
    kept = [i for i, x in enumerate(operands) if isinstance(x, (SymbolicTensor, SymbolicDim))]
    types = [x.value.type for x in inputs]
    return [t.with_shape(t.shape[1:]) if i in sliced else t for i, t in zip(kept, types, strict=True)]


def _new_symbols(context: Context) -> tuple[str, ...]:
    """The symbols of sizes that occur in the outputs only."""
    symbols: dict[str, None] = {}
    for type in context.types:
        for dim in type.shape if type is not None else ():
            if isinstance(dim, SymbolicDim) and str(dim) in dim.symbols() and _is_data_dependent(str(dim)):
                symbols[str(dim)] = None
    return tuple(symbols)


def _is_data_dependent(name: str) -> bool:
    return name.startswith("u") and name[1:].isdigit()  # torch's names for unbacked symbols


def _rows(x: SymbolicTensor, start: Dim, stop: Dim) -> Any:
    return slicing.slice(x, starts=(start,), stops=(stop,), steps=(1,), axes=(0,))
