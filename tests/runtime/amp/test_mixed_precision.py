"""`Cell.to_float` and `auto_mixed_precision`: which Cell computes in which dtype, and what stays float32."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, amp, grad, nn, ops

X = Tensor([[1.0, 2.0], [3.0, 5.0]])


def network() -> nn.Cell:
    return nn.SequentialCell([nn.Dense(2, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Dense(2, 1)])


def dtypes(net: nn.Cell, x: Tensor = X) -> str:
    """Bits of the outputs of the children, and of the network."""
    outputs: list[Any] = []
    for cell in net.cells():
        cell.register_forward_hook(lambda cell, inputs, output: outputs.append(output))
    output = net(x)
    return " ".join(str(y.dtype).removeprefix("float") for y in (*outputs, output))


# ---- to_float ----


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_a_cell_computes_in_half_precision_and_keeps_its_parameters(dtype: Any) -> None:
    net = nn.Dense(2, 1)
    assert net.to_float(dtype) is net
    input_dtypes: list[Any] = []
    net.register_forward_pre_hook(lambda cell, inputs: input_dtypes.append(inputs[0].dtype))
    assert (net(X).dtype, input_dtypes) == (dtype, [np.float32])
    of_x, of_weights = grad(net, 0, net.trainable_params())(X)
    assert {g.dtype for g in (of_x, *of_weights)} == {np.dtype(np.float32)}
    assert {p.dtype for p in net.get_parameters()} == {np.dtype(np.float32)}


def test_values_are_those_of_rounded_operands() -> None:
    net = nn.Dense(2, 1, weight_init=Tensor([[0.1, 0.7]]), has_bias=False).to_float(ms.float16)
    rounded = X.asnumpy().astype(np.float16) @ np.array([[0.1], [0.7]], np.float16)
    assert net(X).tolist() == rounded.tolist()


def test_what_is_not_floating_point_stays() -> None:
    class Mixed(nn.Cell):
        def construct(self, x: Any, k: Any, m: Any) -> Any:
            return x * 2.5, k * 2, ops.logical_not(m), x.astype(ms.float32), x

    net = Mixed().to_float(ms.float16)
    outputs = net(Tensor([1.0], ms.float64), Tensor([1], ms.int32), Tensor([True]))
    assert [str(y.dtype) for y in outputs] == ["float16", "int32", "bool", "float32", "float64"]


def test_the_last_call_counts() -> None:
    net = network()
    assert dtypes(net.to_float(ms.float16)) == "16 16 16 16 16"
    net = network().to_float(ms.float16)
    net[1].to_float(ms.float32)
    assert dtypes(net) == "16 32 16 16 16"
    assert dtypes(net.to_float(ms.float32)) == "32 32 32 32 32"
    child_only = network()
    child_only[3].to_float(ms.float16)
    assert dtypes(child_only) == "32 32 32 16 16"


def test_all_batch_norms_in_float32() -> None:
    net = network().to_float(ms.float16)
    for _, cell in net.cells_and_names():
        if isinstance(cell, nn.BatchNorm1d):
            cell.to_float(ms.float32)
    assert dtypes(net.set_train()) == "16 32 16 16 16"
    assert net[1].moving_mean.dtype == np.float32


def test_without_it_dtypes_are_not_mixed_in_products() -> None:
    with pytest.raises(TypeError, match="Float16 and Float32"):
        nn.Dense(2, 1)(X.astype(ms.float16))
    assert (X + X.astype(ms.float16)).dtype == np.float32


# ---- auto_mixed_precision ----


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("O0", "32 32 32 32 32"),
        ("O1", "32 32 32 32 32"),  # the Cells of the white list compute in half precision and return float32
        ("O2", "16 16 16 16 32"),
        ("O3", "16 16 16 16 32"),
        ("auto", "16 16 16 16 16"),
    ],
)
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_levels(level: str, expected: str, dtype: Any) -> None:
    net = network().set_train()
    assert amp.auto_mixed_precision(net, level, dtype) is net
    assert dtypes(net).replace("bfloat", "") == expected
    gradients = grad(net, None, net.trainable_params())(X)
    assert {g.dtype for g in gradients} == {p.dtype for p in net.get_parameters()} == {np.dtype(np.float32)}


def test_results_of_any_structure_are_float32() -> None:
    Heads = namedtuple("Heads", "a b")

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(2, 1)

        def construct(self, x: Any) -> Any:
            return Heads(self.fc(x), {"twice": [self.fc(x) * 2]})

    result = amp.auto_mixed_precision(Net(), "O3")(X)
    assert type(result) is Heads
    assert result.a.dtype == result.b["twice"][0].dtype == np.float32


BIG = Tensor([[2049.0]])  # float16 has no such number: it becomes 2048


@pytest.mark.parametrize(
    ("level", "expected"), [("O0", 2049), ("O1", 2048), ("O2", 2048), ("O3", 2048), ("auto", 2048)]
)
def test_dense_layers_round(level: str, expected: float) -> None:
    net = nn.SequentialCell([nn.Dense(1, 1, weight_init="ones", has_bias=False)])
    assert amp.auto_mixed_precision(net, level)(BIG).asnumpy() == expected


@pytest.mark.parametrize(("level", "expected"), [("O0", 2049), ("O1", 2049), ("O3", 2048), ("auto", 2049)])
def test_normalizations_round_at_level_o3_only(level: str, expected: float) -> None:
    net = nn.SequentialCell([nn.BatchNorm1d(1, eps=1e-30)])
    assert amp.auto_mixed_precision(net, level)(BIG).asnumpy() == expected


def test_normalizations_compute_in_float32_at_level_o2() -> None:
    net = nn.SequentialCell([nn.BatchNorm1d(1, eps=1e-30, moving_mean_init=Tensor([2048.0]))])
    assert amp.auto_mixed_precision(net, "O2")(BIG).asnumpy() == 1.0


def test_ops_by_level_auto() -> None:
    def function(x: Any) -> Any:
        return ops.matmul(x, x), ops.softmax(x), ops.exp(x), x + x, x + x.astype(ms.float16), x.sum()

    computed = amp.auto_mixed_precision(function, "auto")
    assert [str(y.dtype) for y in computed(X)] == ["float16", *["float32"] * 5]
    assert [str(y.dtype) for y in computed(X.astype(ms.float16))] == [
        "float16", "float32", "float32", "float16", "float16", "float32",
    ]  # fmt: skip
    assert function(X)[0].dtype == np.float32


def test_training_at_level_o2() -> None:
    ms.set_seed(1)  # a small first loss would need no smaller scale
    net = network()
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    step = amp.build_train_network(net, optimizer, nn.MSELoss(), level="O2")
    losses = [step(X, Tensor([[1.0], [0.0]]))[0].asnumpy() for _ in range(25)]
    assert losses[0] == losses[5] > losses[-1]  # the scale comes down from 2**24 first
    assert losses[0].dtype == np.float32
    assert isinstance(step, nn.TrainOneStepWithLossScaleCell)


@pytest.mark.parametrize(
    ("kwargs", "cell", "scale"),
    [
        ({}, nn.TrainOneStepCell, 1.0),
        ({"loss_scale_manager": amp.FixedLossScaleManager(8, False)}, nn.TrainOneStepCell, 8),
        ({"loss_scale_manager": amp.FixedLossScaleManager(8)}, nn.TrainOneStepWithLossScaleCell, None),
        ({"level": "O2", "loss_scale_manager": None}, nn.TrainOneStepCell, 1.0),
        ({"cast_model_type": ms.float16, "keep_batchnorm_fp32": False}, nn.TrainOneStepCell, 1.0),
    ],
)
def test_train_networks(kwargs: dict[str, Any], cell: type[nn.Cell], scale: Any) -> None:
    net = network()
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9, loss_scale=scale or 1.0)
    step = amp.build_train_network(net, optimizer, nn.MSELoss(), **kwargs)
    assert type(step) is cell
    assert step.training
    if scale:
        assert step.sens == scale
    step(X, Tensor([[1.0], [0.0]]))


def test_custom_lists() -> None:
    assert nn.Dense in amp.get_white_list()
    assert nn.BatchNorm2d in amp.get_black_list()
    amp.get_white_list().clear()
    assert amp.get_white_list()
    white = amp.custom_mixed_precision(network(), white_list=[nn.ReLU])
    assert dtypes(white) == "32 32 32 32 32"
    black = amp.custom_mixed_precision(network(), black_list=[nn.Dense], dtype=ms.bfloat16)
    assert dtypes(black) == "b16 b16 b16 b16 32".replace("b16", "bfloat16")


# ---- combinations and refusals ----


def test_combinations_are_warned_about() -> None:
    net = network()
    net[1].to_float(ms.float16)
    with pytest.warns(UserWarning, match="to_float are combined: the dtype of 1 was set"):
        amp.auto_mixed_precision(net, "O2")
    with pytest.warns(UserWarning, match="overrides amp level O3"):
        amp.auto_mixed_precision(network(), "O3").to_float(ms.float32)
    net = amp.auto_mixed_precision(network(), "O1")
    with pytest.warns(UserWarning, match="amp level O1: level O2"):
        amp.auto_mixed_precision(net, "O2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        amp.auto_mixed_precision(network(), "O2")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: amp.auto_mixed_precision(network(), "o2"), ValueError, ["level", "'o2'", "O2"]),
        (lambda: amp.auto_mixed_precision(network(), 2), ValueError, ["level", "2"]),
        (lambda: amp.auto_mixed_precision(3, "O2"), TypeError, ["network", "Cell", "3"]),
        (lambda: amp.auto_mixed_precision(ops.relu, "O2"), TypeError, ["network", "Cell", "function"]),
        (lambda: amp.auto_mixed_precision(network(), "O2", ms.float64), ValueError, ["dtype", "float16", "float64"]),
        (lambda: amp.custom_mixed_precision(network()), ValueError, ["white_list", "black_list"]),
        (lambda: amp.custom_mixed_precision(network(), white_list=(nn.ReLU,)), TypeError, ["white_list", "list"]),
        (lambda: amp.custom_mixed_precision(network(), black_list=[3]), TypeError, ["black_list", "Cell classes", "3"]),
        (lambda: amp.build_train_network(network(), 3), TypeError, ["optimizer", "Optimizer", "3"]),
    ],
)
def test_refusals(make: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make()
    assert [word for word in words if word not in str(raised.value)] == []
