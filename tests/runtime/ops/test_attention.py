"""Attention: any shape against torch, rounding in float32 against torch's own, queries without keys, symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import FLOAT64, CellCall, Type
from cellbridge.runtime.ops import attention
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.tracing import Builder
from cellbridge.runtime.tree import TENSOR, Structure

Array = np.ndarray[Any, Any]
attend = attention.scaled_dot_product_attention


def gradients(g: Array, *operands: Array | None, **attributes: Any) -> tuple[Any, ...]:
    complete = attend.attributes(attributes)
    padded = (*operands, None, None)[:5]
    assert attend.vjp_rule is not None
    result: tuple[Any, ...] = attend.vjp_rule(g, attend(*padded, **complete), *padded, **complete)
    return result


def from_torch(g: Array, q: Array, k: Array, v: Array, mask: Array | None, **attributes: Any) -> tuple[Any, ...]:
    """Output and gradients of the floating-point operands, by torch."""
    operands = [None if x is None else torch.tensor(x, requires_grad=x.dtype != bool) for x in (q, k, v, mask)]
    y = F.scaled_dot_product_attention(*operands, **attributes)
    leaves = [x for x in operands if x is not None and x.requires_grad]
    return y.detach().numpy(), [x.numpy() for x in torch.autograd.grad(y, leaves, torch.tensor(g))]


@settings(deadline=None)  # what is tested is not how fast
@given(
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    features=st.integers(1, 5),
    mask=st.sampled_from(["none", "causal", "boolean", "added", "keys only"]),
    scale=st.sampled_from([None, 0.3]),
    seed=st.integers(0, 99),
)
def test_any_shape(
    batch: tuple[int, ...], queries: int, keys: int, features: int, mask: str, scale: float | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal((*batch, queries, features)), rng.standard_normal((*batch, keys, features))
    v, g = rng.standard_normal((*batch, keys, 3)), rng.standard_normal((*batch, queries, 3))
    masks = {
        "boolean": rng.random((queries, keys)) < 0.6,
        "added": rng.standard_normal((queries, keys)),
        "keys only": rng.random((*batch, 1, keys)) < 0.6,
    }
    given_mask = masks.get(mask)
    expected, expected_gradients = from_torch(g, q, k, v, given_mask, is_causal=mask == "causal", scale=scale)
    np.testing.assert_allclose(attend(q, k, v, given_mask, causal=mask == "causal", scale=scale), expected, atol=1e-11)
    actual_gradients = gradients(g, q, k, v, given_mask, causal=mask == "causal", scale=scale)
    for gradient, expected_gradient in zip(
        [x for x in actual_gradients if x is not None], expected_gradients, strict=True
    ):
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("others", [0, 3])
def test_attention_to_one_key_has_no_gradient_but_that_of_the_value(others: int) -> None:
    """Its weight is 1, whatever the query is; others are masked. As in torch, no rounding is left."""
    rng = np.random.default_rng(2)
    q, k, v, g = (rng.standard_normal((5, 4, 1 + others, 64)).astype(np.float32) for _ in range(4))
    mask = np.full((5, 4, 1 + others, 1 + others), -np.inf, np.float32)
    mask[..., :1] = rng.standard_normal((5, 4, 1 + others, 1))
    gq, gk, gv, gm, _ = gradients(g, q, k, v, mask, causal=False)
    for gradient in (gq, gk, gm):
        np.testing.assert_array_equal(gradient, 0)
    np.testing.assert_allclose(gv[..., :1, :], g.sum(axis=-2, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_rounds_like_torch_in_float32(causal: bool) -> None:
    rng = np.random.default_rng(4)
    q, k, v, g = (rng.standard_normal((2, 4, 128, 64)).astype(np.float32) for _ in range(4))
    exact_y, exact = from_torch(*(x.astype(np.float64) for x in (g, q, k, v)), None, is_causal=causal)
    torch_y, torch_gradients = from_torch(g, q, k, v, None, is_causal=causal)
    actual = [attend(q, k, v, causal=causal), *gradients(g, q, k, v, causal=causal)[:3]]
    for a, b, truth in zip(actual, [torch_y, *torch_gradients], [exact_y, *exact], strict=True):
        assert np.sqrt(np.mean((a - truth) ** 2)) <= 3 * np.sqrt(np.mean((b - truth) ** 2))


@pytest.mark.parametrize("mask", [np.zeros((3, 4), bool), np.full((3, 4), -np.inf)], ids=["boolean", "added"])
def test_queries_without_keys_get_zero_and_send_nothing_back(mask: Array) -> None:
    rng = np.random.default_rng(0)
    mask = mask.copy()
    mask[1] = True if mask.dtype == bool else 0
    q, k, v, g = (rng.standard_normal((size, 5)) for size in (3, 4, 4, 3))
    y = attend(q, k, v, mask, causal=False)
    assert not y[[0, 2]].any()
    assert y[1].all()
    gq, gk, gv, *_ = gradients(g, q, k, v, mask, causal=False)
    assert not gq[[0, 2]].any()
    assert np.isfinite(gk).all()
    assert np.isfinite(gv).all()


def test_large_scores_do_not_overflow() -> None:
    q, v = np.full((2, 4), 300.0, np.float32), np.eye(2, dtype=np.float32)
    np.testing.assert_allclose(attend(q, q, v, causal=False), np.full((2, 2), 0.5))


def program_of(builder: Builder, inputs: tuple[Any, ...], output: Any) -> Program:
    return Program(
        inputs=tuple(x.value for x in inputs),
        outputs=(output.value,),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", "Case"),),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * len(inputs)), Structure("dict"))),
        result=Structure("tuple", (TENSOR,)),
    )


def test_second_derivatives_agree_with_torch() -> None:
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal((2, 3, 4)) for _ in range(3)]
    g, direction = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 4))
    builder = Builder()
    operands = tuple(builder.new_value(name, Type(FLOAT64, (2, 3, 4))) for name in "qkv")
    once = differentiate(program_of(builder, operands, attend(*operands, causal=True)))
    g_of_q = once.input_gradients[0]
    assert g_of_q is not None
    twice = differentiate(once.program.replace(outputs=(g_of_q,)))
    values = [value for value in twice.input_gradients if value is not None]
    second_gradients = execute(twice.program, [*arrays, g, direction], wanted=values)

    tensors = [torch.tensor(x, requires_grad=True) for x in (*arrays, g)]
    q, k, v, g_of_y = tensors
    scores = (q @ k.mT / 2).masked_fill(~torch.ones(3, 3, dtype=torch.bool).tril(), -torch.inf)
    (first,) = torch.autograd.grad(torch.softmax(scores, -1) @ v, q, g_of_y, create_graph=True)
    second = torch.autograd.grad(first, tensors, torch.tensor(direction))
    for gradient, expected_gradient in zip(second_gradients, second, strict=True):
        np.testing.assert_allclose(gradient, expected_gradient.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("queries", [1, 3, 7])
def test_causal_attention_over_symbolic_lengths_in_onnx(queries: int) -> None:
    builder = Builder()
    length = symbol("length")
    q = builder.new_value("q", Type(FLOAT64, (2, length, 4)))
    k = builder.new_value("k", Type(FLOAT64, (2, length + 2, 4)))
    y = attend(q, k, k, causal=True)
    assert y.shape == (2, length, 4)
    program = program_of(builder, (q, k), y)
    rng = np.random.default_rng(queries)
    arrays = rng.standard_normal((2, queries, 4)), rng.standard_normal((2, queries + 2, 4))
    (result,) = run_model(to_onnx(program), dict(zip(("q", "k"), arrays, strict=True))).values()
    np.testing.assert_allclose(result, attend(arrays[0], arrays[1], arrays[1], causal=True), atol=1e-12)


def test_operands_that_do_not_fit_are_explained() -> None:
    q, k = np.zeros((2, 3, 4)), np.zeros((2, 5, 4))
    with pytest.raises(ShapeError, match="as many features"):
        attend(q, np.zeros((2, 5, 3)), k, causal=False)
    with pytest.raises(ShapeError, match="as many keys as values"):
        attend(q, k, q, causal=False)
    with pytest.raises(ShapeError, match="doesn't broadcast to the weights'"):
        attend(q, k, k, np.ones((4, 2, 3, 5), bool), causal=False)
    with pytest.raises(ShapeError, match="bool or float64, given int64"):
        attend(q, k, k, np.ones((3, 5), np.int64), causal=False)
