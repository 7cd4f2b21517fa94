"""`Traits`, the facts about an op that others ask for: lowering, mixed precision, converters and the judge.

They stand in the op's block, after its declaration:

    sort.traits = Traits(ties="defined", exact=True)

An op without such a line has none of them, but for those that `unary` and `binary` declare, which are elementwise.
`tests/runtime/ops/test_traits.py` measures the traits of each op on its cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Traits:
    """The traits of an op: what its results are, how and in which dtypes they are computed, and where else it is.

    Attributes:
        elementwise: each element of a result is a function of the operands' elements in the same place.
        moves: a result has the elements of the first operand in other places ("first"); or those of several operands,
            or one number that fills the rest ("several").
        view: a result shares the memory of the first operand, at least where that is in order.
        whole: numbers are rounded to whole ones, and whole numbers stay the same.
        compares: a result tells which of two numbers is larger, or whether they are equal.
        products: results are sums of products of an element of the first operand and one of the second.
        smooth_gate: a result is x times a smooth function of x, between 0 and 1.
        ties: among equal elements, one is taken, or the gradient is shared, by a rule ("defined") or as the kernel
            likes ("open").
        draws: the op draws random numbers, which can be replayed.
        exact: results aren't rounded, so that equal numbers stay equal; an op that moves elements needn't say so.
        by_series: the function is computed by a series, with an error that isn't small beside results near zero. Others
            are off by few units in the last place.
        pole: at an end of its domain the function grows to infinity.
        costly: results take many steps for each element.
        recurrent: results are computed step after step, by a layer or by its backward recurrence.
        repeats: a sub-program is run again and again.
        mixed_precision: the dtype to which `auto_mixed_precision` casts operands at the level "auto": the widest among
            them ("widest"); the half-precision one ("half"), where that is faster and precise enough; float32, where
            half precision loses too much or overflows; or none, whatever dtype is computed in ("as given").
        wider_integers: integers that ONNX's operator, or ONNX Runtime's kernel, doesn't support: those of two bytes and
            uint32 ("most"), or these and those of one byte ("all").
        bfloat16_kernel: ONNX Runtime moves elements in bfloat16 on the CPU; other ops compute in float32 there.
        family: the name of a group of ops that people take for each other.
        in_torch: the module of torch that has a function of the op's name, with the same operands and with attributes
            of the same names. It is the name of ATen's operator too, after "special_" if the module is `special`.
        in_cells: there is an operator of Cells with the op's name, operands and attributes.
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
