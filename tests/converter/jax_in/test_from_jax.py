"""`from_jax`: outputs and gradients are JAX's, for primitives, loops, branches and networks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from cellbridge import converter, runtime
from cellbridge.runtime.errors import ConversionError, ConversionWarning, UnsupportedOperators, UsageError
from cellbridge.runtime.programs.call import as_array

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 4)).astype(np.float32)
Y = RANDOM.normal(size=(3, 4)).astype(np.float32)
IMAGES = RANDOM.normal(size=(2, 8, 9, 3)).astype(np.float32)
KERNEL = RANDOM.normal(size=(3, 3, 3, 4)).astype(np.float32)
PLACES = np.array([[2, 0], [1, 1]], np.int32)


def check(function: Callable[..., Any], *args: Any, grads: bool = True, tolerance: float = 2e-5) -> None:
    """Compare outputs, and gradients of the sum of the outputs times fixed numbers, with JAX's."""
    program = converter.from_jax(function, *args)
    expected = jax.tree_util.tree_leaves(function(*map(jnp.asarray, args)))
    outputs = program(*args)
    given = jax.tree_util.tree_leaves(outputs)
    for a, b in zip(given, expected, strict=True):
        a = as_array(a)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    compiled = jax.tree_util.tree_leaves(runtime.compile(program, "cpu")(*args))
    for a, b in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(as_array(a), b, rtol=tolerance, atol=tolerance)
    if not grads:
        return
    cotangents = [np.asarray(RANDOM.normal(size=x.shape), x.dtype) for x in expected]

    def loss(*arguments: Any) -> Any:
        return sum(
            (x * c).sum() for x, c in zip(jax.tree_util.tree_leaves(function(*arguments)), cotangents, strict=True)
        )

    places = [i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f"]
    true = jax.grad(loss, argnums=tuple(places))(*map(jnp.asarray, args))
    _, gradients = converter.from_jax(loss, *args).value_and_grad(*args)
    input_gradients = [x for x in gradients.inputs if x is not None]
    for a, b in zip(input_gradients, true, strict=True):
        np.testing.assert_allclose(as_array(a), b, rtol=1e-4, atol=1e-4)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arithmetic": (lambda x, y: (x + y) * x - y / (2 + x * x), (X, Y)),
    "powers": (lambda x: jnp.abs(x) ** 1.5 + x**3 + x**-1 + x**2, (X,)),
    "functions": (lambda x: jnp.exp(x) + jnp.log1p(x * x) + jnp.tanh(x) + lax.rsqrt(1 + x * x) + jnp.sinh(x), (X,)),
    "angles": (lambda x, y: jnp.sin(x) * jnp.cos(y) + jnp.arctan2(x, y) + jnp.arcsinh(x), (X, Y)),
    "special": (lambda x: lax.erf(x) + lax.lgamma(jnp.abs(x) + 1) + jax.nn.sigmoid(x) + lax.erf_inv(x / 4), (X,)),
    "exp2": (lambda x: jnp.exp2(x), (X,)),
    "gelu": (lambda x: jax.nn.gelu(x) + jax.nn.gelu(x, approximate=False), (X,)),
    "silu and relu": (lambda x: jax.nn.silu(x) + jax.nn.relu(x) + jax.nn.elu(x) + jax.nn.leaky_relu(x), (X,)),
    "softmax": (lambda x: jax.nn.softmax(x, axis=0) + jax.nn.log_softmax(x), (X,)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), (X,)),
    "clip and where": (lambda x, y: jnp.where(x > y, jnp.clip(x, -0.5, 0.5), y), (X, Y)),
    "shapes": (lambda x: jnp.transpose(x.reshape(2, 6))[:, None, :].squeeze(1)[::-1, ::1][1:5:2], (X,)),
    "broadcasting": (lambda x: x[:, None] + jnp.broadcast_to(x[0], (2, 4)), (X,)),
    "joining": (lambda x, y: jnp.concatenate([x, y], 1)[:, 1:] + jnp.stack([x, y], 0).reshape(3, 8)[:, :7], (X, Y)),
    "tiling": (lambda x: jnp.tile(x, (2, 3)) + jnp.tile(x[:1], (6, 3)) + jnp.tile(x[:, :1], (2, 12)), (X,)),
    "splitting": (lambda x: jnp.split(x, 2, axis=1)[0] * jnp.split(x, 2, axis=1)[1], (X,)),
    "padding": (lambda x: lax.pad(x, 1.5, [(1, 2, 1), (-1, 0, 2)]), (X,)),
    "padding as numpy's": (lambda x: jnp.pad(x, ((1, 2), (0, 3))), (X,)),
    "reductions": (lambda x: x.sum(0) + x.mean(0) + x.max(0) + x.min(0) + x.var(0) + jnp.prod(x, 0), (X,)),
    "cumulative": (lambda x: jnp.cumsum(x, 1) + jnp.cumprod(x, 0) + lax.cummax(x, 1, reverse=True), (X,)),
    "einsum": (lambda x, y: jnp.einsum("ij,kj->ik", x, y) @ x, (X, Y)),
    "batched product": (lambda x, y: jnp.einsum("bij,bjk->bik", x.reshape(2, 3, 2), y.reshape(2, 2, 3)), (X, Y)),
    "taking rows": (lambda x: x[jnp.array([2, 0, 2])] + jnp.take(x, jnp.array([1, 1, 0]), axis=0), (X,)),
    "taking columns": (lambda x: jnp.take(x, PLACES, axis=1), (X,)),
    "elements": (lambda x: x[jnp.array([0, 2]), jnp.array([1, 3])], (X,)),
    "along an axis": (lambda x: jnp.take_along_axis(x, jnp.argsort(X, 1), 1), (X,)),
    "sorting": (lambda x: jnp.sort(x, axis=1) + lax.top_k(x, 4)[0], (X,)),
    "adding at places": (lambda x, y: x.at[jnp.array([0, 2])].add(y[:2]).at[1].set(y[0]), (X, Y)),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (IMAGES, KERNEL),
    ),
    "transposed convolution": (
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (IMAGES, KERNEL),
    ),
    "max pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME"), (IMAGES,)),
    "sum pooling": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 1, 1), "VALID"), (IMAGES,)),
    "scan": (lambda x: lax.scan(lambda c, row: (jnp.tanh(c * 0.5 + row), c * row), X[0], x), (Y,)),
    "scan backwards": (lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(4), x, reverse=True)[1], (X,)),
    "a fixed number of times": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.9 + x / (i + 1.0), x), (X,)),
    "cond": (lambda x, y: lax.cond(x[0, 0] > 0, lambda a: a * 2, lambda a: jnp.sin(a) + y, x), (X, Y)),
    "a slice known later": (lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 3)), (X, np.int32(1))),
    "a slice replaced": (lambda x, y, i: lax.dynamic_update_slice(x, y[:2, :3], (i, 1)), (X, Y, np.int32(1))),
    "indexed by a number": (lambda x, i: x[i] + x[1], (X, np.int32(2))),
    "remat and jit": (lambda x: jax.checkpoint(jax.jit(lambda a: jnp.sin(a) * a))(x), (X,)),
    "vmap": (jax.vmap(lambda a, b: jnp.dot(a, b) * a), (X, Y)),
    "structures": (lambda x: {"b": (x + 1, [x * 2]), "a": x}, (X,)),
    "gradient of a function": (jax.grad(lambda x: (jnp.tanh(x) ** 2).sum()), (X,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.every(12)
def test_outputs_and_gradients_are_those_of_jax(name: str) -> None:
    function, args = FUNCTIONS[name]
    check(function, *args)


WITHOUT_GRADIENT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "comparisons": (lambda x, y: ((x < y) & (x != y)) | ~jnp.isfinite(x), (X, Y)),
    "integers": (lambda i: (i // 2, i % 3, i & 1, lax.div(i, 2), lax.rem(i, 3)), (np.arange(-4, 4, dtype=np.int32),)),
    "places": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x)), (X,)),
    "rounding": (lambda x: (jnp.round(x), jnp.floor(x), lax.round(x * 2), jnp.sign(x)), (X,)),
    "while": (lambda x: lax.while_loop(lambda c: c[1].sum() < 50, lambda c: (c[0] + 1, c[1] * 1.5 + 1), (0, x)), (X,)),
    "switch": (lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, lambda a: a * 3], x), (X, np.int32(2))),
    "casts": (lambda x: (x.astype(jnp.int32), (x > 0).astype(jnp.float32), x.astype(jnp.float16)), (X,)),
    "ramps": (lambda x: jnp.arange(4.0) * x + jnp.eye(3, 4) + jnp.tril(jnp.ones((3, 4))), (X,)),
    "one of many": (lambda i: jax.nn.one_hot(i, 5), (PLACES,)),
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
@pytest.mark.every(6)
def test_outputs_are_those_of_jax(name: str) -> None:
    function, args = WITHOUT_GRADIENT[name]
    check(function, *args, grads=False)


@pytest.mark.slow
def test_parameters_have_the_names_of_their_paths() -> None:
    params = {"layers": [{"kernel": X.T}, {"kernel": X}], "scale": np.float32(2.0), "steps": np.int32(3)}

    def network(params: Any, x: Any) -> Any:
        for layer in params["layers"]:
            x = jnp.tanh(x @ layer["kernel"])
        return x * params["scale"] + params["steps"]

    program = converter.from_jax(network, X, params=params)
    assert set(program.parameters) == {"layers.0.kernel", "layers.1.kernel", "scale"}
    np.testing.assert_allclose(program(X), network(jax.tree_util.tree_map(jnp.asarray, params), X), rtol=1e-5)
    _, gradients = program.value_and_grad(X)
    true = jax.grad(lambda p: network({**params, **p}, X).sum())({"layers": params["layers"], "scale": params["scale"]})
    np.testing.assert_allclose(
        gradients.parameters["layers.1.kernel"], true["layers"][1]["kernel"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
def test_a_module_of_flax_becomes_onnx_and_a_training_step(tmp_path: Any) -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self, rngs: Any) -> None:
            self.conv = nnx.Conv(3, 4, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(4, use_running_average=True, rngs=rngs)
            self.out = nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.out(nnx.relu(self.norm(self.conv(x))).mean((1, 2)))

    module = Network(nnx.Rngs(0))
    program = converter.from_jax(module, IMAGES)
    assert {"conv.kernel", "norm.scale", "out.bias"} <= set(program.parameters)
    assert set(program.buffers) == {"norm.mean", "norm.var"}
    expected = module(IMAGES)
    converter.to_onnx(program, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    (given,) = session.run(None, {session.get_inputs()[0].name: IMAGES})
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)
    step = runtime.compile_train_step(program, runtime.nn.MSELoss(), lambda p: runtime.optim.SGD(p, lr=0.1))
    target = np.zeros((2, 2), np.float32)
    losses = [float(as_array(step(IMAGES, target))) for _ in range(3)]
    assert losses[2] < losses[0]


def test_modules_of_linen_and_equinox() -> None:
    linen, equinox = pytest.importorskip("flax.linen"), pytest.importorskip("equinox")
    dense = linen.Dense(5)
    variables = dense.init(jax.random.key(0), X)
    program = converter.from_jax(dense, X, params=variables)
    assert set(program.parameters) == {"kernel", "bias"}
    np.testing.assert_allclose(program(X), dense.apply(variables, X), rtol=1e-5, atol=1e-6)
    linear = equinox.nn.Linear(4, 2, key=jax.random.key(1))
    program = converter.from_jax(linear, X[0])
    np.testing.assert_allclose(program(X[0]), linear(X[0]), rtol=1e-5, atol=1e-6)
    with pytest.raises(UsageError, match="needs its variables"):
        converter.from_jax(dense, X)


def test_what_cannot_be_translated_is_listed() -> None:
    with pytest.raises(
        UnsupportedOperators, match=r"(?s)2 uses.*cholesky.*igamma_grad_a|2 uses.*igamma_grad_a.*cholesky"
    ):
        converter.from_jax(lambda x: jnp.linalg.cholesky(x @ x.T)[:, :1] + lax.igamma_grad_a(abs(x), abs(x)), X)
    with pytest.raises(UnsupportedOperators, match="random_seed"):
        converter.from_jax(lambda x, seed: x + jax.random.normal(jax.random.key(seed), x.shape), X, np.int32(0))


@jax.jit
def jitted(x: Any) -> Any:
    return jnp.sin(jnp.where(x > 0, x, 0))


def lines(x: Any) -> Any:
    first = jnp.where(x > 1, x, 0)  # JAX compiles `where` by itself, once
    second = jnp.where(first > 2, first, 0)
    return jitted(second)


def test_a_node_has_the_line_that_it_comes_from() -> None:
    program = converter.from_jax(lines, X)
    sources = [node.source for node in program.nodes if node.op in ("where", "sin")]
    assert [source.text.split("  #")[0] for source in sources if source is not None] == [
        "first = jnp.where(x > 1, x, 0)",
        "second = jnp.where(first > 2, first, 0)",
        "return jnp.sin(jnp.where(x > 0, x, 0))",
        "return jnp.sin(jnp.where(x > 0, x, 0))",
    ]
    assert {source.file for source in sources if source is not None} == {__file__}
    with pytest.raises(UnsupportedOperators, match=r"cholesky\n.*test_from_jax.py:\d+: converter.from_jax"):
        converter.from_jax(lambda x: jnp.linalg.cholesky(x @ x.T), X)


def test_nodes_of_a_librarys_network_have_no_line() -> None:
    program = converter.from_jax(jax.nn.softmax, X)
    assert {node.source.file for node in program.nodes if node.source is not None} == {""}


def test_random_numbers_of_a_fixed_key_are_constants() -> None:
    check(lambda x: x + jax.random.normal(jax.random.key(0), (3, 4)), X)


def test_a_function_that_fails_is_said() -> None:
    with pytest.raises(ConversionError, match="can't be traced by JAX: TypeError"):
        converter.from_jax(lambda x: x @ X, X)


def test_a_gradient_of_ones_own_is_replaced_with_a_warning() -> None:
    @functools.partial(jax.custom_vjp)
    def clipped(x: Any) -> Any:
        return x * 2

    clipped.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 0,))
    with pytest.warns(ConversionWarning, match=r"jax\.custom_vjp"):
        program = converter.from_jax(clipped, X)
    np.testing.assert_allclose(program(X), X * 2)
