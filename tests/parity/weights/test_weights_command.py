"""`parity weights`: round trips, loading into Cells, and output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner, Result

from cellbridge.parity import assert_parity
from cellbridge.parity.assertions import UnpairedWarning
from cellbridge.parity.cli import main
from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
from tests.parity.weights.ports import PORTS, Port

State = dict[str, torch.Tensor]


def weights(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["weights", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def assert_same(first: State, second: State) -> None:
    assert list(first) == list(second)
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype, name
        assert tensor.shape == second[name].shape, name
        assert torch.equal(tensor, second[name]), name


def map_of(port: Port) -> list[str]:
    Path("names.toml").write_text(port.map)
    return ["--map", "names.toml"] if port.map else []


# --- round trips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
def test_there_and_back(port: Port) -> None:
    """With the map and without it: what was decided on the way there is in the checkpoint."""
    state = port.trained().state_dict()
    torch.save(state, "net.pt")
    weights("net.pt", "-o", "net.ckpt", *map_of(port))
    for options in ([], map_of(port)):
        weights("net.ckpt", "-o", "back.pt", *options)
        back = torch.load("back.pt", weights_only=True)
        assert_same(dict(sorted(state.items())), dict(sorted(back.items())))
        port.module().load_state_dict(back)


@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
def test_a_hand_written_network_loads_it(port: Port) -> None:
    module, cell = port.trained(), port.cell()
    torch.save(module.state_dict(), "net.pt")
    weights("net.pt", "-o", "net.ckpt", *map_of(port))
    assert load_param_into_net(cell, load_checkpoint("net.ckpt"), strict_load=True) == ([], [])
    outputs = cell(Tensor(port.input.numpy())).asnumpy()
    np.testing.assert_allclose(outputs, module(port.input).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings(f"ignore::{UnpairedWarning.__module__}.{UnpairedWarning.__name__}")
@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
@pytest.mark.every(3)
def test_it_is_at_parity(port: Port) -> None:
    module, cell = port.trained(), port.cell()
    torch.save(module.state_dict(), "net.pt")
    weights("net.pt", "-o", "net.ckpt", *map_of(port))
    load_checkpoint("net.ckpt", cell)
    given = {entry.name: entry.asnumpy() for entry in cell.get_parameters()}
    assert_parity(module, cell, (port.input,), weights=port.weights)
    assert all(np.array_equal(given[entry.name], entry.asnumpy()) for entry in cell.get_parameters())


@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
def test_trained_as_cells_and_back(port: Port) -> None:
    """What Cells save says nothing of where it came from: the same map serves."""
    torch.save(port.trained().state_dict(), "net.pt")
    weights("net.pt", "-o", "net.ckpt", *map_of(port))
    cell = port.cell()
    load_checkpoint("net.ckpt", cell)
    for parameter in cell.get_parameters():
        parameter.set_data(Tensor(parameter.asnumpy() + np.float32(1)))
    save_checkpoint(cell, "trained.ckpt")
    weights("trained.ckpt", "-o", "trained.pt", *map_of(port))
    module = port.module()
    module.load_state_dict(torch.load("trained.pt", weights_only=True))  # strict; counters need not be there
    expected = {name: tensor + 1 for name, tensor in port_state("net.pt").items() if tensor.is_floating_point()}
    assert_same(expected, {name: module.state_dict()[name] for name in expected})


def port_state(path: str) -> State:
    loaded: State = torch.load(path, weights_only=True)
    return loaded


def test_a_whole_training_checkpoint_goes_back() -> None:
    net = nn.SequentialCell([nn.Dense(3, 4), nn.LayerNorm((4,))])
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    save_checkpoint(step, "all.ckpt")
    result = weights("all.ckpt", "-o", "net.pt")
    assert "(state of training)" in result.stdout
    torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)).load_state_dict(port_state("net.pt"))


DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.bool,
]  # fmt: skip


@pytest.mark.parametrize("ending", ["pt", "pth", "bin", "safetensors"])
def test_dtypes_scalars_and_empty_ones(ending: str) -> None:
    state = {str(dtype).partition(".")[2]: torch.tensor([[0, 1, 5]]).to(dtype) for dtype in DTYPES}
    state |= {"scalar": torch.tensor(2.5), "count": torch.tensor(2**40), "empty": torch.zeros(0, 3)}
    state["turned"] = torch.arange(6.0).reshape(2, 3).T.contiguous()
    if ending == "safetensors":
        safetensors.torch.save_file(state, "net.safetensors")
    else:
        state["turned"] = torch.arange(6.0).reshape(2, 3).T
        torch.save(state, f"net.{ending}")
    weights(f"net.{ending}", "-o", "net.ckpt")
    loaded = load_checkpoint("net.ckpt")
    assert loaded["bfloat16"].dtype.name == "bfloat16"
    assert loaded["count"].asnumpy() == 2**40
    weights("net.ckpt", "-o", f"back.{ending}")
    back = safetensors.torch.load_file("back.safetensors") if ending == "safetensors" else port_state(f"back.{ending}")
    assert_same(dict(sorted(state.items())), dict(sorted(back.items())))


def test_names_keep_their_order() -> None:
    state = {name: torch.rand(2) for name in ("z", "a", "m")}
    torch.save(state, "net.pt")
    weights("net.pt", "-o", "net.ckpt")
    assert list(load_checkpoint("net.ckpt")) == list(state)
    weights("net.ckpt", "-o", "back.pt")
    assert list(port_state("back.pt")) == list(state)


def test_counters_of_batch_norm() -> None:
    net = torch.nn.Sequential(torch.nn.BatchNorm2d(3))
    net(torch.randn(2, 3, 4, 4))
    torch.save(net.state_dict(), "net.pt")
    result = weights("net.pt", "-o", "net.ckpt")
    assert "left behind: 0.num_batches_tracked (Cells count no batches)" in result.stdout
    assert "1 num_batches_tracked restored" in weights("net.ckpt", "-o", "back.pt").stdout
    assert port_state("back.pt")["0.num_batches_tracked"] == torch.tensor(1)
    Path("m.toml").write_text('"*.num_batches_tracked" = { drop = true }')
    weights("net.pt", "-o", "net.ckpt", "--map", "m.toml")
    weights("net.ckpt", "-o", "back.pt")
    assert "0.num_batches_tracked" not in port_state("back.pt")


def test_a_network_that_is_one_layer() -> None:
    module, cell = torch.nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    torch.save(module.state_dict(), "net.pt")
    weights("net.pt", "-o", "net.ckpt")
    assert load_param_into_net(cell, load_checkpoint("net.ckpt")) == ([], [])
    save_checkpoint(cell, "cell.ckpt")
    weights("cell.ckpt", "-o", "back.pt")
    module.load_state_dict(port_state("back.pt"))


@pytest.mark.parametrize("key", ["state_dict", "model", "model_state_dict"])
def test_a_state_dict_inside(key: str) -> None:
    state: Any = {"fc.bias": torch.rand(2), "version": 3}
    torch.save({key: state, "epoch": 3, "optimizer": {"state": {}}}, "net.pt")
    result = weights("net.pt", "-o", "net.ckpt")
    assert "left out: epoch, optimizer, version (int)" in result.stdout
    assert list(load_checkpoint("net.ckpt")) == ["fc.bias"]


def test_strings_of_a_checkpoint_are_left_out() -> None:
    save_checkpoint([], "net.ckpt", append_dict={"lr": 0.5, "name": "best"})
    assert "left out: name (a string)" in weights("net.ckpt", "-o", "net.pt").stdout
    assert set(port_state("net.pt")) == {"lr"}


# --- what is printed --------------------------------------------------------------------------------------------------


def test_the_summary() -> None:
    port = PORTS["transformer"]
    net = port.trained()
    torch.save(net.state_dict() | {"again": net.head.weight}, "net.pt")
    result = weights("net.pt", "-o", "net.ckpt", *map_of(port))
    assert result.stderr == ""
    words = " ".join(result.stdout.split())
    assert words == (
        "wrote net.ckpt: 16 parameters of net.pt, 13 under another name, 4 in another layout "
        "head.weight and again are one tensor; a network that shares it has one of the names"
    )


@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
def test_the_table(port: Port) -> None:
    torch.save(port.trained().state_dict(), "net.pt")
    for arguments in (("net.pt", "-o", "net.ckpt"), ("net.ckpt", "-o", "back.pt")):
        result = weights(*arguments, *map_of(port), "-v")
        assert max(map(len, result.stdout.splitlines())) <= 80
        table = result.stdout.split("\n\n")[0].splitlines()
        sides = "in Cells in torch" if arguments[0] == "net.ckpt" else "in torch in Cells"
        assert table[0].split() == [*sides.split(), "shape", "layout", "by"]
    assert len(table) - 1 == len(load_checkpoint("net.ckpt"))


def test_lines_of_the_table() -> None:
    port = PORTS["transformer"]
    torch.save(port.trained().state_dict(), "net.pt")
    result = weights("net.pt", "-o", "net.ckpt", *map_of(port), "-v")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "tok.weight embed.embedding_table [11, 8] map" in lines
    assert "blocks.0.in_proj_weight layers.0.q.weight [24, 8] map" in lines
    assert "layers.0.k.weight" in lines
    assert "blocks.0.norm.weight layers.0.norm.gamma [8] name" in lines
    assert "pos same [1, 5, 8] name" in lines


def test_what_is_open_is_proposed_and_taken() -> None:
    """The lines of the message, saved as they are, answer it."""
    port = PORTS["lstm"]
    torch.save(port.trained().state_dict(), "net.pt")
    result = weights("net.pt", "-o", "net.ckpt", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: names and shapes don't determine what 1 of 21 parameters are in Cells.\n")
    assert not Path("net.ckpt").exists()
    lines = result.stderr.split("\n\n", 1)[1].replace('= "words.weight"', '= "words.embedding_table"')
    Path("names.toml").write_text(lines)
    weights("net.pt", "-o", "net.ckpt", "--map", "names.toml")
    assert load_param_into_net(port.cell(), load_checkpoint("net.ckpt")) == ([], [])


def test_help_shows_the_forms() -> None:
    text = weights("--help").stdout
    assert '"fc.weight" = { transpose = true }' in text
    assert max(map(len, text.splitlines())) <= 80


def test_nobody_reads_on() -> None:
    """As with `| head -1`: the end of the pipe is no fault of anyone."""
    torch.save({f"p{i}": torch.zeros(1) for i in range(3000)}, "net.pt")
    command = [sys.executable, "-m", "cellbridge.parity", "weights", "net.pt", "-o", "net.ckpt", "-v"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("in torch")
        process.stdout.close()
        assert process.stderr.read() == ""
