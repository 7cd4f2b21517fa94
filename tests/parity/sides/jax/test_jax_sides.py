"""A torch module compared with networks in JAX: Cells, gradients, float64, names and layouts."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("flax")
pytest.importorskip("equinox")

import jax
import jax.numpy as jnp
import torch
from click.testing import CliRunner
from flax import nnx
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.parity import jax_side
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import UsageError
from tests.parity.sides.jax.networks import EqxDense, EqxNetwork, LinenNetwork, array, linen_variables, make, nnx_port


def kinds(report: Any, path: str) -> set[tuple[str, str]]:
    return {(c.check, c.kind) for c in report.cells[path].comparisons}


EVERYTHING = {
    (check, kind) for check in ("meaning", "rounding") for kind in ("output", "input gradient", "parameter gradient")
}


@pytest.mark.slow
def test_a_module_of_nnx_agrees_cell_by_cell() -> None:
    module, x = make()
    report = parity.compare(module, jax_side(nnx_port(module)), (x,))
    assert report.ok, str(report)
    for path in ("blocks.0.norm", "blocks.1.attention.key", "head"):
        assert kinds(report, path) >= EVERYTHING
        assert ("meaning", "parameter") in kinds(report, path)


def test_a_module_of_linen_agrees_cell_by_cell() -> None:
    module, x = make()
    report = parity.compare(module, jax_side(LinenNetwork(), linen_variables(module)), (x,))
    assert report.ok, str(report)
    for path in ("blocks.0.norm", "blocks.1.attention.key", "head"):
        assert kinds(report, path) >= EVERYTHING


@pytest.mark.slow
def test_a_module_of_equinox_agrees_cell_by_cell() -> None:
    torch.manual_seed(0)
    module = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 3)])})

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = module["layers"]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[1](self.layers[0](x).relu())

    port = EqxNetwork([EqxDense(array(layer.weight), array(layer.bias)) for layer in module["layers"]])
    report = parity.compare(Net(), jax_side(port), (torch.randn(5, 4),))
    assert report.ok, str(report)
    assert kinds(report, "layers.1") >= EVERYTHING


def test_a_function_is_compared_as_a_whole() -> None:
    module = nn.Linear(4, 3)
    params = {"weight": array(module.weight), "bias": array(module.bias)}

    def function(params: Any, x: Any) -> Any:
        return x @ params["weight"].T + params["bias"]

    report = parity.compare(module, jax_side(function, params), (torch.randn(5, 4),))
    assert report.ok, str(report)
    assert kinds(report, "") >= EVERYTHING


@pytest.mark.causes
@pytest.mark.slow
def test_another_epsilon_is_found_and_its_cause_proved() -> None:
    module, x = make()
    report = parity.compare(module, jax_side(nnx_port(module, epsilon=1e-5)), (x,), diagnose_seconds=60)
    assert report.failing == ["blocks.0.norm", "blocks.1.norm"]
    for path in report.failing:
        assert any("eps is 1e-05 in the candidate" in cause.summary for cause in report.cells[path].causes), str(report)


@pytest.mark.slow
def test_a_transposed_square_weight_is_found() -> None:
    module, x = make()
    port = nnx_port(module)
    port.blocks[1].attention.key.kernel[...] = port.blocks[1].attention.key.kernel[...].T
    report = parity.compare(module, jax_side(port), (x,), diagnose_seconds=0)
    assert report.failing == ["blocks.1.attention.key"]
    assert any(c.kind == "parameter" and c.status == "fail" for c in report.cells["blocks.1.attention.key"].comparisons)


@pytest.mark.slow
def test_a_stopped_gradient_is_found() -> None:
    module, x = make()
    port = nnx_port(module)

    class Stopping(nnx.Linear):
        def __call__(self, inputs: Any) -> Any:
            return super().__call__(jax.lax.stop_gradient(inputs))

    fc = port.blocks[0].fc
    stopping = Stopping(fc.in_features, fc.out_features, rngs=nnx.Rngs(0))
    stopping.kernel[...], stopping.bias[...] = fc.kernel[...], fc.bias[...]
    port.blocks[0].fc = stopping
    assert parity.compare(module, jax_side(port), (x,), diagnose_seconds=0).failing == ["blocks.0.fc"]


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 4, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.norm(self.conv1(x)).relu())


class NnxImages(nnx.Module):
    def __init__(self, module: Images, padding: str = "SAME") -> None:
        rngs = nnx.Rngs(0)
        self.conv1 = nnx.Conv(3, 8, (3, 3), padding=padding, rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.conv2 = nnx.Conv(8, 4, (3, 3), strides=2, padding="VALID", rngs=rngs)
        for torch_conv, flax_conv in ((module.conv1, self.conv1), (module.conv2, self.conv2)):
            flax_conv.kernel[...] = array(torch_conv.weight.permute(2, 3, 1, 0))
            flax_conv.bias[...] = array(torch_conv.bias)
        for name, value in (("scale", "weight"), ("bias", "bias"), ("mean", "running_mean"), ("var", "running_var")):
            getattr(self.norm, name)[...] = array(getattr(module.norm, value))

    def __call__(self, x: Any) -> Any:
        return self.conv2(jax.nn.relu(self.norm(self.conv1(x))))


@pytest.mark.slow
def test_images_with_channels_last_are_compared_in_torchs_layout() -> None:
    torch.manual_seed(0)
    module, x = Images().eval(), torch.randn(2, 3, 8, 9)
    module.norm.running_mean.normal_()
    side = jax_side(NnxImages(module), inputs=lambda x: (x.transpose(0, 2, 3, 1),))
    report = parity.compare(module, side, (x,))
    # torch's epsilon is 1e-5, and so is Flax's
    assert report.ok, str(report)
    assert kinds(report, "conv1") >= EVERYTHING
    module.norm.eps = 1e-3
    assert parity.compare(module, side, (x,), diagnose_seconds=0).failing == ["norm"]


@pytest.mark.slow
def test_names_that_differ_are_given_by_a_map(tmp_path: Any) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    params = linen_like = {
        "first": {"w": array(module[0].weight.T), "bias": array(module[0].bias)},
        "last": {"w": array(module[2].weight.T), "bias": array(module[2].bias)},
    }

    def function(p: Any, x: Any) -> Any:
        x = jnp.tanh(x @ p["first"]["w"] + p["first"]["bias"])
        return x @ p["last"]["w"] + p["last"]["bias"]

    (tmp_path / "names.toml").write_text(
        '[parameters]\n"0.weight" = { parameter = "first.w", transpose = [1, 0] }\n'
        '"2.weight" = { parameter = "last.w", transpose = [1, 0] }\n"0.bias" = "first.bias"\n"2.bias" = "last.bias"\n'
    )
    names = tmp_path / "names.toml"
    x = (torch.randn(3, 4),)
    assert parity.compare(module, jax_side(function, params), x, names=names).ok
    wrong = {**linen_like, "last": {**linen_like["last"], "bias": linen_like["last"]["bias"] + 1e-3}}
    report = parity.compare(module, jax_side(function, wrong), x, names=names, diagnose_seconds=0)
    assert not report.ok
    assert any(c.kind == "parameter" and c.status == "fail" for c in report.cells["2"].comparisons)


def test_assertions_take_networks_in_jax() -> None:
    module, x = make()
    parity.assert_parity(module, jax_side(nnx_port(module)), (x,))


def test_what_cannot_be_compared_is_said() -> None:
    module, x = make()
    with pytest.raises(UsageError, match="needs its variables"):
        jax_side(LinenNetwork())
    with pytest.raises(UsageError, match="leave `params` out"):
        jax_side(nnx_port(module), {})
    with pytest.raises(UsageError, match=r"needed a flax\.nnx\.Module"):
        jax_side(3)
    with pytest.raises(UsageError, match="when the network was run"):
        parity.compare(module, jax_side(lambda params, x: undefined), (x,))  # noqa: F821
    with pytest.raises(UsageError, match="compared with a torch module, given Program"):
        parity.compare(from_torch(module, (x,)), jax_side(nnx_port(module)), (x,))


def test_without_jax_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    for name in ("sides.jax.network", "sides.jax.recording"):
        monkeypatch.delitem(sys.modules, f"cellbridge.parity.{name}", raising=False)
    with pytest.raises(UsageError, match=r"needs jax: pip install 'cellbridge\[jax\]'"):
        parity.compare(nn.Identity(), jax_side(lambda params, x: x), (torch.ones(3),))


def test_all_given_inputs_are_compared() -> None:
    module = nn.Linear(4, 3)
    params = {"weight": array(module.weight), "bias": array(module.bias)}
    side = jax_side(lambda params, x: jnp.abs(x) @ params["weight"].T + params["bias"], params)
    x = torch.rand(5, 4)
    assert parity.compare(module, side, (x,)).ok
    assert not parity.compare(module, side, (x,), more_inputs=[((-x,), {})], diagnose_seconds=0).ok


MODEL = """
from tests.parity.sides.jax.networks import make, nnx_port
model, x = make()
inputs = (x,)
def cell():
    return nnx_port(model, epsilon=EPSILON)
"""


@pytest.mark.slow
def test_a_model_file_may_have_a_port_in_jax(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    (tmp_path / "model.py").write_text(MODEL.replace("EPSILON", "1e-6"))
    good = run(main, ["run", "model.py"], catch_exceptions=False)
    assert good.exit_code == 0, good.output
    assert "jax (outputs and gradients)" in " ".join(good.output.split())
    (tmp_path / "bad.py").write_text(MODEL.replace("EPSILON", "1e-4"))
    bad = run(main, ["run", "bad.py", "--diagnose-seconds", "0"], catch_exceptions=False)
    assert bad.exit_code == 1
    assert "Parity fails in 2 Cells: blocks.0.norm, blocks.1.norm" in bad.output


@pytest.mark.parametrize("fault", [0.0, 0.01])
@pytest.mark.every(2)
def test_as_many_channels_as_rows_and_columns(fault: float) -> None:
    torch.manual_seed(0)
    module, x = nn.Conv2d(4, 4, 1), torch.randn(2, 4, 4, 4)
    params = {"weight": array(module.weight), "bias": array(module.bias) + fault}

    def function(p: Any, x: Any) -> Any:
        return x @ p["weight"][:, :, 0, 0].T + p["bias"]

    side = jax_side(function, params, inputs=lambda x: (x.transpose(0, 2, 3, 1),))
    report = parity.compare(module, side, (x,), diagnose_seconds=0)
    assert report.ok is (not fault), str(report)


@pytest.mark.slow
@pytest.mark.causes
def test_a_missing_transposition_and_another_gelu_are_found_together() -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(6, 6), nn.GELU()), torch.randn(5, 6)
    params = {"0": {"weight": array(module[0].weight), "bias": array(module[0].bias)}}

    def function(p: Any, x: Any) -> Any:
        return jax.nn.gelu(x @ p["0"]["weight"] + p["0"]["bias"])

    report = parity.compare(module, jax_side(function, params), (x,))
    causes = {path: [cause.summary for cause in cell.causes] for path, cell in report.cells.items() if cell.causes}
    assert causes == {
        "0": ["0.weight is read transposed in the candidate"],
        "1": ["approximate is 'tanh' in the candidate, 'none' in the reference"],
    }, str(report)
