"""Networks in JAX that compute in float32 themselves: their run in float64 loses no digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flax")

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen
from jax import lax
from torch import nn

from cellbridge import parity
from cellbridge.parity import jax_side
from cellbridge.parity.sides.jax.double_precision import evaluate_in_double
from tests.parity.sides.jax.networks import array

F32 = jnp.float32


@jax.custom_jvp
def jvp_tanh(x: Any) -> Any:
    return jnp.tanh(x.astype(F32)).astype(x.dtype)


@jvp_tanh.defjvp
def _(primals: Any, tangents: Any) -> Any:
    y = jvp_tanh(*primals).astype(F32)
    return y.astype(tangents[0].dtype), ((1 - y**2) * tangents[0].astype(F32)).astype(tangents[0].dtype)


@jax.custom_vjp
def vjp_tanh(x: Any) -> Any:
    return jnp.tanh(x.astype(F32)).astype(x.dtype)


def _forward(x: Any) -> Any:
    y = jnp.tanh(x.astype(F32))
    return y.astype(x.dtype), y


vjp_tanh.defvjp(_forward, lambda y, g: (((1 - y**2) * g.astype(F32)).astype(g.dtype),))


def scanned(x: Any, narrow: Any = F32) -> Any:
    def body(state: Any, row: Any) -> Any:
        state = jnp.tanh(state + row.astype(narrow))
        return state, state

    return lax.scan(body, jnp.zeros(x.shape[1], narrow), x)[1]


def added(x: Any, narrow: Any = F32) -> Any:
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + narrow(0.75)), (0, narrow(0)))[1] * x


def layer_norm(x: Any, narrow: Any = F32) -> Any:
    variables = {"params": {"scale": jnp.ones(4, x.dtype), "bias": jnp.zeros(4, x.dtype)}}
    return linen.LayerNorm(dtype=narrow, epsilon=2**-8).apply(variables, x)


def attention(x: Any) -> Any:
    q = x.reshape(1, 6, 1, 4)
    return jax.nn.dot_product_attention(q, q, q, is_causal=True)


def attention_in_double(x: Any) -> Any:
    scores = jnp.where(np.tri(6, dtype=bool), x @ x.T / 2, -jnp.inf)
    return (jax.nn.softmax(scores) @ x).reshape(1, 6, 1, 4)


# a function that computes in float32 or less, and the same in float64
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "cast": (lambda x: jax.nn.softmax(x.astype(F32)), jax.nn.softmax),
    "bfloat16": (lambda x: jnp.exp(x.astype(jnp.bfloat16)), jnp.exp),
    "preferred dtype": (lambda x: jnp.matmul(x, x.T, preferred_element_type=F32), lambda x: x @ x.T),
    "attention": (attention, attention_in_double),
    "layer norm": (layer_norm, lambda x: layer_norm(x, jnp.float64)),
    "made in float32": (lambda x: jnp.arange(4, dtype=F32) / 3 * x.astype(F32), lambda x: jnp.arange(4.0) / 3 * x),
    "jit": (jax.jit(lambda x: jnp.exp(x.astype(F32))), jnp.exp),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(jnp.exp(x.astype(F32)))), lambda x: jnp.sin(jnp.exp(x))),
    "custom_jvp": (jvp_tanh, jnp.tanh),
    "custom_vjp": (vjp_tanh, jnp.tanh),
    "scan": (scanned, lambda x: scanned(x, jnp.float64)),
    "while": (added, lambda x: added(x, jnp.float64)),
    "cond": (
        lambda x: lax.cond(x[0, 0] > 9, lambda y: y, lambda y: jnp.exp(y.astype(F32)).astype(y.dtype), x),
        jnp.exp,
    ),
    "scatter": (lambda x: x.astype(F32).at[0].add(x[1].astype(F32)), lambda x: x.at[0].add(x[1])),
    "gradient inside": (jax.grad(lambda x: jnp.sum(jnp.sin(x.astype(F32)))), jnp.cos),
}


def with_gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def both(x: Any) -> Any:
        result, pull = jax.vjp(function, x)
        return result, pull(jnp.arange(result.size).reshape(result.shape).astype(result.dtype))[0]

    return both


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.every(8)
def test_what_asks_for_less_is_computed_in_float64(kind: str) -> None:
    narrow, wide = map(with_gradient, FUNCTIONS[kind])
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).standard_normal((6, 4)))
        results, expected = evaluate_in_double(narrow, (x,)), jax.jit(wide)(x)
        for result, right in zip(results, expected, strict=True):
            assert result.dtype == np.float64
            np.testing.assert_allclose(result, right, rtol=1e-13, atol=1e-13)


def test_bits_and_integers_are_those_of_the_code() -> None:
    def function(x: Any) -> Any:
        bits = lax.bitcast_convert_type(x.astype(F32), jnp.int32)
        return bits, lax.bitcast_convert_type(bits, F32), jnp.arange(3), x > 0.5

    with jax.enable_x64(True):
        bits, back, numbers, larger = evaluate_in_double(function, (jnp.asarray([0.1, 1 / 3]),))
    assert bits.tolist() == np.asarray([0.1, 1 / 3], np.float32).view(np.int32).tolist()
    assert back.tolist() == np.asarray([0.1, 1 / 3], np.float32).tolist()
    assert (numbers.tolist(), larger.tolist()) == ([0, 1, 2], [False, False])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        v = self.value(x).unflatten(-1, (2, 3)).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(v, v, v, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)


class LinenAttention(linen.Module):
    scale: float | None = None
    causal: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        v = linen.Dense(6, name="value")(x).reshape(*x.shape[:2], 2, 3)
        return jax.nn.dot_product_attention(v, v, v, scale=self.scale, is_causal=self.causal).reshape(x.shape)


def compare(function: Callable[[torch.Tensor], torch.Tensor], port: Callable[[Any], Any]) -> Any:
    """Return the report on a layer followed by a function, compared with its port."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(self.layer(x))

    torch.manual_seed(0)
    module = Net()
    params = {"layer": {"weight": array(module.layer.weight), "bias": array(module.layer.bias)}}
    side = jax_side(lambda p, x: port(x @ p["layer"]["weight"].T + p["layer"]["bias"]), params)
    return parity.compare(module, side, (torch.randn(3, 4),), diagnose_seconds=0)


@pytest.mark.parametrize(("fault", "holds"), [({}, True), ({"scale": 0.6}, False), ({"causal": False}, False)])
@pytest.mark.every(2)
@pytest.mark.slow
def test_attention_of_jax_is_the_same_function(fault: dict[str, Any], holds: bool) -> None:
    torch.manual_seed(0)
    module, x = Attention(), torch.randn(1, 4, 6)
    variables = {"params": {"value": {"kernel": array(module.value.weight.T), "bias": array(module.value.bias)}}}
    report = parity.compare(module, jax_side(LinenAttention(**fault), variables), (x,), diagnose_seconds=0)
    assert report.ok is holds, str(report)
    assert report.failing == ([] if holds else [""])


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1 + 1e-4])
@pytest.mark.every(2)
def test_numbers_may_be_rounded_to_float32_on_one_side(factor: float) -> None:
    weights = [0.1, 0.2, 0.3, 0.7]

    def reference(x: torch.Tensor) -> torch.Tensor:
        return x.float() * 0.3 * torch.tensor(weights, dtype=x.dtype)

    def port(x: Any) -> Any:
        return x.astype(F32) * (0.3 * factor) * jnp.array(weights, x.dtype)

    assert compare(reference, port).ok is (factor == 1)


@pytest.mark.slow
def test_a_cast_counts_in_the_working_dtype() -> None:
    report = compare(lambda x: x * 2, lambda x: (x.astype(jnp.bfloat16) * 2).astype(x.dtype))
    failures = {c.check for c in report.cells[""].failures}
    assert failures == {"rounding"}, str(report)


@pytest.mark.slow
def test_a_network_that_cannot_be_traced_runs_as_it_is() -> None:
    def decide(x: Any) -> Any:
        return x * 2 if (jnp.arange(3) > 1).any() else x

    for port in (decide, lambda x: x * np.asarray(jnp.arange(3))[2]):
        report = compare(lambda x: x * 2, port)
        assert report.ok, str(report)
        assert any("can't be traced" in note for note in report.notes)


def test_parameters_that_are_whole_numbers_may_be_sizes() -> None:
    module = nn.Linear(4, 6)
    params = {"heads": 3, "weight": array(module.weight), "bias": array(module.bias)}

    def function(params: Any, x: Any) -> Any:
        x = x @ params["weight"].T + params["bias"]
        return x.reshape(-1, params["heads"], 2).reshape(x.shape)

    report = parity.compare(module, jax_side(function, params), (torch.randn(3, 4),))
    assert report.ok
    assert not report.notes
