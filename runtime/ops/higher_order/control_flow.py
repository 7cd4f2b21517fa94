"""Control flow: `cond`. Its branches are sub-programs, which use only their operands; see `loops` for loops."""

from __future__ import annotations

from typing import Any

from ...ir.program import Program
from ...ir.types import BOOL
from ...traits import Traits
from ..registry import Array, OnnxGraph, Tensor, Type, operator, require
from .subprogram_rules import align_cotangents, as_tuple, common_type, floating_cotangents, run


@operator
def cond(
    predicate: Tensor,
    *operands: Tensor,
    then_branch: Program,
    else_branch: Program,
    symbols: tuple[str, ...] = (),
) -> tuple[Tensor, ...]:
    """The results of one of two sub-programs, both of which take the operands.

    Args:
        predicate: bool, without dimensions.
        operands: the operands of both branches.
        then_branch: runs if the predicate is true.
        else_branch: runs otherwise; its results have the dtypes and ranks of those of `then_branch`.
        symbols: names for the sizes in which the results of the branches may differ, in order.

    torch.cond; ONNX If-21.
    """


cond.traits = Traits(mixed_precision="as given")


@cond.infer
def _(
    predicate: Type, *operands: Type, then_branch: Program, else_branch: Program, symbols: tuple[str, ...]
) -> tuple[Type, ...]:
    from ...programs.subprograms import own_symbols, result_types

    require(predicate == Type(BOOL, ()), f"needed a bool without dimensions as predicate, given {predicate}")
    fresh = iter(symbols)
    pairs = zip(result_types(then_branch, operands), result_types(else_branch, operands), strict=True)
    inner_symbols = own_symbols(then_branch) | own_symbols(else_branch)
    return tuple(common_type(a, b, inner_symbols, fresh) for a, b in pairs)


@cond.native_kernel
def _(
    predicate: Array, *operands: Array, then_branch: Program, else_branch: Program, symbols: tuple[str, ...]
) -> tuple[Array, ...]:
    return run(then_branch if predicate else else_branch, operands)


@cond.vjp
def _(
    g: Any,
    y: Any,
    predicate: Tensor,
    *operands: Tensor,
    then_branch: Program,
    else_branch: Program,
    symbols: tuple[str, ...],
) -> tuple[Any, ...]:
    from ...programs.subprograms import gradient

    branches = gradient(then_branch), gradient(else_branch)
    names = tuple(f"{name}_gradient" for name in symbols)
    gradients = as_tuple(
        cond(
            predicate,
            *operands,
            *floating_cotangents(as_tuple(g), as_tuple(y)),
            then_branch=branches[0],
            else_branch=branches[1],
            symbols=names,
        )
    )
    return None, *align_cotangents(operands, gradients)


@cond.onnx
def _(
    graph: OnnxGraph,
    predicate: str,
    *operands: str,
    then_branch: Program,
    else_branch: Program,
    symbols: tuple[str, ...],
) -> Any:
    return graph.op(
        "If",
        predicate,
        outputs=len(then_branch.outputs),
        then_branch=graph.subgraph(then_branch, operands),
        else_branch=graph.subgraph(else_branch, operands),
    )
