"""A module's training in torch, in the interpreter and compiled: they agree, and every planted fault is reported."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

from cellbridge.parity import TrainingReport, assert_training_parity, check_training
from cellbridge.parity.cli import main
from cellbridge.parity.jobs.training import check as training_steps
from cellbridge.parity.jobs.training import program_steps
from cellbridge.parity.jobs.training.batches import example_batches
from cellbridge.parity.jobs.training.training_config import OPTIMIZERS
from cellbridge.runtime import optim
from cellbridge.runtime.amp import DynamicLossScaler, StaticLossScaler
from cellbridge.runtime.errors import ParityError, UsageError
from cellbridge.runtime.functional.clipping import clip_by_norm
from cellbridge.runtime.nn.wrap import training_step
from cellbridge.runtime.ops import elementwise


class Net(torch.nn.Module):
    """Dropout, statistics, an argument by keyword, an integer, and a parameter that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(5, 6)
        self.first = torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.3)
        self.last = torch.nn.Linear(8, 2)
        self.unused = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, *, kind: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x + self.embedding(kind))))
        return self.last(self.dropout(y))


ARGS = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
KIND = {"kind": torch.arange(7) % 5}


_captured: dict[Any, Any] = {}


@pytest.fixture(autouse=True)
def _captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network is captured for the first test that asks for it: that takes longer than to train it."""
    capture = training_steps.loss_program

    def once(module: Any, args: Any, kwargs: Any, **options: Any) -> Any:
        frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
        key = repr(module), tuple(frozen), tuple(kwargs), str(options)
        if key not in _captured or not isinstance(module, Net):
            _captured[key] = capture(module, args, kwargs, **options)
        return _captured[key]

    monkeypatch.setattr(training_steps, "loss_program", once)


def check(module: torch.nn.Module | None = None, **options: Any) -> TrainingReport:
    return check_training(module or Net(), (ARGS,), KIND, **{"steps": 2, "lr": 0.1, **options})


def kinds(report: TrainingReport, side: str = "compiled") -> set[str]:
    return {c.kind for c in report.comparisons if c.side == side}


# --- what is the same ------------------------------------------------------------------------------------------------

ALWAYS = {"loss", "gradient", "optimizer state", "parameter", "buffer"}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.every(3)
def test_every_optimizer_agrees(optimizer: str) -> None:
    report = check(optimizer=optimizer, steps=3, weight_decay=0.1)
    assert report.ok, str(report)
    assert {(c.side, c.check) for c in report.comparisons} == {
        ("interpreter", "meaning"),
        ("interpreter", "rounding"),
        ("compiled", "rounding"),
    }
    assert {c.call for c in report.comparisons} == {1, 2, 3}
    assert kinds(report) == ALWAYS
    states = {c.tensor for c in report.comparisons if c.kind == "optimizer state"}
    kept = {f"{name}.first.weight" for name in OPTIMIZERS[optimizer][2]}
    roots = {f"sqrt({name})" for name in kept if name.startswith("exp_avg_sq.")}  # see `optimizer_state`
    assert states >= {"step", *roots, *(name for name in kept if f"sqrt({name})" not in roots)}
    assert {c.tensor for c in report.comparisons if c.kind == "buffer"} == {
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    }
    assert "interpreter and compiled agree with torch after each of 3 steps" in str(report).replace("\n  ", " ")


def test_everything_at_once_agrees() -> None:
    report = check(loss_scale="dynamic", clip_norm=0.1, accumulate=2, frozen=["first.*", "last.bias"], seed=3)
    assert report.ok, str(report)
    assert kinds(report) == ALWAYS | {"overflow", "loss scale", "clipped gradient"}
    gradients = {c.tensor for c in report.comparisons if c.kind == "gradient"}
    assert gradients & {"first.weight", "first.bias", "last.bias"} == set()
    assert {c.tensor for c in report.comparisons if c.kind == "loss"} == {
        "the loss of batch 1",
        "the loss of batch 2",
    }


SCALE = 2.0**127


@pytest.mark.parametrize("scale", [SCALE, DynamicLossScaler(SCALE, 2, 2)], ids=["static", "dynamic"])
@pytest.mark.every(2)
def test_a_step_that_overflows_is_left_out_everywhere(scale: Any) -> None:
    def loss(outputs: torch.Tensor) -> torch.Tensor:
        return outputs.square().mean() * 8

    report = check(loss=loss, loss_scale=scale, steps=6)
    assert report.ok, str(report)
    assert "was skipped on every side" in str(report)
    of_side = [c for c in report.comparisons if (c.side, c.check) == ("compiled", "rounding")]
    left_out = {c.call for c in of_side} - {c.call for c in of_side if c.kind == "gradient"}
    assert left_out
    assert (left_out == {1, 2, 3, 4, 5, 6}) == isinstance(scale, float)
    # in float64 nothing overflows: there, every gradient is compared
    assert {c.call for c in report.comparisons if (c.check, c.kind) == ("meaning", "gradient")} == {1, 2, 3, 4, 5, 6}


def test_a_scale_that_is_no_power_of_two_agrees() -> None:
    assert check(loss_scale=1000.0).ok


def test_a_loss_scale_for_complex_parameters_is_refused() -> None:
    """torch's GradScaler has no kernel for them."""

    class Spectral(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1 + 2j, -0.5j]))
            self.bias = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight).abs() + self.bias

    inputs = (torch.tensor([[1.0, 2.0]]),)
    with pytest.raises(UsageError, match="no loss scale for complex parameters: weight\n"):
        check_training(Spectral(), inputs, loss_scale="dynamic", steps=2)
    assert check_training(Spectral(), inputs, loss_scale="dynamic", frozen=["weight"], steps=2).ok


def test_infinite_inputs_overflow_in_float64_too() -> None:
    report = check_training(Net(), (ARGS * torch.inf,), KIND, loss_scale=2.0, steps=2)
    assert report.ok, str(report)
    assert kinds(report) == ALWAYS - {"gradient"} | {"overflow", "loss scale"}


class Scattering(torch.nn.Module):
    """Adds what a layer gives to a tensor of its own, of which torch wants the same dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(2, 3).index_add(0, torch.tensor([0, 1, 1]), self.layer(x))


@pytest.mark.parametrize(
    ("module", "x"),
    [(Scattering(), torch.ones(3, 4)), (torch.nn.LSTM(3, 2), torch.ones(2, 1, 3))],
    ids=["captured", "run"],
)
@pytest.mark.every(2)
def test_what_torch_refuses_under_autocast_alone_is_told_so(module: torch.nn.Module, x: torch.Tensor) -> None:
    with pytest.raises(UsageError, match=r"^under torch's autocast in float16: the model doesn't run on its inputs"):
        check_training(module, (x,), dtype="float16")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.every(2)
def test_autocast_agrees(dtype: str) -> None:
    report = check(dtype=dtype, loss_scale=128.0)
    assert report.ok, str(report)
    assert {c.dtype for c in report.comparisons if (c.kind, c.check) == ("parameter", "rounding")} == {"float32"}
    most = max(c.reference_error for c in report.comparisons if (c.kind, c.check) == ("gradient", "rounding"))
    assert most > 1e-5  # torch did compute in half precision


def test_in_float64_the_compiled_step_is_compared_in_float32() -> None:
    report = check(dtype="float64", clip_norm=1.0)
    assert report.ok, str(report)
    assert "compiled was compared in float32" in str(report)


def test_labels_that_the_loss_draws_are_data() -> None:
    def loss(outputs: torch.Tensor) -> torch.Tensor:
        labels = torch.randint(2, (7,), generator=torch.Generator().manual_seed(0))
        return torch.nn.functional.cross_entropy(outputs, labels)

    assert check(loss=loss).ok


OPEN = {"x": {0: torch.export.Dim("n")}, "kind": {0: torch.export.Dim("n")}}


def test_where_sizes_are_open_a_step_more_is_made_at_others() -> None:
    report = check(dynamic_shapes=OPEN, accumulate=2)
    assert report.ok, str(report)
    assert {c.call for c in report.comparisons} == {1, 2, 3}
    assert report.notes == ["made at other sizes than those of the example inputs: step 3 at n=9"]


class Mean(torch.nn.Module):
    """Divides by how many rows there are, or by a number."""

    def __init__(self, count: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(6, 3)
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).sum(0) / (self.count or x.shape[0])


def test_a_size_that_was_frozen_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_training(Mean(), (ARGS,), dynamic_shapes=({0: torch.export.Dim("n")},), steps=1).ok
    capture = training_steps.loss_program
    monkeypatch.setattr(
        training_steps, "loss_program", lambda module, *given, **options: capture(Mean(7), *given, **options)
    )
    report = check_training(Mean(), (ARGS,), dynamic_shapes=({0: torch.export.Dim("n")},), steps=1)
    assert not report.ok
    assert report.differing == 2
    assert {c.kind for c in report.first} == {"loss"}
    assert "made at other sizes than those of the example inputs: step 2 at n=9" in report.notes


def test_sizes_that_torch_refuses_are_left_out_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run = training_steps.TorchSteps.run

    def refusing(self: Any, *given: Any, **options: Any) -> Any:
        if len(self.batches[-1][0][0]) == 9:
            raise UsageError("too long")
        return run(self, *given, **options)

    monkeypatch.setattr(training_steps.TorchSteps, "run", refusing)
    report = check(dynamic_shapes=OPEN)
    assert report.ok, str(report)
    assert report.notes == ["not compared at n=9: too long"]


@pytest.mark.slow
def test_attention_over_an_open_time_agrees() -> None:
    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.q, self.k, self.v = (torch.nn.Linear(6, 6) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=True)

    report = check_training(Attention(), (ARGS[None],), dynamic_shapes=({0: "batch", 1: "time"},), steps=1)
    assert report.ok, str(report)


@pytest.mark.slow
def test_where_the_loss_fixes_a_size_others_are_left_out_and_a_note_says_so() -> None:
    report = check(dynamic_shapes=OPEN, loss=lambda y: (y - torch.ones(7, 2)).square().sum())
    assert report.ok, str(report)
    assert {c.call for c in report.comparisons} == {1, 2}
    (note,) = report.notes
    assert note.startswith(
        "not compared at other sizes, for which the model with its loss can't be captured: torch.export"
    )
    assert "specialized it to be a constant (7)" in note


class Named(torch.nn.Module):
    """Its parameters are called as attributes of optimizers and training steps are."""

    NAMES = ("weight_decay", "loss_scale", "learning_rate", "global_step", "eps", "parameters_", "network", "loss")

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        for i, name in enumerate(self.NAMES):
            setattr(self, name, torch.nn.Parameter(torch.tensor(0.3 + i)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum((x.sin() * getattr(self, name) for name in self.NAMES), x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
@pytest.mark.every(2)
def test_parameters_may_have_any_name(optimizer: str) -> None:
    report = check_training(Named(), (ARGS,), steps=2, optimizer=optimizer, lr=0.1)
    assert report.ok, str(report)


def test_the_loss_is_shared_among_batches_before_it_is_scaled() -> None:
    linear = torch.nn.Linear(4, 2)
    report = check_training(
        linear, (torch.ones(4, 4),), loss=lambda y: y.float().mean() * 3.0, steps=1, optimizer="sgd", dtype="float16",
        loss_scale=65536.0, accumulate=2,
    )  # fmt: skip
    assert report.ok, str(report)


def test_what_a_module_computes_of_its_weights_and_keeps_is_copied() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh())
    prune.l1_unstructured(module[0], "weight", 0.5)
    module(ARGS)
    assert module[0].weight.grad_fn is not None
    report = check_training(module, (ARGS,), steps=2)
    assert report.ok, str(report)


def test_sparse_gradients_and_parameters_without_elements_agree() -> None:
    class Sparse(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table = torch.nn.Embedding(5, 3, sparse=True)
            self.empty = torch.nn.Parameter(torch.zeros(0, 3))

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.table(index), self.empty])

    report = check_training(Sparse(), (torch.tensor([1, 1, 4]),), steps=2, optimizer="sgd")
    assert report.ok, str(report)


def test_hooks_on_parameters_are_refused() -> None:
    linear = torch.nn.Linear(6, 2)
    linear.weight.register_hook(lambda g: g * 0.5)
    with pytest.raises(UsageError, match="parameter 'weight' has a hook"):
        check_training(linear, (ARGS,))


def test_a_loss_without_a_gradient_is_refused() -> None:
    with pytest.raises(UsageError, match="no tensor with a gradient"):
        check_training(torch.nn.Linear(6, 2), (ARGS,), loss=lambda y: y.argmax(-1).sum().float())


def test_a_number_that_is_assigned_agrees() -> None:
    class Assigns(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = torch.nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.linear(x).clone()
            h[:, 0] = 0.1
            return h

    report = check_training(Assigns(), (ARGS,), steps=1)
    assert report.ok, str(report)


def test_the_module_is_left_as_it_was() -> None:
    module = Net().eval()
    module.first.weight.requires_grad_(False)
    module.last.weight.grad = torch.ones(2, 8)
    before = copy.deepcopy(module.state_dict())
    report = check(module)
    assert report.ok
    assert not any(c.tensor == "first.weight" for c in report.comparisons if c.kind == "gradient")
    assert not module.training
    assert torch.equal(module.last.weight.grad, torch.ones(2, 8))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_batches_differ_and_keep_integers_zeros_and_signs() -> None:
    x = torch.tensor([0.0, -2.0, 4.0, -torch.inf])
    first, second, third = example_batches([((x, KIND["kind"]), {})], 3, seed=0)
    assert first[0][0] is x
    assert not torch.equal(second[0][0], third[0][0])
    for batch in (second, third):
        ratio = batch[0][0][1:3] / x[1:3]
        assert ((ratio >= 0.5) & (ratio < 1)).all()
        assert batch[0][0][0] == 0
        assert batch[0][0][3] == -torch.inf
        assert torch.equal(batch[0][1], KIND["kind"])


# --- planted faults --------------------------------------------------------------------------------------------------


class WrongMomentum(optim.SGD):
    """The moment is an average, as in Adam."""

    def construct(self, gradients: Any) -> Any:
        def rule(w: Any, g: Any, lr: Any, v: Any) -> tuple[Any, Any]:
            v = self.momentum * v + (1 - self.momentum) * g
            return w - lr * v, v

        return self.update(rule, gradients, self.moments)


class LateDecay(optim.SGD):
    """Weight decay is taken off the Parameter, after the step, instead of being part of the gradient."""

    def construct(self, gradients: Any) -> Any:
        def rule(w: Any, g: Any, lr: Any, decay: Any, v: Any) -> tuple[Any, Any]:
            v = self.momentum * v + g
            return (w - lr * v) * (1 - lr * decay), v

        return self.update(rule, gradients, self.moments, decoupled_decay=True)


class MisplacedEps(optim.Adam):
    """Eps stands beneath the root."""

    def construct(self, gradients: Any) -> Any:
        power1, power2 = self.beta1_power * self.beta1, self.beta2_power * self.beta2

        def rule(w: Any, g: Any, lr: Any, m: Any, v: Any) -> tuple[Any, ...]:
            m = self.beta1 * m + (1 - self.beta1) * g
            v = self.beta2 * v + (1 - self.beta2) * (g * g)
            first_correction, second_correction = (1 - power._data.astype(w.dtype) for power in (power1, power2))
            return w - lr * (m / first_correction) / elementwise.sqrt(v / second_correction + self.eps), m, v

        done = self.update(rule, gradients, self.moment1, self.moment2)
        self.beta1_power.set_data(power1)
        self.beta2_power.set_data(power2)
        return done


def clipped_one_by_one(gradients: Any, norm: float) -> Any:
    return tuple(clip_by_norm(gradient, norm) for gradient in gradients)


def updated_always(skip: Any, update: Any) -> None:
    update()


def assert_told(report: TrainingReport, kind: str, step: int, *names: str) -> None:
    """On both sides, the first differences have that kind and step, and these names are among them."""
    assert not report.ok
    for side in report.sides:
        first = report.first_of(side)
        assert {(c.kind, c.call) for c in first} == {(kind, step)}, str(report)
        assert {c.tensor for c in first} >= set(names)
    assert json.loads(json.dumps(report.to_dict()))["first_kind_that_differs"] == kind
    assert all(name in str(report) for name in names[:1])


@pytest.mark.parametrize(
    ("name", "optimizer", "planted", "step", "kind", "tensor"),
    [
        ("SGD", "momentum", WrongMomentum, 1, "optimizer state", "momentum_buffer.first.weight"),
        ("SGD", "momentum", LateDecay, 1, "optimizer state", "momentum_buffer.first.weight"),
        ("Adam", "adam", MisplacedEps, 1, "parameter", "first.weight"),
    ],
)
@pytest.mark.every(3)
def test_a_wrong_optimizer_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, optimizer: str, planted: Any, step: int, kind: str, tensor: str
) -> None:
    monkeypatch.setattr(optim, name, planted)
    assert_told(check(optimizer=optimizer, weight_decay=0.1), kind, step, tensor)


def test_a_forgotten_unscale_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticLossScaler, "unscale", lambda self, gradients: gradients)
    report = check(loss_scale=128.0)
    assert_told(report, "gradient", 1, "first.weight", "last.bias")
    assert "128 times that of torch" in str(report)


def test_clipping_each_tensor_by_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_step, "clip_by_norm", clipped_one_by_one)
    assert_told(check(clip_norm=0.05), "clipped gradient", 1, "first.weight", "last.bias")


def test_a_momentum_of_statistics_from_the_other_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = training_steps.loss_program

    def wrong(module: Any, *args: Any, **options: Any) -> Any:
        turned = copy.deepcopy(module)
        turned.norm.momentum = 0.9
        return right(turned, *args, **options)

    monkeypatch.setattr(training_steps, "loss_program", wrong)
    assert_told(check(), "buffer", 1, "norm.running_mean", "norm.running_var")


def test_a_frozen_parameter_that_moves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = training_steps.TrainingConfig.step_arguments
    monkeypatch.setattr(training_steps.TrainingConfig, "step_arguments", lambda self: {**right(self), "frozen": ()})
    report = check(frozen=["first.*"], optimizer="sgd")
    assert_told(report, "parameter", 1, "first.weight")
    assert "first.weight: trained in the candidate, frozen in the reference" in report.problems
    assert "gradient first.weight: only in the candidate" in report.problems


@pytest.mark.slow
def test_a_training_that_overflows_in_torch_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))

    def diverging() -> TrainingReport:
        return check_training(
            module, (ARGS,), loss=lambda y: (y.float() * 3e5).square().mean(), dtype="float16", steps=2, lr=1e-7
        )

    report = diverging()
    assert report.ok, str(report)
    assert any("torch's own training overflows in float16 from step 1 on" in note for note in report.notes)
    right = program_steps.CompiledSteps.state

    def wrong(self: Any) -> Any:
        return {name: np.full_like(x, 123) for name, x in right(self).items()}

    monkeypatch.setattr(program_steps.CompiledSteps, "state", wrong)
    assert "compiled" in {c.side for c in diverging().failures if c.call == 2}


class Tied(torch.nn.Module):
    """Blocks with dropout that run anew in the backward pass, and one weight that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(5, 6)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.4), torch.nn.Tanh()) for _ in range(2)
        )
        self.last = torch.nn.Linear(6, 5, bias=False)
        self.last.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embedding(x)
        for block in self.blocks:
            y = checkpoint(block, y, use_reentrant=False)
        return self.last(y)


def test_a_parameter_may_be_called_as_the_loss_scale_is() -> None:
    module = torch.nn.Linear(6, 2)
    module.register_parameter("loss_scale", torch.nn.Parameter(torch.ones(2)))
    report = check_training(module, (ARGS,), steps=2, loss_scale="dynamic")
    assert report.ok, str(report)


def test_what_torch_draws_again_in_the_backward_pass_is_the_same() -> None:
    report = check_training(Tied(), (KIND["kind"],), steps=2)
    assert report.ok, str(report)


def test_a_shared_parameter_is_frozen_by_any_of_its_names() -> None:
    report = check_training(Tied(), (KIND["kind"],), steps=1, frozen=["last.weight"])
    assert report.ok, str(report)
    gradients = {c.tensor for c in report.comparisons if c.kind == "gradient"}
    assert gradients == {"blocks.0.0.weight", "blocks.0.0.bias", "blocks.1.0.weight", "blocks.1.0.bias"}


def test_a_trained_parameter_that_is_frozen_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = training_steps.TrainingConfig.step_arguments
    monkeypatch.setattr(
        training_steps.TrainingConfig, "step_arguments", lambda self: {**right(self), "frozen": ["last.*"]}
    )
    report = check(optimizer="sgd")
    assert_told(report, "parameter", 1, "last.weight", "last.bias")
    assert "last.weight: frozen in the candidate, trained in the reference" in report.problems


def loss_that_overflows(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.square().mean() * 1e6


def test_an_overflow_that_is_not_seen_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_step, "all_finite", lambda gradients: program_steps.from_array(np.asarray(True)))
    report = check(loss=loss_that_overflows, loss_scale=SCALE)
    assert not report.ok
    assert {(c.kind, c.call) for c in report.first_of("compiled")} == {("overflow", 1)}, str(report)
    assert (
        "the overflow decision: the update was made in the candidate, and not in the reference" in report.explanations
    )


@pytest.mark.slow
def test_an_overflow_that_is_not_skipped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_step, "update_unless", updated_always)
    report = check(loss=loss_that_overflows, loss_scale=SCALE)
    assert not report.ok
    assert {(c.kind, c.call) for c in report.first_of("compiled")} == {("optimizer state", 1)}, str(report)
    assert "step" in {c.tensor for c in report.first_of("compiled")}


@pytest.mark.slow
def test_a_scale_that_does_not_fall_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DynamicLossScaler, "adjust", lambda self, finite: True)
    report = check(loss=loss_that_overflows, loss_scale=DynamicLossScaler(SCALE, 2, 2))
    assert {(c.kind, c.call, c.tensor) for c in report.first_of("compiled")} == {("loss scale", 1, "loss_scale")}


def test_a_fault_of_the_compiled_step_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = program_steps.draws_as_inputs

    def wrong(program: Any) -> Any:
        taken = right(program)
        return taken.replace(nodes=tuple(replace(n, op="tanh") if n.op == "relu" else n for n in taken.nodes))

    monkeypatch.setattr(program_steps, "draws_as_inputs", wrong)
    report = check()
    assert not report.first_of("interpreter")
    assert {(c.kind, c.call) for c in report.first_of("compiled")} == {("loss", 1)}, str(report)


def test_a_step_that_begins_anew_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = program_steps.InterpretedSteps.run

    def run(self: Any, batch: Any, draws: Any) -> Any:
        before = self._state
        computed = right(self, batch, draws)
        self._state = {**self._state, "last.weight": before["last.weight"]}
        return computed

    monkeypatch.setattr(program_steps.InterpretedSteps, "run", run)
    report = check()
    assert not report.first_of("compiled")
    assert {(c.kind, c.tensor) for c in report.first_of("interpreter")} == {("parameter", "last.weight")}
    assert "last.weight: not updated in the candidate" in " ".join(str(report).split())


# --- what is asked wrongly -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "rmsprop"}, "optimizer must be one of sgd, momentum"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"loss_scale": "static"}, "loss_scale must be a number, 'dynamic' or None"),
        ({"loss_scale": float("inf")}, "loss_scale must be a number from 1"),
        ({"clip_norm": float("nan")}, "clip_norm must be a number from 0"),
        ({"lr": float("nan")}, "lr must be a number from 0"),
        ({"weight_decay": 1e39}, "weight_decay must be a number from 0 to what float32 holds"),
        ({"frozen": "first.*"}, "write \\['first"),
        ({"frozen": ["nothing.*"]}, "matches no Parameter"),
        ({"frozen": ["*"]}, "nothing to train"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"loss": lambda outputs: outputs}, r"must return a scalar tensor; it returned float32\[7, 2\]"),
        ({"loss": lambda outputs: outputs.sum() * torch.inf}, "the loss of step 1 is -?(inf|nan) in torch"),
        ({"loss": lambda outputs: outputs.detach().sum()}, "no tensor with a gradient"),
    ],
)
def test_what_cannot_be_trained_is_refused(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(**options)


def test_draws_that_cannot_be_replayed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = training_steps.loss_program

    def without(module: Any, *args: Any, **options: Any) -> Any:
        plain = copy.deepcopy(module)
        plain.dropout = torch.nn.Identity()
        return right(plain, *args, **options)

    monkeypatch.setattr(training_steps, "loss_program", without)
    with pytest.raises(UsageError, match="torch draws random numbers 1 times in batch 1"):
        check()


# --- the assertion and the command -----------------------------------------------------------------------------------


def test_the_assertion_takes_a_module_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    net = torch.nn.Linear(6, 2)
    assert assert_training_parity(net, ARGS, optimizer="sgd", steps=1).ok
    monkeypatch.setattr(optim, "SGD", WrongMomentum)
    with pytest.raises(ParityError, match="first in the optimizer state"):
        assert_training_parity(net, {"input": ARGS}, optimizer="momentum", steps=1)


MODEL = """
import torch
def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
inputs = (torch.randn(6, 3),)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return str(path)


def parity(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["run", *arguments], catch_exceptions=False)


def test_the_command_trains(model: str, tmp_path: Path) -> None:
    as_json, as_junit = str(tmp_path / "report.json"), str(tmp_path / "report.xml")
    how = "--optimizer nesterov --lr 0.1 --weight-decay 0.01 --loss-scale 128 --clip-norm 1 --accumulate 2 --freeze 0.*"
    done = parity(model, "--train-steps", "2", *how.split(), "--json", as_json, "--junit", as_junit)
    assert done.exit_code == 0, done.output
    assert "✓ Training parity holds" in done.output
    assert "loss scale 128.0; gradients clipped to a norm of 1; 2 batches" in done.output.replace("\n    ", " ")
    written = json.loads(Path(as_json).read_text())
    assert written["ok"]
    assert written["sides"] == ["interpreter", "compiled"]
    assert written["first_kind_that_differs"] is None
    cases = {case.get("name") for case in ElementTree.parse(as_junit).iter("testcase")}
    assert {"loss[compiled]", "overflow decision[interpreter]", "optimizer state[compiled]"} <= cases


def test_the_command_tells_a_difference(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim, "SGD", WrongMomentum)
    as_junit = str(tmp_path / "report.xml")
    done = parity(model, "--train-steps", "1", "--optimizer", "momentum", "--junit", as_junit)
    assert done.exit_code == 1
    assert "✗ Training parity fails" in done.output
    text = done.output.replace("\n   ", "")
    assert "interpreter: from step 1 on, first in the optimizer state: momentum_buffer." in text
    failures = {
        case.get("name") for case in ElementTree.parse(as_junit).iter("testcase") if case.find("failure") is not None
    }
    assert "optimizer state[compiled]" in failures
    assert not failures & {"loss[compiled]", "gradients[compiled]"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimizer", "sgd", "--freeze", "x"], "--optimizer and --freeze need --train-steps N"),
        (["--train-steps", "1", "--train", "--only", "x"], "--train-steps can't be combined with --train and --only"),
        (["--train-steps", "1", "--freeze", "x"], "'x' matches no Parameter"),
        (["--train-steps", "1", "--loss-scale", "half"], "'half' is neither a number of at least 1 nor 'dynamic'"),
        (["--train-steps", "1", "--loss-scale", "0.5"], "'0.5' is neither a number of at least 1 nor 'dynamic'"),
    ],
)
def test_the_command_refuses(model: str, arguments: list[str], message: str) -> None:
    done = parity(model, *arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_the_command_trains_no_onnx_file() -> None:
    done = parity("net.onnx", "--train-steps", "1")
    assert done.exit_code == 2
    assert "--train-steps needs a model file" in done.output
