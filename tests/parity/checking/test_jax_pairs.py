"""Networks in JAX of other names: their programs are aligned by values, and they are compared themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flax")

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen
from torch import nn

from cellbridge import parity
from cellbridge.parity import jax_side
from cellbridge.parity.checking.jax_pairs import share_of_names
from cellbridge.parity.sides.jax.network import JaxNetwork
from cellbridge.parity.sides.jax_side import JaxSide
from cellbridge.parity.sides.records import OUTPUT, Key
from cellbridge.parity.sides.run import Call, ReferenceRun, Run
from cellbridge.parity.sides.torch_side import TorchSide
from tests.parity.checking.feed_forward import CELLS, EPS, Network, Talkative, arrays, make
from tests.parity.sides.jax.networks import array


def port(module: Network, fault: str = "") -> JaxSide:
    """Return a function of JAX with the module's weights, which adds a bias after the residual."""

    def network(params: Any, ids: Any) -> Any:
        x = params["table"][ids]
        y = x - x.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + EPS) * params["gain"] + params["shift"]
        y = jax.nn.gelu(y @ params["wide"] + params["wide_bias"], approximate=fault == "gelu")
        x = x + y @ params["narrow"] + params["narrow_bias"]
        return x @ params["out"] + params["out_bias"]

    return jax_side(network, {name: jnp.asarray(array) for name, array in arrays(module, fault).items()})


def test_a_function_of_other_names_is_compared_cell_by_cell() -> None:
    module, inputs = make(Talkative)
    report = parity.compare(module, port(module), inputs)
    assert report.ok, str(report)
    assert report.conditions.remarks == ["in 1 of 3 results"]
    assert (report.reference, report.sides) == ("torch", ["jax"])
    assert {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)} >= CELLS
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert compared == dict(module.named_parameters()).keys()


@pytest.mark.causes
@pytest.mark.parametrize(
    ("fault", "cell", "words"),
    [
        ("gelu", "block.activation", "approximate is 'tanh' in the candidate"),
        ("transposed", "block.up", r"block.up.weight is (read )?transposed in the candidate"),
    ],
)
def test_a_fault_is_placed_and_named(fault: str, cell: str, words: str) -> None:
    module, inputs = make()
    report = parity.compare(module, port(module, fault), inputs)
    assert report.failing == [cell], str(report)
    assert any(re.match(words, cause.summary) for cause in report.cells[cell].causes), str(report)
    assert 'y = jax.nn.gelu(y @ params["wide"]' in str(report)  # the line that it comes from


def decomposed(x: Any) -> Any:
    """Return the tensor, but use a primitive that no program has."""
    return x + 0 * jnp.linalg.cholesky(jnp.eye(2) * (1 + jax.lax.stop_gradient(x[0, 0]) ** 2))[0, 0]


@jax.custom_vjp
def halved(x: Any) -> Any:
    """Return the tensor, whose gradient is halved."""
    return x


halved.defvjp(lambda x: (x, None), lambda _, g: (g / 2,))


@pytest.mark.parametrize(
    ("change", "note", "holds"),
    [
        (decomposed, "unsupported primitives of JAX (cholesky)", True),
        (halved, "in the jax isn't that of its captured program", False),
    ],
)
def test_what_has_no_program_is_paired_by_names_with_a_note(
    change: Callable[[Any], Any], note: str, *, holds: bool
) -> None:
    module, x = nn.Linear(4, 3), torch.randn(2, 4, requires_grad=True)
    params = {"w": array(module.weight), "b": array(module.bias)}
    report = parity.compare(module, jax_side(lambda p, x: change(x @ p["w"].T + p["b"]), params), (x,))
    assert any(text.startswith("Cells were paired by names") and note in text for text in report.notes), report.notes
    assert report.ok == holds, str(report)
    assert "with the gradients of 0 of 2 parameters" in report.conditions_in_words


def test_names_that_the_user_gives_decide(tmp_path: Any) -> None:
    module, inputs = make()
    (tmp_path / "names.toml").write_text('[parameters]\n"head.bias" = "out_bias"\n')
    report = parity.compare(module, port(module), inputs, names=tmp_path / "names.toml")
    assert {path for path, cell in report.cells.items() if cell.comparisons} <= {"", "head"}


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 10), nn.LayerNorm(10), nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.norm(self.first(x))))


class Port(linen.Module):
    """The same in Flax, which also returns hidden features."""

    names: tuple[str, str, str]
    returned: Callable[[Any, Any], Any]
    eps: float = 1e-5

    @linen.compact
    def __call__(self, x: Any) -> Any:
        first, norm, last = self.names
        hidden = linen.LayerNorm(epsilon=self.eps, name=norm)(linen.Dense(10, name=first)(x))
        return self.returned(linen.Dense(3, name=last)(linen.relu(hidden)), hidden)


RETURNED: dict[str, Callable[[Any, Any], Any]] = {
    "a tensor": lambda y, hidden: y,
    "a tuple": lambda y, hidden: (hidden, y),
    "a dict": lambda y, hidden: {"scores": y, "hidden": hidden},
}


def ported(returned: str, names: tuple[str, str, str], eps: float = 1e-5) -> tuple[Norms, JaxSide, torch.Tensor]:
    torch.manual_seed(0)
    module, x = Norms().eval(), torch.randn(4, 6)
    state = {name: jnp.asarray(tensor.numpy()) for name, tensor in module.state_dict().items()}
    dense = {
        port: {"kernel": state[f"{name}.weight"].T, "bias": state[f"{name}.bias"]}
        for port, name in ((names[0], "first"), (names[2], "last"))
    }
    norm = {names[1]: {"scale": state["norm.weight"], "bias": state["norm.bias"]}}
    return module, jax_side(Port(names, RETURNED[returned], eps), {"params": dense | norm}), x


@pytest.mark.parametrize("names", [("first", "norm", "last"), ("dense_a", "ln", "out")], ids=["names", "values"])
@pytest.mark.parametrize("returned", RETURNED)
def test_what_a_network_returns_beside_the_modules_results_does_not_fail(
    returned: str, names: tuple[str, str, str]
) -> None:
    module, side, x = ported(returned, names)
    report = parity.compare(module, side, (x,))
    assert report.ok, str(report)
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    # the scale and the bias of a norm are 1 and 0 at first
    assert compared == dict(module.named_parameters()).keys()
    lone = [difference.text for difference in report.structure if "has no partner" in difference.text]
    assert bool(lone) == (returned != "a tensor")


@pytest.mark.parametrize("names", [("first", "norm", "last"), ("dense_a", "ln", "out")], ids=["names", "values"])
def test_a_fault_is_placed_where_a_network_returns_more(names: tuple[str, str, str]) -> None:
    module, side, x = ported("a dict", names, eps=1e-2)
    assert parity.compare(module, side, (x,)).failing == ["norm"]


def test_the_share_of_names() -> None:
    module = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(5, 4), nn.Linear(4, 3)]), "head": nn.Linear(3, 2)})
    layers = {name: {"kernel": np.zeros(1)} for name in ("layers_0", "layers_1", "other")}
    params = {"params": layers}
    assert share_of_names(module, jax_side(linen.Dense(3), params)) == pytest.approx(2 / 3)
    assert share_of_names(module, jax_side(lambda params, x: x, params)) == 0  # a function has no modules
    assert share_of_names(nn.Linear(5, 4), jax_side(lambda params, x: x, {"kernel": 0.0})) == 1
    assert share_of_names(nn.ReLU(), jax_side(lambda params, x: x, ())) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_network_itself_is_run_on_any_inputs_of_its_sizes(dtype: str) -> None:
    module, (ids,) = make()
    network = JaxNetwork(port(module), (ids,), {}, working_dtype=dtype)
    reference = TorchSide("torch", module, (ids,), {}, working_dtype=dtype)
    for given in (ids, ids.flip(0), ids):  # compiled once, for all of them
        truth = reference.run(Run("float64", call=Call(arguments=((given,), {}))))
        of = ReferenceRun.of(truth, truth.gradients.cotangents)
        records = network.run(Run("float64", reference=of, call=Call(arguments=((given,), {}))))
        key = Key("", 0, OUTPUT, "['logits']")
        np.testing.assert_allclose(records.values[key], truth.values[key], rtol=1e-12)
        table = truth.gradients.parameters["words.weight"]
        np.testing.assert_allclose(records.gradients.parameters["table"], table, atol=1e-12)
    assert len(network.compiled) == 1


def test_what_makes_the_networks_arguments_is_a_part_of_its_program() -> None:
    torch.manual_seed(0)
    module, x = nn.Conv2d(3, 4, 2, stride=2), torch.randn(2, 3, 4, 6)
    kernel = module.weight.detach().permute(2, 3, 1, 0).reshape(-1, 4).numpy()

    def network(params: Any, images: Any) -> Any:
        y = images.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, -1)
        return jnp.moveaxis(y @ params["patches"] + params["shift"], -1, 1)

    params = {"patches": jnp.asarray(kernel), "shift": jnp.asarray(module.bias.detach().numpy())}
    side = jax_side(network, params, inputs=lambda x: (x.transpose(0, 2, 3, 1),))
    report = parity.compare(module, side, (x.requires_grad_(),))
    assert report.ok, str(report)
    kinds = {(c.kind, c.tensor) for c in report.cells[""].comparisons}
    assert {("input gradient", "input"), ("parameter gradient", "weight")} <= kinds


class TwoBiases(nn.Module):
    """A product with two biases, of which a port has the sum, and another product."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(4, 6)
        self.also = nn.Parameter(torch.randn(6))
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(torch.tanh(self.wide(x) + self.also))
        return result


def summed(module: TwoBiases, bias_error: float) -> JaxSide:
    """Return a function with the sum of both biases, rounded to float32, times 1 + an error."""

    def network(params: Any, x: Any) -> Any:
        return jnp.tanh(x @ params["wide"] + params["bias"]) @ params["out"] + params["shift"]

    weights = {
        "wide": module.wide.weight.T,
        "bias": (module.wide.bias + module.also) * (1 + bias_error),
        "out": module.out.weight.T,
        "shift": module.out.bias,
    }
    return jax_side(network, {name: jnp.asarray(weight.detach().numpy()) for name, weight in weights.items()})


@pytest.mark.parametrize(("bias_error", "holds"), [(0, True), (1e-5, False)])
def test_the_sum_of_two_biases_may_be_rounded(bias_error: float, holds: bool) -> None:
    torch.manual_seed(0)
    module = TwoBiases().eval()
    report = parity.compare(module, summed(module, bias_error), torch.randn(2, 3, 4), probe=False)
    assert report.ok is holds, str(report)
