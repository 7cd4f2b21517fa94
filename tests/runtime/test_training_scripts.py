"""Networks trained as scripts train them, step by step beside torch (or a formula in NumPy), in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import ParameterTuple, Tensor, amp, nn, ops, value_and_grad

Array = np.ndarray[Any, Any]


def batches(count: int, x_shape: tuple[int, ...], classes: int) -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng(2)
    for _ in range(count):
        yield rng.normal(size=x_shape), rng.integers(0, classes, x_shape[0])


def start_from(cell: nn.Cell, module: torch.nn.Module) -> list[tuple[ms.Parameter, torch.Tensor]]:
    """Give the Cell the module's parameters, which come in the same order; the pairs."""
    pairs = list(zip(cell.trainable_params(), module.parameters(), strict=True))
    for parameter, tensor in pairs:
        parameter.set_data(Tensor(tensor.detach().numpy()))
    return pairs


def assert_same(pairs: Sequence[tuple[Any, torch.Tensor]], step: int, rtol: float = 1e-9) -> None:
    for parameter, tensor in pairs:
        expected = tensor.detach().numpy()
        np.testing.assert_allclose(
            parameter.asnumpy(), expected, rtol, rtol, err_msg=f"{parameter.name} after step {step}"
        )


class LeNet5(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid", has_bias=True, dtype=ms.float64)
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True, dtype=ms.float64)
        self.fc1 = nn.Dense(16 * 5 * 5, 120, dtype=ms.float64)
        self.fc2 = nn.Dense(120, 10, dtype=ms.float64)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x: Any) -> Any:
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        return self.fc2(self.relu(self.fc1(self.flatten(x))))


def lenet_in_torch() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(1, 6, 5), layers.ReLU(), layers.MaxPool2d(2), layers.Conv2d(6, 16, 5), layers.ReLU(),
        layers.MaxPool2d(2), layers.Flatten(), layers.Linear(400, 120), layers.ReLU(), layers.Linear(120, 10),
    ).double()  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 1024.0, 3.0])
def test_lenet_with_momentum(scale: float) -> None:
    net, module = LeNet5(), lenet_in_torch()
    pairs = start_from(net, module)
    optimizer = nn.Momentum(
        filter(lambda p: p.requires_grad, net.get_parameters()), 0.05, 0.9, weight_decay=1e-3, loss_scale=scale
    )
    with_loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    train = nn.TrainOneStepCell(with_loss, optimizer, sens=scale).set_train()
    reference = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9, weight_decay=1e-3)
    for step, (x, y) in enumerate(batches(4, (3, 1, 32, 32), 10)):
        loss = train(Tensor(x), Tensor(y, ms.int32))
        reference.zero_grad()
        expected = torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y))
        expected.backward()
        reference.step()
        np.testing.assert_allclose(loss.asnumpy(), expected.item(), rtol=1e-10)
        assert_same(pairs, step)


class Encoder(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.SequentialCell(
            nn.Dense(4, 8, dtype=ms.float64), nn.LayerNorm((8,), epsilon=1e-5, dtype=ms.float64), nn.GELU(False)
        )
        self.head = nn.Dense(8, 3, dtype=ms.float64)

    def construct(self, x: Any) -> Any:
        return self.head(self.block(x))


def encoder_in_torch() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = torch.nn
    block = [layers.Linear(4, 8), layers.LayerNorm(8), layers.GELU()]
    return layers.Sequential(*block, layers.Linear(8, 3)).double()


class TrainWithClip(nn.TrainOneStepCell):
    """A step of one's own: gradients by `GradOperation`, clipped by their common norm."""

    def __init__(self, network: nn.Cell, optimizer: Any, sens: float, clip: float) -> None:
        super().__init__(network, optimizer, sens)
        self.clip = clip
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        gradients = self.grad(self.network, self.weights)(*inputs, sens)
        self.optimizer(ops.clip_by_global_norm(gradients, self.clip))
        return loss


def test_a_step_of_ones_own_with_clipping() -> None:
    net, module = Encoder(), encoder_in_torch()
    pairs = start_from(net, module)
    train = TrainWithClip(
        nn.WithLossCell(net, nn.CrossEntropyLoss()), nn.SGD(net.trainable_params(), 0.3, momentum=0.9), 1.0, 0.1
    ).set_train()
    reference = torch.optim.SGD(module.parameters(), 0.3, momentum=0.9)
    for step, (x, y) in enumerate(batches(5, (6, 4), 3)):
        train(Tensor(x), Tensor(y, ms.int32))
        reference.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        norm = torch.stack([(g**2).sum() for g in gradients]).sum().sqrt()
        assert norm > 0.1
        for g in gradients:
            g *= 0.1 / norm
        reference.step()
        assert_same(pairs, step, rtol=1e-6)  # the norm is computed in float32


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    net, module = Encoder(), encoder_in_torch()
    pairs = start_from(net, module)
    optimizer = nn.Adam(net.trainable_params(), 0.05, eps=1e-30)
    loss_fn = nn.CrossEntropyLoss()
    gradient = value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)
    accumulated = ParameterTuple(optimizer.parameters).clone("accumulated", "zeros")
    reference = torch.optim.Adam(module.parameters(), 0.05, eps=0.0)
    for step, (x, y) in enumerate(batches(4, (6, 4), 3)):
        for part in range(3):
            rows = slice(2 * part, 2 * part + 2)
            _, gradients = gradient(Tensor(x[rows]), Tensor(y[rows], ms.int32))
            for total, g in zip(accumulated, gradients, strict=True):
                ops.assign_add(total, g / 3.0)
        optimizer(tuple(accumulated))
        for total in accumulated:
            total.set_data(ops.zeros_like(total))
        reference.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        reference.step()
        assert_same(pairs, step, rtol=1e-8)


def test_frozen_parts_groups_and_a_schedule() -> None:
    net, module = Encoder(), encoder_in_torch()
    pairs = start_from(net, module)
    for parameter in net.trainable_params():
        parameter.requires_grad = "block.0" not in parameter.name
    module[0].requires_grad_(False)
    head = [p for p in net.trainable_params() if "head" in p.name]
    rest = [p for p in net.trainable_params() if "head" not in p.name]
    schedule = nn.CosineDecayLR(0.01, 0.2, 6)
    optimizer = nn.Momentum(
        [{"params": head, "lr": 0.05}, {"params": rest, "weight_decay": 0.1}], schedule, 0.9, weight_decay=0.02
    )
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), optimizer).set_train()
    reference = torch.optim.SGD(
        [{"params": module[3].parameters(), "lr": 0.05, "weight_decay": 0.02},
         {"params": module[1].parameters(), "weight_decay": 0.1}],
        0.2, momentum=0.9,
    )  # fmt: skip
    before = net.block[0].weight.asnumpy()
    for step, (x, y) in enumerate(batches(5, (6, 4), 3)):
        train(Tensor(x), Tensor(y, ms.int32))
        reference.param_groups[1]["lr"] = 0.01 + 0.5 * (0.2 - 0.01) * (1 + np.cos(np.pi * step / 6))
        reference.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        reference.step()
        assert_same(pairs, step, rtol=1e-7)  # the schedule computes in float32
    assert (net.block[0].weight.asnumpy() == before).all()


# ---- formulas that torch doesn't have ----


def adam(w: Array, g: Array, state: list[Array], t: int) -> Array:
    m, v = state[0], state[1]
    m += 0.1 * (g - m)
    v += 0.001 * (g * g - v)
    return w - 0.05 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 0.01)


def adam_weight_decay(w: Array, g: Array, state: list[Array], t: int) -> Array:
    m, v = state[0], state[1]
    m += 0.1 * (g - m)
    v += 0.001 * (g * g - v)
    return w - 0.05 * (m / (np.sqrt(v) + 1e-6) + 0.1 * w)


@pytest.mark.parametrize(
    ("make", "formula"),
    [
        (lambda p: nn.Adam(p, 0.05, eps=0.01), adam),
        (lambda p: nn.AdamWeightDecay([{"params": p}], 0.05, weight_decay=0.1), adam_weight_decay),
    ],
)
def test_adam_by_its_formula(make: Callable[[Any], nn.Optimizer], formula: Callable[..., Array]) -> None:
    net, module = Encoder(), encoder_in_torch()
    pairs = start_from(net, module)
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), make(net.trainable_params()))
    states = [[np.zeros(tensor.shape), np.zeros(tensor.shape)] for _, tensor in pairs]
    for step, (x, y) in enumerate(batches(6, (6, 4), 3)):
        train(Tensor(x), Tensor(y, ms.int32))
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        for (_, tensor), state in zip(pairs, states, strict=True):
            assert tensor.grad is not None
            new = formula(tensor.detach().numpy(), tensor.grad.numpy(), state, step + 1)
            tensor.data = torch.from_numpy(new)
        assert_same(pairs, step)


# ---- loss scales ----


def test_a_dynamic_scale_skips_what_overflows_and_changes_nothing_else() -> None:
    """In float32 a power of two loses nothing: training is bit for bit that of the steps without overflow."""

    def run(scaler: amp.LossScaler | None, skipped: set[int]) -> tuple[list[Any], set[int]]:
        ms.set_seed(0)
        net = nn.SequentialCell([nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 3)])
        optimizer, loss_fn = nn.Momentum(net.trainable_params(), 0.003, 0.9), nn.CrossEntropyLoss()

        def forward(x: Any, y: Any) -> Any:
            loss = loss_fn(net(x), y) * 32.0
            return (scaler.scale(loss) if scaler else loss), loss

        gradient = value_and_grad(forward, None, optimizer.parameters, has_aux=True)
        left_out = set()
        for step, (x, y) in enumerate(batches(12, (6, 4), 3)):
            _, gradients = gradient(Tensor(x, ms.float32), Tensor(y, ms.int32))
            if scaler:
                finite = amp.all_finite(gradients)
                gradients = scaler.unscale(gradients)
                scaler.adjust(finite)
            else:
                finite = step not in skipped
            if finite:
                optimizer(gradients)
            else:
                left_out.add(step)
        return [p.tolist() for p in net.get_parameters()], left_out

    scaled, left_out = run(amp.DynamicLossScaler(2.0**125, 4, 3), set())
    assert 0 < len(left_out) < 12
    assert scaled == run(None, left_out)[0]


def test_half_precision_follows_float32() -> None:
    def losses(level: str) -> list[float]:
        ms.set_seed(0)
        net = nn.SequentialCell([nn.Dense(4, 16), nn.LayerNorm((16,)), nn.ReLU(), nn.Dense(16, 3)])
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        manager = amp.DynamicLossScaleManager(1024, 2, 100)
        step = amp.build_train_network(net, optimizer, nn.CrossEntropyLoss(), level=level, loss_scale_manager=manager)
        results = [step(Tensor(x, ms.float32), Tensor(y, ms.int32)) for x, y in batches(10, (16, 4), 3)]
        assert not any(bool(overflow) for _, overflow, _ in results)
        return [float(loss) for loss, *_ in results]

    exact, half = losses("O0"), losses("O2")
    assert exact != half
    np.testing.assert_allclose(half, exact, rtol=0.02)
