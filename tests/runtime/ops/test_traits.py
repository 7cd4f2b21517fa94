"""Each op is asked for each of its traits: it has what its cases show, or there is a reason why not."""

from __future__ import annotations

import ast
import contextlib
import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.converter.capture.tables.same_names import translation_of
from cellbridge.runtime import ops
from cellbridge.runtime.ops import special
from cellbridge.runtime.ops.registry import Op, evaluate, family
from cellbridge.runtime.precision import compute_in
from cellbridge.runtime.traits import Traits
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import as_torch, attributes_of, inputs_of, run_kernel
from tests.runtime.ops.test_all_ops import CASES
from tests.runtime.ops.trait_measures import MEASURES, has_body

ALL = ops.all_ops()
CASES_OF = {name: [case for case in CASES if case.op == name] for name in ALL}

NOTHING_TO_DO = "only where there is nothing to do"
OF_THE_BODY = "that depends on its sub-program"
QUOTIENT = "the quotient rounds before it is made whole"

REASONS: dict[str, dict[str, str]] = {
    "elementwise": {
        "own_gradient": "it returns several of its operands",
        "prelu": "it is, with a weight for each channel",
    },
    "moves": {
        "own_gradient": "it returns several of its operands",
        "runtime_shaped_gradient": "its cases do, others sum",
    },
    "view": {
        **dict.fromkeys(("class_index", "gather", "pad", "pow", "runtime_shaped"), NOTHING_TO_DO),
        "own_gradient": "it returns several of its operands",
        "read_sizes": "it returns sizes, whose memory is nothing",
        "scan": OF_THE_BODY,
    },
    "smooth_gate": {"mish_with_gate": "the gate itself is a result, too"},
    "exact": {
        **dict.fromkeys(("floor_divide", "remainder"), QUOTIENT),
        "bitcast": "other digits are other numbers",
        "own_gradient": "it returns several of its operands",
        "permutation": "the factors that it is made of are rounded",
        "runtime_shaped_gradient": "its cases are, others sum",
    },
}  # fmt: skip
"""Traits that cases show and ops don't have, or the other way round."""

FEW_STEPS = {
    **dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_prod", "reduce_any", "reduce_all", "argmax", "argmin",
                     "logsumexp", "variance"), "a step for each element of the operand"),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp", "linear_recurrence"), "a step for each element"),
    **dict.fromkeys(("softmax", "log_softmax", "standardize", "batch_norm", "batch_norm_train", "group_norm",
                     "group_norm_with_statistics", "layer_norm", "layer_norm_with_statistics", "rms_norm",
                     "rms_norm_with_statistics"), "few steps for each element"),
    **dict.fromkeys(("index_add", "scatter", "scatter_nd", "nonzero", "read_sizes", "permutation"),
                    "a step for each element"),
    "searchsorted": "as many steps as the boundaries have digits",
    **dict.fromkeys(("cond", "loop", "scan", "onnx_function", "own_gradient", "runtime_shaped",
                     "runtime_shaped_gradient"), OF_THE_BODY),
}  # fmt: skip
"""Why ops aren't costly."""

NO_TIES = {
    "full": "it has no operand",
    "arange": "it has no operand",
}
"""Why ops that compute without rounding, not element by element, don't take one of several equal elements."""

SEVERAL_UNITS = dict.fromkeys(
    ("entr", "erfcx", "erfinv", "lgamma", "log_ndtr", "ndtri"), "libraries agree on it to a few units"
)
"""Why special functions aren't computed by series."""

OTHER_PRODUCTS = {
    "conv_weight_gradient": "it occurs in gradients, which have the dtype of the forward pass",
    "grouped_matmul": "no operator of Cells has it",
    "grouped_outer": "it occurs in gradients, which have the dtype of the forward pass",
}
"""Why sums of products aren't computed in half precision by `auto_mixed_precision`."""


@pytest.mark.parametrize("trait", MEASURES)
def test_ops_have_the_traits_that_their_cases_show(trait: str) -> None:
    assert {op.name: text for op in ALL.values() if (text := mismatch(op, trait))}.keys() == REASONS.get(
        trait, {}
    ).keys()


def mismatch(op: Op, trait: str) -> str:
    """What an op says of a trait and what its cases show, if they differ."""
    stated = getattr(op.traits, trait)
    if trait == "exact":
        stated = stated or bool(op.traits.moves)
    if op.traits.draws and trait != "draws":  # its cases show other numbers each time
        shown = type(stated)()
    else:
        with np.errstate(all="ignore"):
            shown = MEASURES[trait](op, CASES_OF[op.name])
    return "" if stated == shown else f"{op.name} says {trait}={stated!r}, its cases show {shown!r}"


PLANTED = [
    ("exp", Traits(), "elementwise"),
    ("softmax", Traits(elementwise=True), "elementwise"),
    ("concat", Traits(moves="first"), "moves"),
    ("relu", Traits(moves="first"), "moves"),
    ("roll", Traits(view=True), "view"),
    ("transpose", Traits(moves="first"), "view"),
    ("sign", Traits(whole=True), "whole"),
    ("add", Traits(compares=True), "compares"),
    ("mul", Traits(products=True), "products"),
    ("tanh", Traits(smooth_gate=True), "smooth_gate"),
    ("dft", Traits(draws=True), "draws"),
    ("uniform", Traits(), "draws"),
    ("sigmoid", Traits(exact=True), "exact"),
    ("sort", Traits(), "exact"),
    ("acos", Traits(pole=True), "pole"),
    ("log", Traits(), "pole"),
    ("cumsum", Traits(recurrent=True), "recurrent"),
]


@pytest.mark.parametrize(("name", "traits", "trait"), PLANTED)
def test_a_planted_wrong_trait_is_found(monkeypatch: pytest.MonkeyPatch, name: str, traits: Traits, trait: str) -> None:
    op = ops.get(name)
    assert not mismatch(op, trait)
    monkeypatch.setattr(op, "traits", traits)
    assert mismatch(op, trait)


@pytest.mark.parametrize("op", ALL.values(), ids=lambda op: op.name)
def test_ops_have_the_traits_that_follow_from_others(op: Op) -> None:
    traits, bodies = op.traits, any(map(has_body, CASES_OF[op.name]))
    few_steps = traits.elementwise or traits.moves or traits.draws or (traits.exact and op.name[-4:] != "pool")
    assert traits.costly is not bool(few_steps or op.name in FEW_STEPS)
    takes = traits.exact and not traits.elementwise and op.name not in NO_TIES
    assert bool(traits.ties) is (takes or op.name in ("argmax", "argmin"))
    assert traits.repeats <= bodies
    if bodies:
        assert traits.mixed_precision == "as given"
    if traits.products:
        assert (traits.mixed_precision == "half") is (op.name not in OTHER_PRODUCTS)
    if traits.moves:
        assert traits.mixed_precision in ("widest", "as given")
    assert traits.bfloat16_kernel or op.half_native


def test_special_functions_are_computed_by_series_or_there_is_a_reason() -> None:
    declared = {name for name, op in vars(special).items() if isinstance(op, Op) and op is ALL.get(name)}
    in_module = {name for name in declared if ALL[name].kernel_rule.__module__ == special.__name__}
    assert {name for name in in_module if not ALL[name].traits.by_series} == set(SEVERAL_UNITS)
    assert {name for name, op in ALL.items() if op.traits.by_series} <= in_module


FAMILIES = sorted({op.traits.family for op in ALL.values()} - {""})


@pytest.mark.parametrize("name", FAMILIES)
def test_ops_of_a_family_take_the_same_operands(name: str) -> None:
    """With the attributes that they have in common, and their own from a case or by default."""
    members = [ops.get(member) for member in family(name)]
    assert len(members) > 1
    for op in members:
        case = CASES_OF[op.name][0]
        inputs = inputs_of(case, "float64")
        attributes = attributes_of(case, inputs)
        (first, *_) = run_kernel(case, inputs)
        for member in members:
            member_attributes = CASES_OF[member.name][0].attributes
            given = member_attributes | {k: v for k, v in attributes.items() if k in member.attribute_defaults}
            given |= {"dilation": (1,) * len(given["kernel"])} if member.name == "max_pool" else {}
            (y, *_) = evaluate(member, inputs[: len(member.input_names)], member.attributes(given))
            assert (y.shape, y.dtype) == (first.shape, first.dtype), f"{member.name} in place of {op.name}"


@pytest.mark.parametrize("case", [case for case in CASES if has_body(case)], ids=str)
def test_sub_programs_run_in_the_dtypes_that_they_are_given(case: OpCase) -> None:
    inputs = inputs_of(case, "float32")
    tensors = [None if x is None else ms.Tensor(x) for x in inputs]
    attributes = attributes_of(case, inputs)
    with compute_in(np.dtype(np.float16)):
        result = ALL[case.op](*tensors, **attributes)
    for y, expected in zip(result if isinstance(result, tuple) else (result,), run_kernel(case, inputs), strict=True):
        np.testing.assert_array_equal(y.asnumpy(), expected)


# ---- where else ops are ----

IN_TORCH = {
    "bitwise_not": "it is written as an operator",
    "elu": "the function takes alpha alone",
    "equal": "the function is of whole tensors",
    "floor_divide": "it is written as an operator",
    "linear": "vectors and matrices are multiplied by another ATen operator",
    "matmul": "it is written as an operator, and is several ATen operators",
    "reshape": "a method, for the sizes as they are",
}
"""Why ops aren't `in_torch` though torch has a function of the name with the same arguments."""


def torch_function_of(op: Op) -> Any:
    """The function of torch that has an op's name, operands and attributes; None if there is none."""
    for module, prefix in ((torch, ""), (torch.nn.functional, ""), (torch.special, "special_")):
        operator = getattr(torch.ops.aten, f"{prefix}{op.name}", None)
        if hasattr(module, op.name) and operator is not None and "default" in operator.overloads():
            with contextlib.suppress(ValueError):
                translation_of(op, operator.default._schema)
                return getattr(module, op.name)
    return None


def test_ops_are_in_torch_or_there_is_a_reason() -> None:
    torch_ops = {op.name for op in ALL.values() if torch_function_of(op) is not None}
    assert torch_ops == {op.name for op in ALL.values() if op.traits.in_torch} | IN_TORCH.keys()


@pytest.mark.parametrize("op", [op for op in ALL.values() if op.traits.in_torch], ids=lambda op: op.name)
def test_the_function_in_torch_computes_the_op(op: Op) -> None:
    function = operator.attrgetter(f"{op.traits.in_torch}.{op.name}".removeprefix("torch."))(torch)
    for case in CASES_OF[op.name]:
        inputs = inputs_of(case, "float64")
        result = function(*map(as_torch, inputs), **attributes_of(case, inputs))
        np.testing.assert_allclose(result.numpy(), run_kernel(case, inputs)[0], rtol=1e-9, atol=1e-12)


# ---- lists of names ----

ROOT = Path(__file__).parents[3]
MOST_NAMES = 4
LISTS = {
    "converter/cell_source/forms/__init__.py": "ops that no operator of Cells computes, with the reason",
    "parity/pairing/by_structure/joined_layers.py": "layers of images that heads call for joined samples; "
    "one that isn't listed only isn't divided",
}
"""Files with a longer list of ops than a rule needs for a pattern, and why it is no trait."""


def longest_list(text: str) -> int:
    """The most names that a set, list or tuple of a file has, if all of them are those of ops."""
    if len(set(re.findall(r'"(\w+)"', text)) & ALL.keys()) <= MOST_NAMES:
        return 0
    literals = (n.elts for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.Set, ast.List, ast.Tuple)))
    names = ([e.value for e in elements if isinstance(e, ast.Constant)] for elements in literals if elements)
    return max((len(each) for each in names if set(each) <= ALL.keys()), default=0)


def test_no_list_of_ops_stands_where_a_trait_would_do() -> None:
    files = [file for room in ("runtime", "converter", "parity") for file in (ROOT / room).rglob("*.py")]
    files_with_lists = {
        str(file.relative_to(ROOT)) for file in files if longest_list(file.read_text("utf-8")) > MOST_NAMES
    }
    assert files_with_lists == LISTS.keys()


def test_a_planted_list_is_found() -> None:
    assert longest_list('EXACT = frozenset({"abs", "ceil", "floor", "round", "trunc"})') == 5
    assert longest_list('NAMES = ["abs", "ceil", "floor", "round", "sinc"]') == 0
