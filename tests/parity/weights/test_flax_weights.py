"""`parity weights --to flax`: Flax computes with the converted weights what torch computes, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.numpy import load_file, save_file
from torch import nn

from cellbridge.parity.cli import main


def weights(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["weights", *arguments], catch_exceptions=False)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net = nn.ModuleDict(
        {
            "conv": nn.Conv2d(3, 4, (3, 2)),
            "norm": nn.BatchNorm2d(4),
            "fc": nn.Linear(4, 4),
            "ln": nn.LayerNorm(4),
            "words": nn.Embedding(5, 4),
            "out": nn.Linear(4, 2, bias=False),
            "conv1": nn.Conv1d(4, 4, 3),
        }
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_()
        net["norm"].running_var.uniform_(0.5, 2)
    torch.save(net.state_dict(), "net.pt")
    Path("map.toml").write_text(
        '"words.weight" = "words.embedding"\n"out.weight" = { to = "out.kernel", transpose = true }\n'
    )
    return net


@pytest.mark.slow
def test_flax_computes_the_same(module: nn.ModuleDict) -> None:
    nnx, jnp = pytest.importorskip("flax.nnx"), pytest.importorskip("jax.numpy")
    assert weights("net.pt", "-o", "net.safetensors", "--to", "flax", "--map", "map.toml").exit_code == 0
    arrays = load_file("net.safetensors")
    module.eval()

    def load(layer: object, name: str) -> object:
        for key, value in arrays.items():
            path, _, leaf = key.rpartition(".")
            if path == name:
                getattr(layer, leaf).set_value(jnp.asarray(value))
        return layer

    x = torch.randn(2, 3, 6, 5)
    image = x.permute(0, 2, 3, 1).numpy()
    conv = load(nnx.Conv(3, 4, (3, 2), padding="VALID", rngs=nnx.Rngs(0)), "conv")
    norm = load(nnx.BatchNorm(4, use_running_average=True, rngs=nnx.Rngs(0)), "norm")
    expected = module["norm"](module["conv"](x)).permute(0, 2, 3, 1).detach()
    np.testing.assert_allclose(norm(conv(image)), expected, rtol=1e-4, atol=1e-4)
    row = torch.randn(3, 4)
    for name, layer in {
        "fc": nnx.Linear(4, 4, rngs=nnx.Rngs(0)),
        "ln": nnx.LayerNorm(4, epsilon=1e-5, rngs=nnx.Rngs(0)),
        "out": nnx.Linear(4, 2, use_bias=False, rngs=nnx.Rngs(0)),
    }.items():
        given = load(layer, name)(row.numpy())  # type: ignore[operator]
        np.testing.assert_allclose(given, module[name](row).detach(), rtol=1e-4, atol=1e-4)
    sequence = torch.randn(2, 4, 7)
    conv1 = load(nnx.Conv(4, 4, (3,), padding="VALID", rngs=nnx.Rngs(0)), "conv1")
    given = conv1(sequence.mT.numpy())  # type: ignore[operator]
    np.testing.assert_allclose(given, module["conv1"](sequence).mT.detach(), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(arrays["words.embedding"], module["words"].weight.detach())


def test_the_way_back_restores_every_tensor(module: nn.ModuleDict) -> None:
    weights("net.pt", "-o", "net.safetensors", "--to", "flax", "--map", "map.toml")
    assert weights("net.safetensors", "-o", "back.pt", "--to", "torch").exit_code == 0
    before, after = torch.load("net.pt"), torch.load("back.pt")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_variables_that_flax_wrote_become_torchs(module: nn.ModuleDict) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "fc.kernel": rng.normal(size=(3, 5)),
        "fc.bias": rng.normal(size=5),
        "conv.kernel": rng.normal(size=(2, 3, 4, 6)),
        "norm.scale": rng.normal(size=5),
        "norm.mean": rng.normal(size=5),
        "norm.var": rng.normal(size=5),
        "words.embedding": rng.normal(size=(7, 2)),
        "mean": rng.normal(size=2),
    }
    save_file(arrays, "flax.safetensors")
    assert weights("flax.safetensors", "-o", "torch.safetensors", "--to", "torch").exit_code == 0
    given = load_file("torch.safetensors")
    np.testing.assert_array_equal(given["fc.weight"], arrays["fc.kernel"].T)
    np.testing.assert_array_equal(given["conv.weight"], arrays["conv.kernel"].transpose(3, 2, 0, 1))
    expected = {"fc.weight", "fc.bias", "conv.weight", "norm.weight", "norm.running_mean", "norm.running_var"}
    assert set(given) == expected | {"words.weight", "mean"}


def test_what_names_do_not_say_is_asked(module: nn.ModuleDict) -> None:
    result = weights("net.pt", "-o", "net.safetensors", "--to", "flax")
    assert result.exit_code == 2
    assert "parameters are in Flax" in result.output
    assert '"out.weight" = { to = "out.kernel", transpose = true }' in result.output
    assert not Path("net.safetensors").exists()


@pytest.mark.parametrize(("files", "to"), [(("net.pt", "net.pth"), "flax"), (("net.pt", "x.safetensors"), "torch")])
def test_other_kinds_of_files_are_refused(module: nn.ModuleDict, files: tuple[str, str], to: str) -> None:
    result = weights(files[0], "-o", files[1], "--to", to)
    assert result.exit_code == 2
    assert "variables of Flax are in a .safetensors file" in result.output


def test_a_record_that_is_damaged_is_one_message(module: nn.ModuleDict) -> None:
    save_file({"fc.kernel": np.ones((2, 2))}, "bad.safetensors", {"from_torch": "[1"})
    result = weights("bad.safetensors", "-o", "x.pt", "--to", "torch")
    assert result.exit_code == 2
    assert "metadata is damaged" in result.output
