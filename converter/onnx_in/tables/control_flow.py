"""ONNX control flow: decisions known on import are inlined, others become ops with sub-programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ConversionError, ShapeError, UnsupportedOperators
from ....runtime.ir.dims import Dim
from ....runtime.ir.types import BOOL, INT64, Type
from ....runtime.ops import comparison, guard, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.ops.higher_order import control_flow, loops
from ....runtime.ops.higher_order.subprogram_rules import as_tuple
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ...warning import warn
from ..model.subprograms import MISSING, Draft, Inexpressible, union
from ..model.values import KnownTensor, known_tensor
from .context import Context
from .table import cast, onnx, require_few

OTHER_BRANCH = (
    "an If of the model takes its other branch on these inputs, but the model was imported for the first one; import "
    "it with the shapes of these inputs (--shape, or `shapes` of from_onnx)"
)
MAX_ITERATIONS = 256  # iterations of an unrolled loop
NO_LIMIT = 2**63 - 1


def truth(value: Any) -> bool | None:
    """The truth value of a condition; None if it isn't known."""
    if not isinstance(value, KnownTensor) or value.symbolic or value.data.size != 1:
        return None
    return bool(value.data.reshape(-1)[0])


def _missing(context: Context) -> tuple[Any, ...]:
    return (MISSING,) * len(context.outputs)


def _scalar(context: Context, value: Any, dtype: np.dtype[Any]) -> SymbolicTensor:
    x = cast(context.tensor(value), dtype)
    result: SymbolicTensor = shaping.reshape(x, shape=()) if x.ndim else x
    return result


@onnx("If", values=("cond",), folds=False)
def if_(context: Context, cond: Any, *, then_branch: Any, else_branch: Any) -> Any:
    """If-1..25(cond) { then_branch, else_branch } -> *outputs"""
    chosen = truth(cond)
    if chosen is not None:
        return context.run(then_branch if chosen else else_branch, ())
    try:
        drafts = [
            _draft_branch(context, branch, name) for branch, name in ((then_branch, "then"), (else_branch, "else"))
        ]
    except Inexpressible:
        raise Unsupported(
            "branches that return sequences or optionals, with a condition that is known only when the program runs"
        ) from None
    first, second = drafts
    if isinstance(first, ConversionError) and isinstance(second, ConversionError):
        raise first
    if isinstance(first, ConversionError) or isinstance(second, ConversionError):
        return _inline_branch(context, cond, (then_branch, else_branch), not isinstance(first, ConversionError))
    if [x.ndim for x in first.tensors] != [x.ndim for x in second.tensors]:
        return _inline_branch(context, cond, (then_branch, else_branch), context.choice())
    operands = union(first, second)
    branches = [first.program(operands), second.program(operands)]
    count = sum(_count_differing_sizes(a, b) for a, b in zip(first.types, second.types, strict=True))
    symbols = tuple(context.builder.new_symbol() for _ in range(count))
    return as_tuple(
        control_flow.cond(
            _scalar(context, cond, BOOL), *operands, then_branch=branches[0], else_branch=branches[1], symbols=symbols
        )
    )


def _draft_branch(context: Context, branch: Any, name: str) -> Draft | ConversionError:
    """A branch as a sub-program, or the error if it can't run on its operands, for example because of sizes."""
    try:
        return context.draft(branch, (), name)
    except UnsupportedOperators:
        raise
    except ConversionError as error:
        return error


def _inline_branch(context: Context, cond: Any, branches: tuple[Any, Any], chosen: bool) -> Any:
    """Inline one of two branches; the program checks that the condition selects it.

    Exporters write `x.squeeze(1)` as an If whose branches return tensors of different ranks, only one of which
    fits the nodes that follow.
    """
    warn(
        f"the {'then' if chosen else 'else'} branch of an If was imported, because the model fits only one of its "
        "branches; the program checks its condition on each run"
    )
    condition = _scalar(context, cond, BOOL)
    holds = condition if chosen else comparison.logical_not(condition)
    results = context.run(branches[0 if chosen else 1], ())
    if MISSING in results:
        return _missing(context)
    guarded = [x for x in results if isinstance(x, SymbolicTensor)] or results
    return tuple(
        guard.guard(context.tensor(x), holds, message=OTHER_BRANCH) if any(x is y for y in guarded) else x
        for x in results
    )


def _count_differing_sizes(a: Type, b: Type) -> int:
    """The number of new symbols for a value of either type: one for each size that differs or isn't constant."""
    return sum(x != y or not isinstance(x, int) for x, y in zip(a.shape, b.shape, strict=False))


@onnx("Loop", values=("M", "cond", "v_initial"), folds=False)
def loop(context: Context, M: Any = None, cond: Any = None, *v_initial: Any, body: Any) -> Any:
    """Loop-1..25(M, cond, *v_initial) { body } -> *v_final_and_scan_outputs"""
    if len(body.output) < 1 + len(v_initial) or len(body.input) != 2 + len(v_initial):
        raise ShapeError(f"the body must take 2 + {len(v_initial)} values, and return at least 1 + {len(v_initial)}")
    try:
        draft, carried = _loop_body(context, v_initial, body)
    except (Inexpressible, ShapeError, Unsupported):
        return _unroll(context, M, cond, v_initial, body)
    captures = union(draft)
    program = draft.program(captures)
    stacked = len(body.output) > 1 + len(carried)
    changing = sum(_count_differing_sizes(x.value.type, t) for x, t in zip(carried, draft.types[1:], strict=False))
    symbols = tuple(context.builder.new_symbol() for _ in range(changing + stacked))
    limit = _scalar(context, known_tensor(np.array(NO_LIMIT)) if M is None else M, INT64)
    going = _scalar(context, known_tensor(np.array(True)) if cond is None else cond, BOOL)
    return as_tuple(loops.loop(limit, going, *carried, *captures, body=program, carried=len(carried), symbols=symbols))


def _loop_body(context: Context, initial: tuple[Any, ...], body: Any) -> tuple[Draft, list[SymbolicTensor]]:
    """The body with input types that also fit the shapes it returns, and the initial values."""
    if not all(isinstance(x, SymbolicTensor | KnownTensor) for x in initial):
        raise Inexpressible
    carried = [context.tensor(x) for x in initial]
    types = [x.value.type for x in carried]
    while True:
        draft = context.draft(body, (Type(INT64, ()), known_tensor(np.array(True)), *types), "body")
        if draft.tensors[0].ndim:
            draft.tensors[0] = shaping.reshape(draft.tensors[0], shape=())
        results = draft.types[1 : 1 + len(types)]
        general = [_generalize(context, a, b) for a, b in zip(types, results, strict=True)]
        if general == types:
            return draft, carried
        types = general


def _generalize(context: Context, before: Type, after: Type) -> Type:
    """A type for a carried value of the types `before` and `after`: a constant size that changes becomes a symbol."""
    if before.dtype != after.dtype or before.rank != after.rank:
        raise Unsupported(f"a carried value that goes in as {before} and comes out as {after}")
    pairs = zip(before.shape, after.shape, strict=True)
    return before.with_shape(tuple(_generalize_size(context, a, b) for a, b in pairs))


def _generalize_size(context: Context, before: Dim, after: Dim) -> Dim:
    return context.new_symbol() if isinstance(before, int) and before != after else before


def _unroll(context: Context, M: Any, cond: Any, carried: Any, body: Any) -> Any:
    """Unroll a loop with a known number of iterations."""
    count = None if M is None else int(M.data.reshape(-1)[0]) if isinstance(M, KnownTensor) and not M.symbolic else -1
    going = True if cond is None else truth(cond)
    if going is None or count == -1:
        raise Unsupported(
            "values that a loop op can't carry, with a number of iterations that is known only when the program runs"
        )
    collected: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    i = 0
    while going and (count is None or i < count):
        if i >= MAX_ITERATIONS:
            raise Unsupported(f"values that a loop op can't carry, with more than {MAX_ITERATIONS} iterations")
        results = context.run(body, (known_tensor(np.array(i, np.int64)), known_tensor(np.array(True, BOOL)), *carried))
        if MISSING in results:
            return _missing(context)
        going = truth(results[0])
        if going is None:
            raise Unsupported(
                "values that a loop op can't carry, with a condition that is known only when the program runs"
            )
        carried = results[1 : 1 + len(carried)]
        for rows, item in zip(collected, results[1 + len(carried) :], strict=True):
            rows.append(item)
        i += 1
    return *carried, *(_stack(context, rows) for rows in collected)


def _stack(context: Context, rows: list[Any]) -> Any:
    """Stack the results of iterations along a new first axis."""
    if not rows:
        raise Unsupported("a loop without iterations, whose stacked results have unknown shapes")
    tensors = [context.tensor(row) for row in rows]
    return slicing.concat(*(shaping.reshape(x, shape=(1, *x.shape)) for x in tensors), axis=0)


@onnx("Scan", values=("initial_state_and_scan_inputs",), folds=False)
def scan(
    context: Context, *initial_state_and_scan_inputs: Any, body: Any, num_scan_inputs: int,
    scan_input_axes: Any = None, scan_input_directions: Any = None, scan_output_axes: Any = None,
    scan_output_directions: Any = None, directions: Any = None,
) -> Any:  # fmt: skip
    """Scan-8..25(*initial_state_and_scan_inputs) { body } -> *final_state_and_scan_outputs"""
    operands = initial_state_and_scan_inputs
    if context.opset < 9:
        return _scan_batch(context, operands, body, num_scan_inputs, directions)
    carried = [context.tensor(x) for x in operands[: len(operands) - num_scan_inputs]]
    xs = [context.tensor(x) for x in operands[len(carried) :]]
    reverse_flags = scan_input_directions or [0] * len(xs)
    axes = scan_input_axes or [0] * len(xs)
    slices = [
        _flip(_to_front(x, normalize_axis(axis, x.ndim)), back)
        for x, axis, back in zip(xs, axes, reverse_flags, strict=True)
    ]
    results = _scan(context, carried, slices, body)
    rows = results[len(carried) :]
    backward, places = scan_output_directions or [0] * len(rows), scan_output_axes or [0] * len(rows)
    finished = [
        _from_front(_flip(row, back), normalize_axis(axis, row.ndim))
        for row, back, axis in zip(rows, backward, places, strict=True)
    ]
    return *results[: len(carried)], *finished


def _scan(context: Context, carried: list[SymbolicTensor], slices: list[Any], body: Any) -> tuple[Any, ...]:
    """A scan along the first axes of its inputs."""
    if not slices:
        raise ShapeError("needed at least one scan input")
    types = [*(x.value.type for x in carried), *(Type(x.dtype, tuple(x.shape[1:])) for x in slices)]
    try:
        draft = context.draft(body, tuple(types), "body")
    except Inexpressible:
        raise Unsupported("a body that returns sequences or optionals") from None
    captures = union(draft)
    program = draft.program(captures)
    return as_tuple(loops.scan(*carried, *slices, *captures, body=program, carried=len(carried), scanned=len(slices)))


def _scan_batch(context: Context, operands: Any, body: Any, count: int, directions: Any) -> Any:
    """Scan-8: a batch of scans, whose lengths are the first operand."""
    if operands[0] is not None:
        raise Unsupported("sequence_lens")
    tensors = [context.tensor(x) for x in operands[1:]]
    size = tensors[0].shape[0]
    if not isinstance(size, int):
        raise Unsupported("a batch of symbolic size, before version 9")
    require_few(size, "scans of a batch, before version 9")
    backward = directions or [0] * count
    scans = []
    for i in range(size):
        row = [slicing.slice(x, starts=(i,), stops=(i + 1,), steps=(1,), axes=(0,)) for x in tensors]
        row = [shaping.reshape(x, shape=tuple(x.shape[1:])) for x in row]
        carried = row[: len(row) - count]
        slices = [_flip(x, back) for x, back in zip(row[len(carried) :], backward, strict=True)]
        scans.append(_scan(context, carried, slices, body))
    return tuple(_stack(context, list(column)) for column in zip(*scans, strict=True))


def _flip(x: Any, back: int) -> Any:
    return shaping.flip(x, axes=(0,)) if back else x


def _to_front(x: Any, axis: int) -> Any:
    if axis == 0:
        return x
    return shaping.transpose(x, permutation=(axis, *(i for i in range(x.ndim) if i != axis)))


def _from_front(x: Any, axis: int) -> Any:
    if axis == 0:
        return x
    return shaping.transpose(x, permutation=(*range(1, axis + 1), 0, *range(axis + 1, x.ndim)))
