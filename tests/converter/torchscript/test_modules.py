"""Scripted and traced modules, whole and as parts: what they compute, in which mode, and with which parameters."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from torch import nn

from cellbridge import converter
from cellbridge.converter.torchscript.modules import module_of_script
from cellbridge.parity import assert_parity, check, compare
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import ConversionError, UsageError

pytestmark = pytest.mark.usefixtures("forgotten_user_files")


class Loop(nn.Module):
    """A loop over a size, a branch on its number, a setting, and batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.scale = nn.Linear(4, 4), nn.BatchNorm1d(4), 3

    def forward(self, x: torch.Tensor, bias: float = 0.5) -> dict[str, torch.Tensor]:
        parts: list[torch.Tensor] = []
        for i in range(x.size(0)):
            if i % 2 == 0:
                x = x + self.fc(x)
                parts.append(x.sum(dim=0))
        return {"y": self.norm(x) * self.scale + bias, "parts": torch.stack(parts)}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.attention = nn.Embedding(10, 4), nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        return self.attention(x, x, x)[0]


class Shapes(nn.Module):
    """Sizes, dtypes and constants, which a trace computes with as tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width = x.shape[0], x.shape[1]
        y = x.reshape(batch, 2, width // 2).to(torch.float64).mean(-1)
        return (y + torch.zeros(batch, 2, dtype=y.dtype) + torch.arange(2)).to(x.dtype)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.conv = nn.LSTM(4, 3, 2, batch_first=True), nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        y = F.interpolate(F.gelu(self.conv(y.transpose(1, 2))), scale_factor=2.0, mode="linear")
        return F.softmax(F.pad(y, [1, 0]), dim=-1)


X = torch.randn(3, 4)
MODULES: dict[str, tuple[nn.Module, Any]] = {
    "loop": (Loop(), X),
    "attention": (Attention(), torch.randint(0, 10, (2, 3))),
    "shapes": (Shapes(), X),
    "layers": (Layers(), torch.randn(2, 5, 4)),
}


def scripted(module: nn.Module, x: torch.Tensor) -> nn.Module:
    return torch.jit.script(module)


def traced(module: nn.Module, x: torch.Tensor) -> nn.Module:
    return torch.jit.trace(module, (x,), strict=False, check_trace=False)


def frozen(module: nn.Module, x: torch.Tensor) -> nn.Module:
    return torch.jit.freeze(torch.jit.script(module))


@pytest.mark.parametrize("compiled", [scripted, traced, frozen])
@pytest.mark.parametrize(("module", "x"), MODULES.values(), ids=MODULES)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.every(6)
def test_a_module_computes_what_torchscript_does(module: nn.Module, x: torch.Tensor, compiled: Any) -> None:
    script = compiled(copy.deepcopy(module).eval(), x)
    torch.testing.assert_close(copy.deepcopy(module_of_script(script))(x), script(x), rtol=0, atol=0)
    report = check(script, (x,), probe=False)
    assert report.ok, str(report)


@pytest.mark.filterwarnings("ignore")
def test_parts_names_and_archives(tmp_path: Path) -> None:
    script = torch.jit.script(MODULES["layers"][0].eval())
    torch.jit.save(script, tmp_path / "net.pt")
    loaded = torch.jit.load(tmp_path / "net.pt")
    x = MODULES["layers"][1]
    program = converter.from_torch(nn.Sequential(nn.Linear(4, 4), loaded), (x,))
    assert {call.path: call.class_name for call in program.calls}["1"] == "Layers"
    assert "1.rnn.weight_ih_l0" in program.parameters
    with pytest.raises(UsageError, match="what to do"):
        converter.from_torch(torch.jit.script(nn.LSTM(4, 3)), (torch.randn(2, 1, 4),))


@pytest.mark.filterwarnings("ignore")
def test_another_weight_fails() -> None:
    script = torch.jit.script(MODULES["loop"][0].eval())
    changed = copy.deepcopy(MODULES["loop"][0].eval())
    changed.fc.weight.data[0, 0] += 0.1
    assert_parity(script, torch.jit.script(copy.deepcopy(MODULES["loop"][0])), (X,), probe=False)
    with pytest.raises(AssertionError):
        assert_parity(script, torch.jit.script(changed), (X,), probe=False)


@pytest.mark.filterwarnings("ignore")
def test_a_scripted_module_has_its_modes_and_arguments() -> None:
    module = torch.jit.script(copy.deepcopy(MODULES["loop"][0]).train())
    program = converter.from_torch(module, (), {"x": X, "bias": 1.5}, train=True)
    assert [value.name for value in program.inputs] == ["x"]
    assert program.train
    assert check(module, (), {"x": X, "bias": 1.5}, train=True, probe=False).ok
    assert module.training


class Decision(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.sum() > 0) else x - 1


class Listed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers: list[float] = x[0].tolist()
        return x * numbers[0]


@pytest.mark.parametrize("module", [Decision(), Listed()])
@pytest.mark.filterwarnings("ignore")
def test_what_a_program_cannot_follow_is_refused_with_advice(module: nn.Module) -> None:
    with pytest.raises(ConversionError, match="what to do"):
        converter.from_torch(torch.jit.script(module), (X,))


class Tied(nn.Module):
    """Parameters in containers and under two names, of this module and of a part; a part under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.norm, self.weight = nn.GRU(4, 4), nn.BatchNorm1d(4), nn.Parameter(torch.randn(4, 4))
        self.again, self.norm_again = self.weight, self.norm
        self.register_buffer("scale", torch.rand(4))
        self.register_buffer("scale_again", self.scale)
        self.listed, self.by_name = [self.weight, self.rnn.weight_hh_l0[:4].detach()], {"bias": self.norm.bias}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        y = self.norm_again(self.norm(y @ self.weight) @ self.again) * self.scale * self.scale_again
        return y @ self.listed[0] + self.by_name["bias"] + y @ self.listed[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_weights_in_containers_and_of_two_names_have_gradients_in_float64_too() -> None:
    torch.manual_seed(0)
    script = torch.jit.script(Tied().eval())
    data = io.BytesIO()
    torch.jit.save(script, data)
    data.seek(0)
    loaded = torch.jit.load(data)
    report = compare(script, loaded, (X,), probe=False)
    assert report.ok, str(report)
    assert not any("different classes" in note for note in report.notes)
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert {"weight", "rnn.weight_hh_l0", "norm.bias"} <= compared
    assert check(loaded, (X,), probe=False).ok


SCRIPT = """
import io

import torch
from torch import nn

torch.manual_seed(0)
data = io.BytesIO()
torch.jit.save(torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), data)
data.seek(0)
model = nn.Sequential(nn.Linear(4, 4), torch.jit.load(data))
inputs = (torch.randn(3, 4),)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_commands_accept_scripted_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(SCRIPT)
    for command in (
        *("record net.py -o net.rec", "judge net.rec net.rec", "lock net.py", "check --lock parity.lock"),
        *("run net.py", "export net.py -o net.onnx --no-probe"),
    ):
        result = CliRunner().invoke(main, command.split(), catch_exceptions=False)
        assert result.exit_code == 0, result.output
