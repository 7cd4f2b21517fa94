"""`compile_train_step`: steps of training in ONNX Runtime, against torch's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.runtime import UsageError, optim
from cellbridge.runtime.amp import DynamicLossScaler
from cellbridge.runtime.train_step.train_step import TrainStep, compile_train_step

Array = np.ndarray[Any, Any]


class Net(nn.Module):
    """Convolution, normalization with statistics, and a head; a weight that may be frozen."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * 4 * 4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        return self.head(torch.relu(self.hidden(y.flatten(1))))


def batches(count: int, size: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 1, 6, 6, generator=generator), torch.randint(0, 3, (size,), generator=generator))
        for _ in range(count)
    ]


def compiled(optimizer: Any, **options: Any) -> TrainStep:
    program = from_torch(Net().train(), (batches(1)[0][0],), train=True)
    return compile_train_step(program, ms.nn.CrossEntropyLoss(), optimizer, provider="cpu", **options)


def assert_same(parameters: dict[str, Array], module: nn.Module) -> None:
    state = {name: value.numpy() for name, value in module.state_dict().items()}
    assert parameters.keys() == state.keys()
    for name, expected in state.items():
        np.testing.assert_allclose(parameters[name], expected, rtol=2e-4, atol=2e-5, err_msg=name)


def train(
    module: nn.Module, optimizer: torch.optim.Optimizer, clip: float | None = None, steps: int = 4
) -> list[float]:
    losses = []
    for x, y in batches(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses


Maker = Callable[[Any], Any]
OPTIMIZERS: dict[str, tuple[Maker, Maker]] = {
    "sgd": (lambda p: optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd-decay": (
        lambda p: optim.SGD(p, 0.1, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
    ),
    "sgd-dampening": (
        lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
    ),
    "momentum": (
        lambda p: ms.nn.Momentum(p, 0.1, 0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    ),
    "nesterov": (
        lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    ),
    "adam": (
        lambda p: optim.Adam(p, 0.01, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01),
    ),
    "adam-amsgrad": (
        lambda p: optim.Adam(p, 0.01, betas=(0.5, 0.8), amsgrad=True),
        lambda p: torch.optim.Adam(p, 0.01, betas=(0.5, 0.8), amsgrad=True),
    ),
    "adamw": (
        lambda p: optim.AdamW(p, 0.01, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.every(9)
def test_steps_are_those_of_torch(name: str) -> None:
    optimizer, torch_optimizer = OPTIMIZERS[name]
    step, module = compiled(optimizer), Net().train()
    losses = train(module, torch_optimizer(module.parameters()))
    np.testing.assert_allclose([step(*batch) for batch in batches(4)], losses, rtol=1e-4)
    assert_same(step.parameters(), module)
    assert not step.overflowed


def test_gradients_are_clipped_to_a_norm() -> None:
    module = Net().train()
    train(module, torch.optim.SGD(module.parameters(), 0.1), clip=0.05)
    step = compiled(lambda p: optim.SGD(p, 0.1), clip_norm=0.05)
    for batch in batches(4):
        step(batch)  # one tuple will do
    assert_same(step.parameters(), module)


def test_gradients_are_accumulated() -> None:
    module = Net().train()
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    step = compiled(lambda p: optim.SGD(p, 0.1, momentum=0.9), accumulate=2, loss_scale=64.0)
    before = step.parameters()
    for i, (x, y) in enumerate(batches(5)):
        (nn.functional.cross_entropy(module(x), y) / 2).backward()
        step(x, y)
        if i == 0:
            np.testing.assert_array_equal(step.parameters()["conv.weight"], before["conv.weight"])
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
    assert_same(step.parameters(), module)


def test_frozen_parameters_stay_and_get_no_gradient() -> None:
    module = Net().train()
    module.conv.requires_grad_(False)
    train(module, torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], 0.01))
    step = compiled(lambda p: optim.AdamW(p, 0.01), frozen=["conv.*"])
    for batch in batches(4):
        step(*batch)
    assert_same(step.parameters(), module)
    assert not any("conv" in name for name in step.optimizer_state())
    whole = compiled(lambda p: optim.AdamW(p, 0.01))
    whole(*batches(1)[0])
    assert _computed(step) < _computed(whole)


def _computed(step: TrainStep) -> int:
    """How many nodes there are of convolutions and their gradients."""
    return sum(node.cell and step.program.calls[node.cell].path == "network.conv" for node in step.program.nodes)


def test_an_optimizer_may_know_parameters_that_are_frozen() -> None:
    cell = ms.nn.GraphCell(from_torch(Net().train(), (batches(1)[0][0],), train=True))
    optimizer = ms.nn.Momentum(cell.trainable_params(), 0.1, 0.9, weight_decay=0.1)
    step = compile_train_step(cell, ms.nn.CrossEntropyLoss(), optimizer, frozen=["head.*"])
    before = step.parameters()
    step(*batches(1)[0])
    after = step.parameters()
    np.testing.assert_array_equal(after["head.weight"], before["head.weight"])
    assert (after["hidden.weight"] != before["hidden.weight"]).any()


class Partly(ms.nn.Cell):
    """A network with a layer that the output doesn't depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = ms.nn.Dense(4, 2), ms.nn.Dense(4, 2)

    def construct(self, x: Any) -> Any:
        return self.used(x)


@pytest.mark.parametrize("compile_it", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: optim.AdamW(p, 0.1, weight_decay=0.5),
        lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.5),
        lambda p: ms.nn.Momentum(p, 0.1, 0.9, weight_decay=0.5),
    ],
    ids=["adamw", "sgd", "momentum"],
)
def test_a_parameter_that_the_loss_does_not_depend_on_is_left_as_it_is(optimizer: Any, compile_it: bool) -> None:
    cell = Partly()
    step = compile_train_step(cell, ms.nn.MSELoss(), optimizer, loss_scale=2.0)
    before = step.state()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 4), np.float32), rng.standard_normal((6, 2), np.float32)
    for _ in range(2):
        step(x, y) if compile_it else step.step(ms.Tensor(x), ms.Tensor(y))
    after = step.state()
    for name, array in before.items():
        if "unused" in name:
            np.testing.assert_array_equal(after[name], array, err_msg=name)
        elif "used" in name:
            assert (after[name] != array).any(), name


def test_a_step_that_overflows_is_left_out() -> None:
    scaler = DynamicLossScaler(2.0**127, 2, 2)  # gradients are infinite at first
    step = compiled(lambda p: optim.Adam(p, 0.01), loss_scale=scaler)
    (x, y), *rest = batches(3)
    x = x * 100
    before = step.parameters()
    step(x, y)
    assert step.overflowed
    after = step.parameters()
    for name in ("conv.weight", "head.bias"):
        np.testing.assert_array_equal(after[name], before[name])
    assert (after["norm.running_mean"] != before["norm.running_mean"]).any()  # the forward pass did run
    assert not any(array.any() for name, array in step.optimizer_state().items() if "moment" in name)
    assert step.state()["loss_scale"] == 2.0**126
    overflows = 0
    while step.overflowed:
        overflows += 1
        step(x, y)
    assert step.state()["loss_scale"] == 2.0 ** (126 - overflows + 1)
    assert step.state()["steps_without_overflow"] == 1
    step(*rest[0])
    assert step.state()["loss_scale"] == 2.0 ** (127 - overflows + 1)


def test_the_state_is_a_copy_that_outlives_the_step() -> None:
    step = compiled(lambda p: optim.SGD(p, 0.1, momentum=0.9))
    step(*batches(1)[0])
    before = step.state()
    kept = {name: array.copy() for name, array in before.items()}
    for batch in batches(3):
        step(*batch)
    after = step.state()
    assert (after["conv.weight"] != before["conv.weight"]).any()
    del step
    for name, array in before.items():
        np.testing.assert_array_equal(array, kept[name])


def test_the_learning_rate_can_be_changed() -> None:
    module = Net().train()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    step = compiled(lambda p: optim.SGD(p, 0.1))
    assert step.learning_rate == pytest.approx(0.1)
    for i, (x, y) in enumerate(batches(3)):
        step.learning_rate = optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
        step(x, y)
    assert_same(step.parameters(), module)


def test_a_schedule_is_part_of_the_program() -> None:
    schedule = ms.nn.ExponentialDecayLR(0.1, 0.5, 1)
    step = compiled(lambda p: ms.nn.Momentum(p, schedule, 0.0))
    module = Net().train()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for i, (x, y) in enumerate(batches(3)):
        optimizer.param_groups[0]["lr"] = 0.1 * 0.5**i
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
        step(x, y)
    assert_same(step.parameters(), module)
    with pytest.raises(UsageError, match="computes its learning rate"):
        step.learning_rate = 0.1


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"loss_scale": 2.0}])
@pytest.mark.every(3)
def test_a_list_of_learning_rates_ends(options: dict[str, Any], tmp_path: Path) -> None:
    """After as many updates as there are rates, however many calls these took, and wherever training went on."""
    step = compiled(lambda p: optim.SGD(p, [0.1, 0.2, 0.3]), **options)
    (x, y), *_ = batches(1)
    for _ in range(3):
        if "loss_scale" in options:
            step(x * float("inf"), y)
            assert step.overflowed
        for _ in range(options.get("accumulate", 1)):
            step(x, y)
    step.save(tmp_path / "step")
    resumed = compiled(lambda p: optim.SGD(p, [0.1, 0.2, 0.3]), **options)
    resumed.load(tmp_path / "step")
    for used_up in (step, resumed):
        with pytest.raises(RuntimeError, match=r"lists 3 learning rates, .* there is none for step 4"):
            used_up(x, y)


def test_training_goes_on_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "step.safetensors"
    whole = compiled(lambda p: optim.AdamW(p, 0.01), loss_scale="dynamic")
    for batch in batches(4):
        last = whole(*batch)
    begun = compiled(lambda p: optim.AdamW(p, 0.01), loss_scale="dynamic")
    for batch in batches(4)[:2]:
        begun(*batch)
    begun.save(path)
    resumed = compiled(lambda p: optim.AdamW(p, 0.01), loss_scale="dynamic")
    resumed.load(path)
    for batch in batches(4)[2:]:
        loss = resumed(*batch)
    assert loss == last
    for name, array in whole.state().items():
        np.testing.assert_array_equal(resumed.state()[name], array)


def test_a_file_of_another_step_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.safetensors"
    compiled(lambda p: optim.AdamW(p, 0.01)).save(path)
    with pytest.raises(UsageError, match="isn't of this step"):
        compiled(lambda p: optim.SGD(p, 0.01)).load(path)
    with pytest.raises(UsageError, match="can't read"):
        compiled(lambda p: optim.SGD(p, 0.01)).load(tmp_path / "none")
    with pytest.raises(UsageError, match="can't write"):
        compiled(lambda p: optim.SGD(p, 0.01)).save(tmp_path / "no" / "folder")


class Dense(ms.nn.Cell):
    """A network written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ms.nn.Dense(4, 2)
        self.count = ms.Parameter(np.zeros((), np.float32), requires_grad=False)

    def construct(self, x: Any) -> Any:
        self.count += 1.0
        return self.layer(x).tanh()


def test_batches_of_any_size_take_two_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_seed(1)
    cell = Dense()
    step = compile_train_step(cell, ms.nn.MSELoss(), ms.nn.Momentum(cell.trainable_params(), 0.1, 0.9))
    compiles = []
    original = TrainStep._compile
    monkeypatch.setattr(TrainStep, "_compile", lambda self, *given: (compiles.append(1), original(self, *given)))
    eager = Dense()
    for eager_parameter, parameter in zip(eager.get_parameters(), cell.get_parameters(), strict=True):
        eager_parameter.set_data(parameter)
    eager_step = ms.nn.TrainOneStepCell(
        ms.nn.WithLossCell(eager, ms.nn.MSELoss()), ms.nn.Momentum(eager.trainable_params(), 0.1, 0.9)
    )
    rng = np.random.default_rng(0)
    for size in (3, 5, 1, 8, 3):
        x, y = rng.standard_normal((size, 4), np.float32), rng.standard_normal((size, 2), np.float32)
        np.testing.assert_allclose(step(x, y), eager_step(ms.Tensor(x), ms.Tensor(y)).asnumpy(), rtol=1e-4)
    assert len(compiles) == 2
    assert step.parameters()["count"] == 5
    assert cell.count.asnumpy() == 0  # the Cell itself is left as it was
    step.write_back()
    assert cell.count.asnumpy() == 5
    np.testing.assert_allclose(cell.layer.weight.asnumpy(), eager.layer.weight.asnumpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_half_precision_has_master_weights_in_float32(dtype: Any) -> None:
    cell = Dense()
    cell.layer.to_float(dtype)
    step = compile_train_step(cell, ms.nn.MSELoss(), ms.nn.Momentum(cell.trainable_params(), 0.1, 0.9), loss_scale=8.0)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 4), np.float32), rng.standard_normal((6, 2), np.float32)
    first, *_, last = (float(step(x, y)) for _ in range(12))
    assert last < first
    assert step.parameters()["layer.weight"].dtype == np.float32
    assert any(value.dtype == dtype for node in step.program.nodes for value in node.outputs)


def test_mistakes_are_named() -> None:
    program = from_torch(Net().train(), (batches(1)[0][0],), train=True)
    with pytest.raises(UsageError, match=r"'conv9\.\*' matches no Parameter"):
        compile_train_step(program, None, lambda p: optim.SGD(p, 0.1), frozen=["conv9.*"])
    with pytest.raises(UsageError, match="write \\['conv"):
        compile_train_step(program, None, lambda p: optim.SGD(p, 0.1), frozen="conv.*")
    with pytest.raises(UsageError, match="nothing to train"):
        compile_train_step(program, None, lambda p: optim.SGD(p, 0.1), frozen=["*"])
    cell = ms.nn.Dense(4, 3)
    optimizer = optim.SGD(cell.trainable_params(), 0.1)
    with pytest.raises(UsageError, match="nothing to train: every Parameter of the optimizer is frozen"):
        compile_train_step(cell, None, optimizer, frozen=["*"])
    with pytest.raises(UsageError, match="an optimizer was given as loss: the order is network, loss, optimizer"):
        compile_train_step(cell, optimizer, ms.nn.CrossEntropyLoss())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="given 'static'"):
        compile_train_step(program, None, lambda p: optim.SGD(p, 0.1), loss_scale="static")
    manager: Any = ms.amp.DynamicLossScaleManager()
    with pytest.raises(UsageError, match=r"loss_scale must be a number.* given <.*DynamicLossScaleManager"):
        compile_train_step(program, None, lambda p: optim.SGD(p, 0.1), loss_scale=manager)
    with pytest.raises(UsageError, match="a loss scale of its own, 128"):
        compile_train_step(program, None, lambda p: ms.nn.Momentum(p, 0.1, 0.9, loss_scale=128.0), loss_scale=128.0)
    with pytest.raises(UsageError, match=r"a Cell or a program.*converter\.from_torch"):
        compile_train_step(Net(), None, lambda p: optim.SGD(p, 0.1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="clip_norm"):
        compile_train_step(program, None, lambda p: optim.SGD(p, 0.1), clip_norm=0.0)
    with pytest.raises(UsageError, match="at its first batch"):
        _ = compiled(lambda p: optim.SGD(p, 0.1)).program


def test_statistics_stay_where_the_mode_changes() -> None:
    class Norm(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.bn = ms.nn.BatchNorm1d(3)

        def construct(self, x: Any) -> Any:
            return self.bn(x)

    cell = Norm().set_train()
    step = compile_train_step(cell, lambda y, t: (y * t).sum(), lambda p: ms.nn.SGD(p, 0.0))
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    step(x, y)
    moved = step.parameters()["bn.moving_mean"]
    assert moved.any()
    cell.set_train(False)
    for rows in (2, 1):
        step(x[:rows], y[:rows])
        np.testing.assert_array_equal(step.parameters()["bn.moving_mean"], moved)
    cell.set_train()
    step(x, y)
    assert (step.parameters()["bn.moving_mean"] != moved).any()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((), "needs the tensors of a batch"),
        ((np.ones((1, 4), np.float32),), "missing a required argument: 'x'; given 1 tensors, the last of which goes"),
        ((np.ones((1, 4), np.float32),) * 3, "too many positional arguments; given 3 tensors"),
        ((np.ones((1, 4), np.float32), None), "given NoneType at position 1"),
        (({"x": 1},), "given dict at position 0"),
    ],
)
def test_what_is_no_batch_is_refused(batch: Any, message: str) -> None:
    cell = Dense()
    step = compile_train_step(cell, ms.nn.MSELoss(), ms.nn.SGD(cell.trainable_params(), 0.1))
    with pytest.raises(UsageError, match=message):
        step(*batch)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda y, t: (y, t), "given tuple"),
        (lambda y, t: 1.0, "given float"),
        (lambda y, t: y, r"float32 of shape \(1, 2\)"),
        (lambda y, t: y.argmax(), "given int64"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Any, message: str) -> None:
    cell = Dense()
    step = compile_train_step(cell, loss, ms.nn.SGD(cell.trainable_params(), 0.1))
    with pytest.raises(UsageError, match=message):
        step(np.ones((1, 4), np.float32), np.ones((1, 2), np.float32))


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.functional.mse_loss, ms.nn.MSELoss, "mse"])
def test_a_loss_is_one_of_cells(loss: Any) -> None:
    with pytest.raises(UsageError, match=r"loss must be a Cell \(nn.CrossEntropyLoss\(\)\), a function"):
        compile_train_step(Dense(), loss, lambda p: optim.SGD(p, 0.1))


def test_an_optimizer_of_another_network_is_refused() -> None:
    with pytest.raises(UsageError, match="none of the network's Parameters"):
        compile_train_step(Dense(), ms.nn.MSELoss(), ms.nn.SGD(Dense().trainable_params(), 0.1))
    with pytest.raises(UsageError, match="needed an optimizer"):
        compile_train_step(Dense(), ms.nn.MSELoss(), "adam")  # type: ignore[arg-type]


def test_only_programs_are_compiled() -> None:
    with pytest.raises(UsageError, match="needed a program, given Dense"):
        ms.compile(Dense())  # type: ignore[arg-type]


def test_a_program_without_tensors_in_its_result_is_not_compiled() -> None:
    with pytest.raises(UsageError, match="returns no tensor: there is nothing to compile"):
        ms.compile(ms.trace(lambda x: {"size": x.shape[0]}, (ms.Tensor(np.ones(3, np.float32)),)).program)


@pytest.mark.parametrize("rate", [None, np.nan, np.inf, -1.0, [0.1], "0.1"])
@pytest.mark.every(3)
def test_what_is_no_learning_rate_is_refused(rate: Any) -> None:
    step = compiled(lambda p: optim.SGD(p, 0.5))
    with pytest.raises(UsageError, match="finite number of at least 0"):
        step.learning_rate = rate
    assert step.learning_rate == 0.5


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown provider 'gpu': the installed ONNX Runtime"):
        compile_train_step(Dense(), ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.1), provider="gpu")


def test_an_optimizer_of_torch_is_refused() -> None:
    module = nn.Linear(1, 1)
    with pytest.raises(UsageError, match=r"a torch.optim.sgd.SGD: needed an optimizer of runtime.optim"):
        compiled(lambda p: torch.optim.SGD(module.parameters(), 0.1))
    with pytest.raises(UsageError, match=r"given a torch.optim.sgd.SGD"):
        compiled(torch.optim.SGD(module.parameters(), 0.1))


def test_what_is_not_trained_has_the_value_that_the_network_has() -> None:
    net = ms.nn.SequentialCell(ms.nn.Dense(3, 4), ms.nn.Tanh(), ms.nn.Dense(4, 2))
    x, y = np.ones((5, 3), np.float32), np.zeros((5, 2), np.float32)
    step = compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.0), frozen=["0.*"])
    first = step(x, y)
    assert step(x, y) == first
    net[0].weight.set_data(net[0].weight * 2)
    changed = step(x, y)
    assert changed != first
    np.testing.assert_allclose(changed, ms.nn.MSELoss()(net(ms.Tensor(x)), ms.Tensor(y)).asnumpy(), rtol=1e-5)


def test_a_program_that_was_captured_with_keywords_is_trained_by_position() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, *, given: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.linear(given["a"] + given["b"])

    a, b, target = torch.ones(4, 3), torch.zeros(4, 3), torch.zeros(4, 2)
    module = Sum()
    program = from_torch(module, (), {"given": {"a": a, "b": b}}, train=True)
    step = compile_train_step(program, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.1))
    expected = nn.functional.mse_loss(module(given={"a": a, "b": b}), target)
    np.testing.assert_allclose(step(a, b, target), expected.detach(), rtol=1e-5)


def test_adam_without_a_memory_of_gradients_is_torchs() -> None:
    module = Net().train()
    optimizer = torch.optim.Adam(module.parameters(), 1e-2, betas=(0.0, 0.9), eps=1e-6)
    step = compiled(lambda p: optim.Adam(p, 1e-2, betas=(0.0, 0.9), eps=1e-6))
    for x, y in batches(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(step(x, y), loss.detach(), rtol=1e-4)


def test_a_path_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="can't write"):
        compiled(lambda p: optim.SGD(p, 0.5)).save("")


def test_where_python_decides_on_a_size_each_size_is_compiled() -> None:
    class Net(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = ms.nn.Dense(3, 2)

        def construct(self, x: Any) -> Any:
            y = self.dense(x)
            return y * 2 if x.shape[0] > 4 else y

    net = Net()
    step = compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.0))
    for size in (3, 6, 3, 5):
        x, y = np.ones((size, 3), np.float32), np.zeros((size, 2), np.float32)
        expected = ms.nn.MSELoss()(net(ms.Tensor(x)), ms.Tensor(y)).asnumpy()
        np.testing.assert_allclose(step(x, y), expected, rtol=1e-5)


def test_a_batch_of_another_size_than_a_program_takes_is_told_by_its_size() -> None:
    step = compiled(lambda p: optim.SGD(p, 0.1))
    (x, y), *_ = batches(1)
    step(x, y)
    with pytest.raises(UsageError, match="needed size 5, given 3; `dynamic_shapes` leaves a size open"):
        step(x[:3], y[:3])


def test_a_batch_that_lacks_a_tensor_is_told_by_their_number() -> None:
    step = compiled(lambda p: optim.SGD(p, 0.1))
    (x, y), *_ = batches(1)
    for batch in ((x,), (x, y, y)):
        with pytest.raises(UsageError, match=f"needed 2; given {len(batch)} tensors, the last of which goes to the"):
            step(*batch)


def test_a_step_that_cannot_be_a_cuda_graph_runs_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [compiled(lambda p: optim.SGD(p, 0.1)) for _ in range(2)]
    first, second = batches(2)
    assert steps[0](*first) == steps[1](*first)
    assert steps[0]._compiled is not None
    resident = steps[0]._compiled.resident
    session = resident.executable.session
    session.cuda_graph = True  # as if it were on a GPU, where the next run is recorded
    resident._prepare()

    def refuse(binding: Any, options: Any = None) -> None:
        assert options.get_run_config_entry("gpu_graph_id") == "1"
        raise RuntimeError("CUDA failure 900: operation not permitted when stream is capturing")

    monkeypatch.setattr(session.ort, "run_with_iobinding", refuse)
    assert steps[0](*second) == steps[1](*second)
    assert not session.cuda_graph
    for name, array in steps[1].state().items():
        np.testing.assert_array_equal(steps[0].state()[name], array)
