"""Normalization layers: against torch's modules, moving statistics and phases, names, half precision, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn
from tests.runtime.against_torch import assert_as_torch, assert_cell_as_module, normal

BATCH: Any = {
    (4, 3): (nn.BatchNorm1d, torch.nn.BatchNorm1d),
    (4, 3, 5): (nn.BatchNorm1d, torch.nn.BatchNorm1d),
    (2, 3, 4, 5): (nn.BatchNorm2d, torch.nn.BatchNorm2d),
    (2, 3, 2, 3, 2): (nn.BatchNorm3d, torch.nn.BatchNorm3d),
}


@pytest.mark.parametrize("shape", BATCH, ids=str)
def test_batch_norm_is_torch_s_with_momentum_from_the_other_end(shape: tuple[int, ...]) -> None:
    cell_type, module_type = BATCH[shape]
    cell = cell_type(3, momentum=0.7, dtype=ms.float64)
    module = module_type(3, momentum=1 - 0.7, dtype=torch.float64)
    cell.set_train()
    for seed in range(3):
        assert_cell_as_module(cell, module, normal(*shape, seed=seed))
    norm = getattr(cell, "bn2d", cell)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), module.running_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(norm.moving_variance.asnumpy(), module.running_var.numpy(), rtol=1e-12)
    cell.set_train(False)
    assert_cell_as_module(cell, module.eval(), normal(*shape))


@pytest.mark.parametrize("use", [None, True, False])
@pytest.mark.parametrize("training", [False, True])
def test_which_statistics_are_used(use: bool | None, training: bool) -> None:
    cell = nn.BatchNorm1d(2, use_batch_statistics=use).set_train(training)
    x = Tensor(np.array([[1.0, 2.0], [3.0, 6.0]], np.float32))
    y = cell(x).asnumpy()
    of_batch = training if use is None else use
    expected = np.sign(y) if of_batch else x.asnumpy()
    np.testing.assert_allclose(y, expected, rtol=1e-4)
    moved = [0.1 * 2, 0.1 * 4] if of_batch else [0, 0]
    np.testing.assert_allclose(cell.moving_mean.asnumpy(), moved, rtol=1e-6)


def test_names_depend_on_where_the_layer_is() -> None:
    cell = nn.BatchNorm2d(2)
    assert [p.name for p in cell.get_parameters()] == ["mean", "variance", "gamma", "beta"]
    assert [p.name for p in cell.untrainable_params()] == ["mean", "variance"]
    nested = nn.SequentialCell([cell])
    names = ["0.moving_mean", "0.moving_variance", "0.gamma", "0.beta"]
    assert [p.name for p in nested.get_parameters()] == names
    assert not nn.BatchNorm2d(2, affine=False).trainable_params()
    assert repr(cell) == "BatchNorm2d(num_features=2, eps=1e-05, momentum=0.9)"


def test_a_forward_and_its_gradient_move_the_statistics_once_if_recorded() -> None:
    for recorded, times in ((False, 2), (True, 1)):
        cell = nn.BatchNorm1d(1, momentum=0.5).set_train().set_grad(recorded)
        x = Tensor(np.array([[3.0], [5.0]], np.float32))
        cell(x)
        ms.grad(cell, None, cell.trainable_params())(x)
        np.testing.assert_allclose(cell.moving_mean.asnumpy(), [4 * (1 - 0.5**times)])


def test_moving_statistics_are_no_part_of_a_gradient() -> None:
    cell = nn.BatchNorm1d(2).set_train()
    x = Tensor(normal(4, 2).astype(np.float32))
    ms.grad(lambda x: cell(x).sum(), 0, list(cell.get_parameters()))(x)
    assert cell.moving_mean._tape is None
    assert cell.moving_variance._tape is None


@pytest.mark.parametrize("training", [False, True])
def test_inside_a_half_precision_cell_statistics_keep_float32(training: bool) -> None:
    net = nn.SequentialCell([nn.Dense(3, 2), nn.BatchNorm1d(2), nn.Dense(2, 1)]).to_float(ms.float16)
    net.set_train(training)
    dtypes = []
    for cell in net:
        cell.register_forward_hook(lambda cell, inputs, output: dtypes.append(output.dtype))
    x = Tensor(normal(8, 3).astype(np.float32))
    assert net(x).dtype == ms.float16
    assert dtypes == [ms.float16] * 3
    assert net[1].moving_mean.dtype == ms.float32
    if training:
        assert not np.array_equal(net[1].moving_mean.asnumpy(), net[1].moving_mean.asnumpy().astype(np.float16))
    dtypes.clear()
    net[1].to_float(ms.float32)
    net(x)
    assert dtypes == [ms.float16, ms.float32, ms.float16]
    gradients = ms.grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    assert {g.dtype for g in gradients} == {np.dtype(np.float32)}


@pytest.mark.parametrize(("norm", "params", "shape"), [(-1, -1, (5,)), (1, 1, (4, 5)), (1, -1, (5,)), (-1, 1, (4, 5))])
def test_layer_norm(norm: int, params: int, shape: tuple[int, ...]) -> None:
    cell = nn.LayerNorm(shape, norm, params, dtype=ms.float64)
    cell.gamma.set_data(Tensor(normal(*shape, seed=1)))
    gamma = torch.from_numpy(normal(*shape, seed=1))
    axes = (4, 5) if norm == 1 else (5,)
    assert_as_torch(cell, lambda x: torch.nn.functional.layer_norm(x, axes, eps=1e-7) * gamma, normal(3, 4, 5))


def test_layer_norm_is_torch_s_with_its_eps() -> None:
    cell = nn.LayerNorm([4, 5], 1, 1, epsilon=1e-5, dtype=ms.float64)
    assert_cell_as_module(cell, torch.nn.LayerNorm((4, 5), dtype=torch.float64), normal(3, 4, 5))
    assert nn.LayerNorm((4,)).epsilon == 1e-7


def test_group_norm_is_torch_s() -> None:
    cell = nn.GroupNorm(2, 4, dtype=ms.float64)
    assert_cell_as_module(cell, torch.nn.GroupNorm(2, 4, dtype=torch.float64), normal(3, 4, 2, 3))
    assert repr(cell) == "GroupNorm(num_groups=2, num_channels=4)"


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_instance_norm_is_torch_s(axes: int) -> None:
    cell = getattr(nn, f"InstanceNorm{axes}d")(3, momentum=0.2, dtype=ms.float64).set_train()
    module = getattr(torch.nn, f"InstanceNorm{axes}d")(
        3, momentum=0.8, affine=True, track_running_stats=True, dtype=torch.float64
    )
    x = normal(2, 3, *(4, 3, 2)[:axes])
    assert_cell_as_module(cell, module, x)
    np.testing.assert_allclose(cell.moving_mean.asnumpy(), module.running_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(cell.moving_variance.asnumpy(), module.running_var.numpy(), rtol=1e-12)
    cell.set_train(False)  # the statistics are still those of the instance
    assert_cell_as_module(cell, getattr(torch.nn, f"InstanceNorm{axes}d")(3, affine=True, dtype=torch.float64), x)


@pytest.mark.parametrize(
    "cell", [nn.LayerNorm((4,)), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4)], ids=lambda c: c.cls_name
)
def test_half_precision_inputs_meet_float32_parameters(cell: nn.Cell) -> None:
    x = Tensor(normal(2, 4, 4).astype(np.float16))
    y = cell(x)
    assert y.dtype == ms.float16
    wide = cell(x.astype(ms.float32)).asnumpy()
    np.testing.assert_allclose(y.asnumpy(), wide, rtol=1e-3, atol=1e-3)


def test_one_process_synchronizes_with_itself() -> None:
    x = Tensor(normal(2, 3, 4, 5).astype(np.float32))
    alone, plain = nn.SyncBatchNorm(3).set_train(), nn.BatchNorm2d(3).set_train()
    np.testing.assert_array_equal(alone(x).asnumpy(), plain(x).asnumpy())
    with pytest.raises(ValueError, match="'process_groups' must be one of"):
        nn.SyncBatchNorm(3, process_groups=[[0, 1]])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.BatchNorm2d(3, momentum=2.0), ValueError, r"'momentum' must be a number in range \[0, 1\]"),
        (lambda: nn.BatchNorm2d(0), ValueError, "'num_features' must be an int > 0"),
        (lambda: nn.BatchNorm2d(2.0), TypeError, "'num_features' must be int"),
        (lambda: nn.BatchNorm2d(2, use_batch_statistics="yes"), ValueError, "'use_batch_statistics' must be one of"),
        (lambda: nn.BatchNorm2d(2, data_format="NHWC"), ValueError, "'data_format' must be one of"),
        (lambda: nn.LayerNorm(4), TypeError, "'normalized_shape' must be tuple or list, but got int: 4"),
        (lambda: nn.LayerNorm(()), ValueError, "'normalized_shape' must hold at least one size"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "'num_channels' must be divisible by 'num_groups' 3, but got 4"),
        (lambda: nn.GroupNorm(2, 4, eps=1), TypeError, "'eps' must be float"),
        (lambda: nn.InstanceNorm2d(2, momentum=-0.1), ValueError, "'momentum' must be a number in range"),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("cell", "shape", "message"),
    [
        (nn.BatchNorm2d(3), (2, 3, 4), "For 'BatchNorm2d', the input must have 4 dimensions"),
        (nn.BatchNorm1d(3), (2, 3, 4, 5), "For 'BatchNorm1d', the input must have 2 or 3 dimensions"),
        (nn.BatchNorm3d(3), (2, 3, 4, 5), "For 'BatchNorm3d', the input must have 5 dimensions"),
        (nn.BatchNorm2d(3), (2, 4, 4, 5), "shape"),
        (nn.BatchNorm1d(3).set_train(), (1, 3), "more than one element per channel"),
        (nn.LayerNorm((4,)), (2, 3), r"'gamma' must have the shape \(3,\)"),
        (nn.GroupNorm(2, 4), (2, 6, 3), "shape"),
        (nn.InstanceNorm2d(3), (2, 3, 4), "For 'InstanceNorm2d', the input must have 4 dimensions"),
    ],
)
def test_inputs_are_checked(cell: nn.Cell, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cell(Tensor(np.ones(shape, np.float32)))
