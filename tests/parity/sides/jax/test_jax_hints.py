"""A network in JAX that is given as it is: the message says how `jax_side` makes a candidate of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

pytest.importorskip("flax")
pytest.importorskip("equinox")

import equinox as eqx
import jax
import torch
from click.testing import CliRunner
from flax import linen, nnx
from torch import nn

from cellbridge import parity
from cellbridge.parity import jax_side
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import UsageError


class Transformed(NamedTuple):
    """What `haiku.transform` returns."""

    init: Any = None
    apply: Any = None


Transformed.__module__ = "haiku._src.transform"


def dense(params: Any, x: Any) -> Any:
    return x @ params


NETWORKS = {
    "jax_side(network)": [nnx.Linear(4, 3, rngs=nnx.Rngs(0)), eqx.nn.Linear(4, 3, key=jax.random.key(0))],
    "jax_side(network, variables)": [linen.Dense(3)],
    "jax_side(function, params)": [jax.jit(dense), dense],
    "jax_side(lambda params, *inputs: network.apply(params, None, *inputs), params)": [Transformed()],
}
CASES = [(how, network) for how, networks in NETWORKS.items() for network in networks]


@pytest.mark.parametrize(("how", "network"), CASES)
def test_a_bare_network_is_told_how_it_is_given(how: str, network: Any) -> None:
    module, x = nn.Linear(4, 3), (torch.randn(2, 4),)
    calls = [
        lambda: parity.compare(module, network, x),
        lambda: parity.assert_parity(module, network, x),
        lambda: parity.compare(module, network, x, names="names.toml"),
        lambda: parity.compare(module, network, x, weights={}),
        lambda: parity.check(module, x, cell=network),
    ]
    for call in calls:
        with pytest.raises(UsageError) as error:
            call()
        assert f"parity.compare(module, {how}, inputs)" in str(error.value)
    with pytest.raises(UsageError, match="the torch module is the reference"):
        parity.compare(network, module, x)


def test_other_objects_get_no_hint() -> None:
    module, x = nn.Linear(4, 3), (torch.randn(2, 4),)
    for candidate, words in ((3, "int"), ({}, "dict"), (nnx.Linear, "the class Linear")):
        with pytest.raises(UsageError, match=rf"given {words}$"):
            parity.compare(module, candidate, x)
    with pytest.raises(UsageError, match=r"given int$"):
        parity.check(module, x, cell=3)


def test_a_side_as_the_reference_is_refused() -> None:
    with pytest.raises(UsageError, match="the torch module is the reference"):
        parity.compare(jax_side(dense, torch.ones(4, 3).numpy()), nn.Linear(4, 3), (torch.randn(2, 4),))


REFERENCE = "import torch\nmodel = torch.nn.Linear(4, 3)\ninputs = (torch.ones(2, 4),)\n"
PORTS = {
    "linen": ("from flax import linen\ndef model(): return linen.Dense(3)", "jax_side(network, variables)"),
    "jitted": ("import jax\n@jax.jit\ndef model(p, x): return x @ p", "jax_side(function, params)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", ["def model(): return nnx.Linear(4, 3, rngs=nnx.Rngs(0))", "model = nnx.Linear(4, 3, rngs=nnx.Rngs(0))"]
)
def test_a_network_that_has_its_parameters_is_compared(
    source: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "port_nnx.py").write_text(f"from flax import nnx\n{source}")
    result = CliRunner().invoke(main, ["compare", "reference.py", "port_nnx.py"], catch_exceptions=False)
    assert result.exit_code == 1  # its weights are others
    assert "Parity fails" in result.output


@pytest.mark.parametrize("kind", PORTS)
def test_a_file_whose_model_is_in_jax(kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, how = PORTS[kind]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / f"port_{kind}.py").write_text(source)
    result = CliRunner().invoke(main, ["compare", "reference.py", f"port_{kind}.py"], catch_exceptions=False)
    assert result.exit_code == 2
    assert f"    def cell():\n        return {how}\n" in result.output


@pytest.mark.parametrize(
    "cell", ["cell = linen.Dense(3)", "def cell(): return linen.Dense(3)", "cell = jax.jit(lambda p, x: x @ p)"]
)
def test_a_port_that_needs_its_parameters(cell: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ported.py").write_text(f"{REFERENCE}import jax\nfrom flax import linen\n{cell}\n")
    result = CliRunner().invoke(main, ["run", "ported.py"], catch_exceptions=False)
    assert result.exit_code == 2
    assert "jax_side(" in result.output
