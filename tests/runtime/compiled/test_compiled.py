"""`compile`: what a program computes and its gradients, in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch, to_onnx
from cellbridge.converter.onnx_out.export import onnx_parts
from cellbridge.runtime import UnsupportedOperators, UsageError
from cellbridge.runtime.compiled import session
from cellbridge.runtime.compiled.session import SessionError
from cellbridge.runtime.ir.types import as_dtype
from cellbridge.runtime.lowering.writing import add_references


class Net(nn.Module):
    """Convolution, normalization, a buffer update, and two results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.norm(self.conv(x)))
        return self.head(y.mean((2, 3))), y


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def assert_same(actual: Any, expected: Any) -> None:
    """Up to rounding of sums of numbers of the size of the largest."""
    atol = 1e-5 * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=atol, strict=True)


@pytest.mark.parametrize("train", [False, True])
def test_it_computes_what_the_program_does(x: torch.Tensor, train: bool) -> None:
    program = from_torch(Net(), (x,), train=train)
    compiled = ms.compile(program, "cpu")
    for actual, expected in zip(compiled(x), program(x), strict=True):
        assert_same(actual, expected)


def test_gradients_are_those_of_the_interpreter(x: torch.Tensor) -> None:
    program = from_torch(Net(), (x,), train=True)
    compiled = ms.compile(program, "cpu")
    cotangents = [np.full((2, 5), 0.5, np.float32), np.ones((2, 4, 6, 6), np.float32)]
    for seeds in (None, cotangents):
        result, gradients = compiled.value_and_grad(x, cotangents=seeds)
        expected, truth = program.value_and_grad(x, cotangents=seeds)
        for actual, array in zip(result, expected, strict=True):
            assert_same(actual, array)
        assert_same(gradients.inputs[0], truth.inputs[0])
        assert gradients.parameters.keys() == truth.parameters.keys()
        for name, array in truth.parameters.items():
            assert_same(gradients.parameters[name], array)


def test_a_size_that_is_symbolic_needs_no_other_model(x: torch.Tensor) -> None:
    program = from_torch(Net(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    compiled = ms.compile(program, "cpu")
    for size in (1, 3, 7):
        batch = np.ones((size, 3, 6, 6), np.float32)
        result, gradients = compiled.value_and_grad(batch)
        expected, truth = program.value_and_grad(batch)
        assert_same(result[0], expected[0])
        assert_same(gradients.parameters["conv.weight"], truth.parameters["conv.weight"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.every(2)
def test_half_precision_rounds_where_the_interpreter_does(x: torch.Tensor, dtype: str) -> None:
    program = from_torch(Net(), (x,), train=True).astype(dtype)
    given = x.numpy().astype(program.inputs[0].dtype)
    result, gradients = ms.compile(program, "cpu").value_and_grad(given)
    expected, truth = program.value_and_grad(given)
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]

    def close(actual: Any, expected: Any) -> None:
        assert actual.dtype == expected.dtype
        expected = expected.astype(np.float32)
        assert np.abs(actual.astype(np.float32) - expected).max() <= 4 * eps * np.abs(expected).max()

    for actual, array in zip(result, expected, strict=True):
        close(actual, array)
    close(gradients.parameters["conv.weight"], truth.parameters["conv.weight"])


def test_inputs_that_are_not_differentiable_have_no_gradient() -> None:
    program = from_torch(nn.Embedding(7, 3), (torch.tensor([[1, 2], [2, 6]]),))
    _, gradients = ms.compile(program, "cpu").value_and_grad(np.array([[1, 2], [2, 6]]))
    assert gradients.inputs == (None,)
    np.testing.assert_array_equal(gradients.parameters["weight"].sum(1), [0, 3, 6, 0, 0, 0, 3])


def test_wrong_arguments_are_refused_as_the_program_refuses_them(x: torch.Tensor) -> None:
    compiled = ms.compile(from_torch(Net(), (x,)), "cpu")
    with pytest.raises(UsageError, match="needed float32"):
        compiled(x.double())
    with pytest.raises(UsageError, match="needed size 2, given 3"):
        compiled(torch.zeros(3, 3, 6, 6))
    with pytest.raises(UsageError, match="needed 2 cotangents"):
        compiled.value_and_grad(x, cotangents=[np.ones(3)])
    with pytest.raises(UsageError, match="unknown provider 'tpu'"):
        ms.compile(compiled.program, "tpu")


def test_it_says_where_it_runs(x: torch.Tensor) -> None:
    compiled = ms.compile(from_torch(Net(), (x,)))
    assert compiled.provider in ("cpu", "cuda")
    assert repr(compiled).endswith(f" on {compiled.provider}>")


def test_what_onnx_runtime_lacks_is_an_error_that_names_the_cell(x: torch.Tensor) -> None:
    resize = nn.Sequential(nn.Upsample(scale_factor=2.0, mode="bilinear"))
    program = from_torch(resize, (x,), dynamic_shapes=({2: torch.export.Dim("height")},))
    compiled = ms.compile(program.astype("float64"), "cpu")
    with pytest.raises(SessionError, match="operator Resize of Cell 0"):
        compiled(x.double())


def test_a_model_is_loaded_when_it_is_first_needed(x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    create = session.Session._create_session

    def count(new_session: session.Session) -> Any:
        loaded.append(new_session.provider)
        return create(new_session)

    monkeypatch.setattr(session.Session, "_create_session", count)
    compiled = ms.compile(from_torch(Net().eval(), (x,)), provider="cpu")
    assert not loaded
    compiled.value_and_grad(x)
    assert len(loaded) == 1, "the model that runs forward alone isn't loaded"
    compiled(x)
    compiled(x)
    assert len(loaded) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_large_tensors_are_passed_beside_the_model(dtype: str) -> None:
    """They are neither in the message that ONNX Runtime parses nor shared with it."""
    layer = nn.Linear(32, 32)
    x = torch.randn(2, 32)
    program = from_torch(layer, (x,)).astype(dtype)
    model, tensors = onnx_parts(program)
    large = add_references(model, tensors)
    assert [(array.dtype.name, array.shape) for array in large.values()] == [(dtype, (32, 32))]
    assert model.ByteSize() < 2000
    loaded = session.Session(model, tensors=large)
    given = {loaded.inputs[0]: x.to(getattr(torch, dtype)).float().numpy().astype(as_dtype(dtype))}
    (expected,) = session.Session(to_onnx(program)).run(given).values()
    for array in large.values():
        array[...] = 0
    (result,) = loaded.run(given).values()
    np.testing.assert_array_equal(result, expected)
    assert result.astype(np.float64).any()


def test_an_op_without_an_onnx_form_is_named() -> None:
    class Spectrum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x).real

    with pytest.raises(UnsupportedOperators, match=r"op eig in Cell .*aren't symmetric"):
        ms.compile(from_torch(Spectrum(), (torch.eye(3),)), "cpu")


def test_draws_follow_the_seed_and_are_new_in_each_run() -> None:
    class Draws(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return nn.functional.dropout(x, 0.5), torch.randn_like(x), nn.functional.dropout(x, 0.5)

    x = torch.ones(4, 32)
    program = from_torch(Draws(), (x,), train=True)
    sampled = []
    for seed in (1, 1, 2):
        ms.set_seed(seed)
        compiled = ms.compile(program, "cpu")
        sampled.append([compiled(x), compiled(x)])
    for kind in range(3):
        first, repeated, of_other_seed = (np.stack([run[kind] for run in runs]) for runs in sampled)
        np.testing.assert_array_equal(first, repeated)
        assert (first[0] != first[1]).any()
        assert (first != of_other_seed).any()
    assert (sampled[0][0][0] != sampled[0][0][2]).any()


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
@pytest.mark.every(2)
def test_no_sequences_are_refused(layer: Any) -> None:
    """ONNX Runtime would end the process."""
    model = layer(3, 4, batch_first=True)
    program = from_torch(model, (torch.randn(2, 5, 3),), dynamic_shapes=({0: "batch"},))
    compiled = ms.compile(program, "cpu")
    x = torch.randn(1, 5, 3)
    np.testing.assert_allclose(compiled(x)[0], model(x)[0].detach(), rtol=1e-5, atol=1e-6)
    with pytest.raises(UsageError, match=r"op (lstm|gru) in Cell .* is given a batch of size batch = 0"):
        compiled(torch.zeros(0, 5, 3))
