"""`Traits`, the facts about an op that others ask for: lowering, mixed precision, converters and the judge.

They stand in the op's block, after its declaration:

    sort.traits = Traits(exact=True, ties="defined")

Ops without such a line have none of them. `tests/runtime/ops/test_traits.py` measures each trait on each op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Traits:
    """The traits of an op.

    What the results are:

    Attributes:
        elementwise: each element is a function of the operands' elements in the same place.
        moves: the elements are those of the first operand, in other places ("first"); or of several operands, or one
            number that fills the rest ("several").
        view: the result shares the memory of the first operand, at least where that is in order.
        whole: numbers are rounded to whole ones, and whole numbers stay the same.
        compares: truth values that tell which of two numbers is larger, or whether they are equal.
        products: sums of products of an element of the first operand and one of the second.
        smooth_gate: x times a smooth function of x, between 0 and 1.
        ties: where elements are equal, one is taken, or the gradient is shared, by a rule ("defined") or as the kernel
            likes ("open").
        draws: random numbers, which can be replayed.

    How they are computed:

        exact: without rounding, so that equal numbers stay equal; ops that move elements needn't say so.
        by_series: by a series, with an error that isn't small beside results near zero. Other functions are off by few
            units in the last place.
        pole: at an end of its domain the function grows to infinity.
        costly: in many steps for each element.
        recurrent: step after step; a layer, or its backward recurrence.
        repeats: a sub-program is run again and again.

    In which dtypes:

        mixed_precision: what operands are cast to by the level "auto" of `auto_mixed_precision`: the widest of their
            dtypes; the half-precision one ("half"), where that is faster and precise enough; float32, where half
            precision loses too much or overflows; or nothing ("as given"), whatever dtype is computed in.
        wider_integers: the integers that ONNX's operator, or ONNX Runtime's kernel, doesn't support: all but int32 and
            int64 ("all"), or, among them, those of two bytes and uint32 ("most").
        bfloat16_kernel: ONNX Runtime has kernels in bfloat16 on the CPU; only an op that moves elements is asked.

    Where else they are:

        family: the name of a group of ops that people take for each other.
        in_torch: the module of torch that has a function of the op's name with the same operands, and attributes of the
            same names. ATen's operator has this name, too, after "special_" if the module is `special`.
        in_cells: an operator of Cells has the op's name, operands and attributes.
    """

    elementwise: bool = False
    moves: Literal["", "first", "several"] = ""
    view: bool = False
    whole: bool = False
    compares: bool = False
    products: bool = False
    smooth_gate: bool = False
    ties: Literal["", "defined", "open"] = ""
    draws: bool = False
    exact: bool = False
    by_series: bool = False
    pole: bool = False
    costly: bool = False
    recurrent: bool = False
    repeats: bool = False
    mixed_precision: Literal["widest", "half", "float32", "as given"] = "widest"
    wider_integers: Literal["", "most", "all"] = ""
    bfloat16_kernel: bool = True
    family: str = ""
    in_torch: Literal["", "torch", "nn.functional", "special"] = ""
    in_cells: bool = False


ELEMENTWISE = Traits(elementwise=True)
