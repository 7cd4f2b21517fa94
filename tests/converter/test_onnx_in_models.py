"""Whole models from torch's exporters and from our own, as programs: outputs, gradients, names, Cells, other sizes."""

from __future__ import annotations

import importlib
import io
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cellbridge.converter import from_onnx, from_torch, to_onnx
from cellbridge.runtime import Program
from cellbridge.runtime.programs.call import flat_inputs
from cellbridge.runtime.programs.interpreter import execute


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, stride=2, groups=2)
        self.groups = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x)) * 2.0), 2)
        x = self.up(self.groups(F.silu(self.second(x))))
        x = F.interpolate(x, scale_factor=2, mode="bilinear")
        pooled: torch.Tensor = self.head(F.gelu(F.adaptive_avg_pool2d(x, 1).flatten(1)))
        return pooled


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.positions = nn.Parameter(torch.randn(1, 32, 16))
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length = tokens.shape
        x = self.embed(tokens) + self.positions[:, :length]
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = (q @ k.transpose(-1, -2) * self.scale).masked_fill(~mask, -1e9).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, 16)
        return torch.cat([y, x], -1), torch.arange(length).expand(batch, length)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 5)
        self.rnn = nn.RNN(5, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (_, cell) = self.lstm(x)
        z, _ = self.rnn(self.gru(y)[0])
        return z, cell


class Operators(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.einsum("bi,oi->bo", x, self.weight)
        first, second = y.chunk(2, -1)
        values, _ = torch.topk(x, 3)
        return (
            torch.stack([first, second], 1).flatten(1), values, torch.cumsum(x, 1)[:, ::2], F.pad(x, (1, 2)),
            F.normalize(x, dim=-1), x.var(0), torch.clamp(x, -0.5, 0.5), x.logsumexp(1), F.log_softmax(x, 1),
            x.norm(dim=1), x[:, -2:], torch.where(x > 0, x, x.exp() - 1), x.std(1),
        )  # fmt: skip


MODULES: dict[str, tuple[type[nn.Module], torch.Tensor, dict[int, str]]] = {
    "images": (Images, torch.randn(2, 3, 16, 16), {0: "batch"}),
    "sequences": (Sequences, torch.randint(0, 50, (2, 7)), {0: "batch", 1: "length"}),
    "recurrent": (Recurrent, torch.randn(3, 5, 6), {0: "batch"}),
    "operators": (Operators, torch.randn(4, 6), {0: "batch"}),
}


def made(name: str) -> tuple[nn.Module, torch.Tensor, dict[int, str]]:
    """A module in eval mode whose parameters all differ: exporters merge equal ones."""
    kind, x, axes = MODULES[name]
    torch.manual_seed(0)
    module = kind().eval()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data += 0.1 * torch.rand_like(tensor)
    return module, x, axes


def exported(module: nn.Module, x: torch.Tensor, axes: dict[int, str], dynamo: bool) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own: the older exporter is deprecated
        if dynamo:
            shapes = (dict.fromkeys(axes, torch.export.Dim.DYNAMIC),)
            written = torch.onnx.export(module, (x,), dynamo=True, verbose=False, dynamic_shapes=shapes)
            assert written is not None
            return written.model_proto
        file = io.BytesIO()
        torch.onnx.export(
            module, (x,), file, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": axes}
        )
        return onnx.load_from_string(file.getvalue())


def check(program: Program, module: nn.Module, x: torch.Tensor) -> None:
    """Outputs, the gradient of the input and of each parameter that kept its name and values, against torch."""
    given = x.clone().requires_grad_(x.is_floating_point())
    expected = module(given)
    outputs = expected if isinstance(expected, tuple) else (expected,)
    floating = [y for y in outputs if y.is_floating_point()]
    cotangents = [torch.randn_like(y) for y in floating]
    module.zero_grad()
    torch.autograd.backward(floating, cotangents)
    result, gradients = program.value_and_grad(x, cotangents=cotangents)
    for actual, y in zip(result if isinstance(result, tuple) else (result,), outputs, strict=True):
        np.testing.assert_allclose(actual, y.detach().numpy(), rtol=1e-4, atol=1e-5)
    if given.grad is not None:
        np.testing.assert_allclose(gradients.inputs[0], given.grad.numpy(), rtol=1e-3, atol=1e-4)
    named = dict(module.named_parameters())
    compared = [
        name
        for name in set(gradients.parameters) & set(named)
        if np.array_equal(program.parameters[name].data, named[name].detach())  # a normalization may be folded in
    ]
    for name in compared:
        grad = named[name].grad
        assert grad is not None
        np.testing.assert_allclose(gradients.parameters[name], grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.every(2)
def test_what_the_older_exporter_wrote(name: str) -> None:
    module, x, axes = made(name)
    program = from_onnx(exported(module, x, axes, dynamo=False))
    check(program, module, x)
    longer = [size + 3 if axis in axes else size for axis, size in enumerate(x.shape)]
    check(program, module, torch.randn(*longer) if x.is_floating_point() else torch.randint(0, 50, longer))
    paths = {call.path for call in program.calls}
    assert {child for child, _ in module.named_children()} - {"norm"} <= paths, "a folded Cell has no nodes"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODULES) - {"recurrent"}))  # torch fixes the batch of an LSTM
def test_what_the_newer_exporter_wrote(name: str) -> None:
    pytest.importorskip("onnxscript", reason="torch.onnx.export needs it: pip install 'cellbridge[benchmark]'")
    module, x, axes = made(name)
    program = from_onnx(exported(module, x, axes, dynamo=True))
    check(program, module, x)
    longer = [size + 3 if axis in axes else size for axis, size in enumerate(x.shape)]
    check(program, module, torch.randn(*longer) if x.is_floating_point() else torch.randint(0, 50, longer))
    paths = {call.path for call in program.calls}
    assert {child for child, _ in module.named_children()} - {"first"} <= paths, "it may be folded into the norm"


@pytest.mark.parametrize(
    "name",
    ["decoder_lm", "transformer_encoder", *(pytest.param(n, marks=pytest.mark.slow) for n in ("resnet18", "unet"))],
)
@pytest.mark.every(2)
def test_a_program_comes_back_as_it_was(name: str) -> None:
    fixture = importlib.import_module(f"fixtures.{name}")
    torch.manual_seed(0)
    args: Any = fixture.inputs()
    args, kwargs = ((), args) if isinstance(args, dict) else (args if isinstance(args, tuple) else (args,), {})
    program = from_torch(fixture.model().eval(), args, kwargs)
    back = from_onnx(to_onnx(program, optimize=False))
    arrays = flat_inputs(program, args, kwargs)
    outputs = execute(program, arrays)
    for actual, expected in zip(execute(back, arrays), outputs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert set(back.parameters) == set(program.parameters)
    assert set(back.buffers) <= set(program.buffers), "a counter that nothing uses isn't written"
    assert [value.shape for value in back.inputs] == [value.shape for value in program.inputs]
    cells, original = ({(call.path, call.class_name) for call in p.calls} for p in (back, program))
    assert cells <= original
    assert {name.rpartition(".")[0] for name in program.parameters} <= {path for path, _ in cells}
    rng = np.random.default_rng(0)
    cotangents = [rng.standard_normal(y.shape).astype(y.dtype) for y in outputs]
    _, expected_gradients = program.value_and_grad(*args, cotangents=cotangents, **kwargs)
    _, gradients = back.value_and_grad(*args, cotangents=cotangents, **kwargs)
    scale = max(float(np.abs(expected).max()) for expected in expected_gradients.parameters.values())
    for parameter, expected in expected_gradients.parameters.items():
        np.testing.assert_allclose(gradients.parameters[parameter], expected, rtol=1e-3, atol=1e-5 * scale)
