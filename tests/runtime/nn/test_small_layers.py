"""Activation, embedding, padding, image and norm layers: against torch, their Parameters, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from cellbridge.runtime.nn.layer import activation
from tests.runtime.against_torch import assert_as_torch, assert_cell_as_module, normal

# ---- activations ----

MODULES: list[tuple[nn.Cell, torch.nn.Module]] = [
    (nn.ReLU(), torch.nn.ReLU()), (nn.ReLU6(), torch.nn.ReLU6()), (nn.LeakyReLU(), torch.nn.LeakyReLU(0.2)),
    (nn.LeakyReLU(0.01), torch.nn.LeakyReLU()), (nn.ELU(), torch.nn.ELU()), (nn.SeLU(), torch.nn.SELU()),
    (nn.CELU(2.0), torch.nn.CELU(2.0)), (nn.GELU(), torch.nn.GELU("tanh")), (nn.GELU(False), torch.nn.GELU()),
    (nn.SiLU(), torch.nn.SiLU()), (nn.Mish(), torch.nn.Mish()), (nn.Sigmoid(), torch.nn.Sigmoid()),
    (nn.Tanh(), torch.nn.Tanh()), (nn.Tanhshrink(), torch.nn.Tanhshrink()), (nn.LogSigmoid(), torch.nn.LogSigmoid()),
    (nn.Softsign(), torch.nn.Softsign()), (nn.HSwish(), torch.nn.Hardswish()), (nn.Hardtanh(), torch.nn.Hardtanh()),
    (nn.SoftShrink(), torch.nn.Softshrink()), (nn.HShrink(), torch.nn.Hardshrink()),
    (nn.Threshold(0.1, 20.0), torch.nn.Threshold(0.1, 20.0)), (nn.Softmax(), torch.nn.Softmax(-1)),
    (nn.Softmax(1), torch.nn.Softmax(1)), (nn.LogSoftmax(), torch.nn.LogSoftmax(-1)),
    (nn.Softmin(), torch.nn.Softmin(-1)),
    (nn.Softmax2d(), torch.nn.Softmax2d()), (nn.GLU(), torch.nn.GLU()),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "module"), MODULES, ids=[str(cell) for cell, _ in MODULES])
def test_an_activation_is_torch_s(cell: nn.Cell, module: torch.nn.Module) -> None:
    assert_as_torch(cell, module, normal(2, 3, 2, 4) * 3.0)


def test_hsigmoid_is_torch_s() -> None:
    assert_as_torch(nn.HSigmoid(), torch.nn.Hardsigmoid(), normal(2, 3) * 3.0, rtol=1e-7)  # ATen has a float32 1 / 6


@pytest.mark.parametrize("channel", [1, 3])
def test_prelu_learns_slopes_named_a(channel: int) -> None:
    cell = nn.PReLU(channel)
    assert [(p.name, p.shape) for p in cell.trainable_params()] == [("a", (channel,))]
    np.testing.assert_array_equal(cell.w.asnumpy(), np.full(channel, 0.25, np.float32))
    wide = nn.PReLU(channel)
    wide.w = ms.Parameter(np.full(channel, 0.25), name="a")
    assert_cell_as_module(wide, torch.nn.PReLU(channel, dtype=torch.float64), normal(2, 3, 4))


def test_prelu_takes_slopes_as_number_list_or_tensor() -> None:
    x = Tensor([[-1.0, -1.0]])
    for w in (0.5, [0.5, 0.5], Tensor([0.5, 0.5])):
        np.testing.assert_array_equal(nn.PReLU(2, w)(x).asnumpy(), [[-0.5, -0.5]])
    assert nn.PReLU()(x.astype(ms.float16)).dtype == ms.float16


def test_rrelu_draws_slopes() -> None:
    y = nn.RReLU()(Tensor(np.full(200, -1.0))).asnumpy()
    assert -1 / 3 < y.min() < y.max() < -1 / 8


@pytest.mark.parametrize("name", sorted(activation._BY_NAME))
def test_every_activation_can_be_had_by_name(name: str) -> None:
    cell = nn.get_activation(name)
    assert cell is not None
    y = cell(Tensor(normal(2, 3, 2, 2)))
    assert np.isfinite(y.asnumpy()).all()
    assert nn.get_activation(None) is None
    assert cell is not nn.get_activation(name)


# ---- embedding ----


@pytest.mark.parametrize("one_hot", [False, True])
def test_embedding_is_torch_s(one_hot: bool) -> None:
    ids = np.array([[0, 2], [2, 4]])
    cell = nn.Embedding(5, 3, one_hot, dtype=ms.float64)
    module = torch.nn.Embedding(5, 3, dtype=torch.float64)
    table = module.weight.detach().numpy()
    cell.embedding_table.set_data(Tensor(table))
    weights = normal(2, 2, 3)
    gradient = ms.grad(lambda i: (cell(i) * Tensor(weights)).sum(), None, cell.embedding_table)(Tensor(ids))
    (module(torch.from_numpy(ids)) * torch.from_numpy(weights)).sum().backward()
    assert module.weight.grad is not None
    np.testing.assert_array_equal(cell(Tensor(ids)).asnumpy(), table[ids])
    np.testing.assert_allclose(gradient.asnumpy(), module.weight.grad.numpy(), rtol=1e-12)


def test_the_row_for_padding_is_0_at_first_and_learned_like_the_others() -> None:
    cell = nn.Embedding(4, 2, padding_idx=1)
    table = cell.embedding_table.asnumpy()
    assert np.all(table[1] == 0)
    assert np.all(table[[0, 2, 3]] != 0)
    gradient = ms.grad(lambda i: cell(i).sum(), None, cell.embedding_table)(Tensor([1, 1]))
    np.testing.assert_array_equal(gradient.asnumpy(), [[0, 0], [2, 2], [0, 0], [0, 0]])


def test_a_given_table_is_not_changed_by_padding() -> None:
    table = Tensor(np.ones((3, 2), np.float32))
    cell = nn.Embedding(3, 2, embedding_table=table, padding_idx=0)
    np.testing.assert_array_equal(cell.embedding_table.asnumpy(), [[0, 0], [1, 1], [1, 1]])
    np.testing.assert_array_equal(table.asnumpy(), np.ones((3, 2)))
    assert [p.name for p in cell.get_parameters()] == ["embedding_table"]


def test_lookup_gives_0_for_what_is_no_row_and_holds_lengths() -> None:
    cell = nn.EmbeddingLookup(2, 2, Tensor(np.array([[3.0, 4.0], [0.3, 0.4]], np.float32)), max_norm=1.0)
    np.testing.assert_allclose(cell(Tensor([[0, 1, 7]])).asnumpy(), [[[0.6, 0.8], [0.3, 0.4], [0, 0]]], rtol=1e-6)


# ---- padding ----


@pytest.mark.parametrize("kind", ["ReflectionPad", "ReplicationPad"])
@pytest.mark.parametrize(("axes", "padding"), [(1, (2, 1)), (2, (1, 2, 0, 1)), (3, (1, 0, 1, 1, 1, 2)), (2, 1)])
def test_padding_is_torch_s(kind: str, axes: int, padding: Any) -> None:
    cell, module = getattr(nn, f"{kind}{axes}d")(padding), getattr(torch.nn, f"{kind}{axes}d")(padding)
    assert_as_torch(cell, module, normal(2, 2, *(3, 4, 3)[:axes]))


@pytest.mark.parametrize(("axes", "padding"), [(1, (2, -1)), (2, (1, 2, 0, 1)), (3, (1, 0, 1, 1, -1, 2)), (2, 1)])
def test_constant_padding_is_torch_s(axes: int, padding: Any) -> None:
    cell, module = (getattr(x, f"ConstantPad{axes}d")(padding, 0.5) for x in (nn, torch.nn))
    assert_as_torch(cell, module, normal(2, 2, *(3, 4, 3)[:axes]))
    assert_as_torch(nn.ZeroPad2d((1, 0, 2, -1)), torch.nn.ZeroPad2d((1, 0, 2, -1)), normal(1, 2, 3, 3))


# ---- images, norms ----


@pytest.mark.parametrize("shape", [(4, 2, 3), (2, 8, 2, 3), (2, 1, 4, 1, 1)])
def test_pixel_shuffle_is_torch_s(shape: tuple[int, ...]) -> None:
    assert_as_torch(nn.PixelShuffle(2), torch.nn.PixelShuffle(2), normal(*shape))
    wide = (*shape[:-2], shape[-2] * 3, shape[-1] * 3)
    assert_as_torch(nn.PixelUnshuffle(3), torch.nn.PixelUnshuffle(3), normal(*wide))
    np.testing.assert_array_equal(
        ops.pixel_unshuffle(ops.pixel_shuffle(Tensor(normal(*shape)), 2), 2).asnumpy(), normal(*shape)
    )


def test_images_have_differences_a_middle_and_a_noise_ratio() -> None:
    x = normal(1, 2, 3, 4)
    down, right = nn.ImageGradients()(Tensor(x))
    np.testing.assert_allclose(down.asnumpy(), np.concatenate([np.diff(x, axis=2), np.zeros((1, 2, 1, 4))], 2))
    np.testing.assert_allclose(right.asnumpy(), np.concatenate([np.diff(x, axis=3), np.zeros((1, 2, 3, 1))], 3))
    np.testing.assert_array_equal(nn.CentralCrop(0.5)(Tensor(normal(1, 4, 6))).asnumpy(), normal(1, 4, 6)[:, 1:3, 1:5])
    noise = nn.PSNR(2.0)(Tensor(x), Tensor(x + 0.1)).asnumpy()
    np.testing.assert_allclose(noise, [10 * np.log10(4.0 / 0.01)])


def test_norms_and_moments_are_torch_s() -> None:
    x = normal(3, 4)
    assert_as_torch(nn.Norm(), torch.linalg.vector_norm, x)
    assert_as_torch(nn.Norm(1, True), lambda t: t.norm(dim=1, keepdim=True), x)
    assert_as_torch(nn.ReduceLogSumExp(1, True), lambda t: t.logsumexp(1, True), x)
    assert_as_torch(nn.Moments(axis=0), lambda t: (t.mean(0), t.var(0, correction=0)), x)
    assert_as_torch(nn.Moments(), lambda t: (t.mean(), t.var(correction=0)), x)
    assert_as_torch(nn.CosineSimilarity(), torch.nn.CosineSimilarity(), x, normal(3, 4, seed=1))
    assert_as_torch(nn.MatMul(transpose_x2=True), lambda a, b: a @ b.mT, x, normal(2, 5, 4, seed=1))
    assert_as_torch(nn.MatMul(transpose_x1=True), lambda a, b: a.T @ b, x, normal(3, seed=1))


def test_lrn_regularizer_and_gammas_are_torch_s() -> None:
    x = normal(2, 5, 2, 2)
    # torch divides alpha by the number of channels in the window
    assert_as_torch(nn.LRN(1, 2.0, 0.3, 0.6), torch.nn.LocalResponseNorm(3, 0.9, 0.6, 2.0), x)
    assert_as_torch(nn.L1Regularizer(0.5), lambda t: t.abs().sum() * 0.5, x)
    assert_as_torch(nn.LGamma(), torch.lgamma, np.abs(x) + 0.1, rtol=1e-7)
    assert_as_torch(nn.DiGamma(), torch.digamma, np.abs(x) + 0.1, rtol=1e-7)


def test_clip_by_norm_scales_down_only() -> None:
    x = Tensor(np.array([[3.0, 4.0], [6.0, 8.0]]))
    np.testing.assert_allclose(nn.ClipByNorm(1)(x, Tensor(5.0)).asnumpy(), [[3, 4], [3, 4]])
    np.testing.assert_allclose(nn.ClipByNorm()(x, 1).asnumpy(), x.asnumpy() / np.sqrt(125))
    np.testing.assert_array_equal(nn.ClipByNorm()(Tensor(np.zeros(2)), 1).asnumpy(), [0, 0])


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.PReLU(0), ValueError, ["'channel'", "> 0"]),
        (lambda: nn.PReLU(2, [0.1]), ValueError, ["'w'", "(2,)", "(1,)"]),
        (lambda: nn.PReLU(2, "0.1"), TypeError, ["'w'", "str"]),
        (lambda: nn.CELU(0), ValueError, ["'CELU'", "'alpha'"]),
        (lambda: nn.GELU("tanh"), TypeError, ["'GELU'", "'approximate'", "bool"]),
        (lambda: nn.SoftShrink(-1.0), ValueError, ["'SoftShrink'", "'lambd'"]),
        (lambda: nn.Hardtanh(1, -1), ValueError, ["'min_val'", "'max_val'"]),
        (lambda: nn.RReLU(0.5, 0.1), ValueError, ["'lower'", "'upper'"]),
        (lambda: nn.Softmax2d()(Tensor([1.0])), ValueError, ["3 or 4", "(1,)"]),
        (lambda: nn.Softmax(3)(Tensor([1.0])), ValueError, ["axis 3"]),
        (lambda: nn.Embedding(3.0, 2), TypeError, ["'vocab_size'", "int", "float"]),
        (lambda: nn.Embedding(3, 0), ValueError, ["'embedding_size'", "> 0"]),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, ["'padding_idx'", "[0, 3)", "3"]),
        (lambda: nn.Embedding(3, 2, embedding_table=Tensor([1.0])), ValueError, ["(3, 2)", "(1,)"]),
        (lambda: nn.Embedding(3, 2)(Tensor([1.0])), TypeError, ["integers"]),
        (lambda: nn.Embedding(3, 2)(Tensor([3])), IndexError, ["3"]),
        (lambda: nn.EmbeddingLookup(3, 2, sparse=False), ValueError, ["'sparse'", "'target'"]),
        (lambda: nn.ConstantPad1d((1, 2, 3), 0), ValueError, ["'ConstantPad1d'", "'padding'"]),
        (lambda: nn.ReflectionPad2d((1, 2, 3, -1)), ValueError, ["'padding'", "negative"]),
        (lambda: nn.ReplicationPad1d("1"), TypeError, ["'padding'", "str"]),
        (lambda: nn.ReflectionPad1d(3)(Tensor(np.ones((1, 1, 3)))), ValueError, ["reflect", "2"]),
        (lambda: nn.PixelShuffle(2)(Tensor(np.ones((3, 2, 2)))), ValueError, ["2**2", "(3, 2, 2)"]),
        (lambda: nn.PixelUnshuffle(2)(Tensor(np.ones((3, 3, 2)))), ValueError, ["multiples of 2", "(3, 3, 2)"]),
        (lambda: nn.PixelShuffle(0), ValueError, ["'upscale_factor'", "> 0"]),
        (lambda: nn.LRN(depth_radius=-1), ValueError, ["'depth_radius'", ">= 0", "-1"]),
        (lambda: nn.Softmax("a"), TypeError, ["'Softmax'", "'axis'", "str"]),
        (lambda: nn.LogSoftmax(axis=(1.5,)), TypeError, ["'LogSoftmax'", "'axis'", "float"]),
        (lambda: nn.LRN(norm_region="WITHIN_CHANNEL"), ValueError, ["'norm_region'", "ACROSS_CHANNELS"]),
        (lambda: nn.L1Regularizer(0), ValueError, ["'scale'", "> 0"]),
        (lambda: nn.CentralCrop(0.0), ValueError, ["'central_fraction'", "(0, 1]"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
