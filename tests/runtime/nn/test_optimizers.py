"""The formulas of the optimizers, against torch's where they are the same; their state, dtypes and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn
from cellbridge.runtime.common import tape

STEPS = 6
SHAPES = {"fc.weight": (3, 2), "bn.gamma": (3,), "scalar": ()}

Array = np.ndarray[Any, Any]


def parameters(dtype: Any = np.float64) -> list[Parameter]:
    rng = np.random.default_rng(0)
    return [Parameter(np.asarray(rng.normal(size=shape), dtype), name=name) for name, shape in SHAPES.items()]


def gradients(step: int, dtype: Any = np.float64) -> tuple[Tensor, ...]:
    rng = np.random.default_rng(1 + step)
    return tuple(Tensor(np.asarray(rng.normal(size=shape), dtype)) for shape in SHAPES.values())


def assert_as_torch(
    make_optimizer: Callable[[list[Parameter]], nn.Optimizer],
    make_torch_optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
    before_step: Callable[[torch.optim.Optimizer, int], None] = lambda optimizer, step: None,
    rtol: float = 1e-12,
) -> None:
    """Both optimizers lead the same float64 Parameters the same way."""
    held = parameters()
    leaves = [torch.tensor(p.asnumpy(), requires_grad=True) for p in held]
    optimizer, reference = make_optimizer(held), make_torch_optimizer(leaves)
    for step in range(STEPS):
        slopes = gradients(step)
        for leaf, slope in zip(leaves, slopes, strict=True):
            leaf.grad = torch.tensor(slope.asnumpy())
        before_step(reference, step)
        reference.step()
        assert optimizer(slopes) == (True, True, True)
        for p, leaf in zip(held, leaves, strict=True):
            np.testing.assert_allclose(p.asnumpy(), leaf.detach().numpy(), rtol=rtol, err_msg=f"{p.name}, step {step}")


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_torch_s_sgd(nesterov: bool) -> None:
    assert_as_torch(
        lambda p: nn.Momentum(p, 0.1, 0.9, use_nesterov=nesterov),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=nesterov),
    )


@pytest.mark.parametrize(
    ("arguments", "torch_arguments"),
    [
        ({}, {}),
        ({"momentum": 0.9}, {"momentum": 0.9}),
        ({"momentum": 0.9, "dampening": 0.5}, {"momentum": 0.9, "dampening": 0.5}),
        ({"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "nesterov": True}),
    ],
)
def test_sgd_is_torch_s(arguments: Any, torch_arguments: Any) -> None:
    assert_as_torch(lambda p: nn.SGD(p, 0.1, **arguments), lambda p: torch.optim.SGD(p, 0.1, **torch_arguments))


def test_the_comparison_with_torch_notices_another_formula() -> None:
    with pytest.raises(AssertionError, match=r"fc\.weight, step 1"):
        assert_as_torch(
            lambda p: nn.SGD(p, 0.1, momentum=0.9, dampening=0.5), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)
        )


@settings(max_examples=25, deadline=None)
@given(
    lr=st.floats(0.001, 1.0),
    momentum=st.floats(0.01, 1.0),
    decay=st.floats(0.0, 0.5),
    scale=st.sampled_from([1.0, 3.0, 1024.0]),
)
def test_weight_decay_and_loss_scale_go_together(lr: float, momentum: float, decay: float, scale: float) -> None:
    """Gradients are unscaled first: the decay isn't scaled. In a group, decay spares nothing."""
    held = parameters()
    leaves = [torch.tensor(p.asnumpy(), requires_grad=True) for p in held]
    optimizer = nn.Momentum([{"params": held}], lr, momentum, weight_decay=decay, loss_scale=scale)
    torch_optimizer = torch.optim.SGD(leaves, lr, momentum=momentum, weight_decay=decay)
    for step in range(3):
        slopes = gradients(step)
        for leaf, slope in zip(leaves, slopes, strict=True):
            leaf.grad = torch.tensor(slope.asnumpy())
        torch_optimizer.step()
        optimizer(tuple(slope * scale for slope in slopes))
    for p, leaf in zip(held, leaves, strict=True):
        np.testing.assert_allclose(p.asnumpy(), leaf.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_is_torch_s_but_for_where_eps_counts(amsgrad: bool) -> None:
    def as_ours(optimizer: torch.optim.Optimizer, step: int) -> None:
        optimizer.param_groups[0]["eps"] = 0.1 / (1 - 0.99 ** (step + 1)) ** 0.5

    assert_as_torch(
        lambda p: nn.Adam(p, 0.1, beta2=0.99, eps=0.1, use_amsgrad=amsgrad),
        lambda p: torch.optim.Adam(p, 0.1, betas=(0.9, 0.99), amsgrad=amsgrad),
        as_ours,
    )


def test_adam_with_nesterov_looks_ahead() -> None:
    p = Parameter(np.array([1.0]), name="w")
    optimizer = nn.Adam([p], 0.1, beta1=0.5, beta2=0.75, eps=1.0, use_nesterov=True)
    optimizer((Tensor(np.array([2.0])),))
    # m = 1, v = 1; 0.5 * m + 0.5 * g = 1.5; the correction is sqrt(0.25) / 0.5 = 1
    np.testing.assert_allclose(p.asnumpy(), [1 - 0.1 * 1.5 / 2])


def test_adam_weight_decay_is_torch_s_adamw_without_correction() -> None:
    """torch corrects by powers that vanish after many steps."""
    held = parameters()
    leaves = [torch.tensor(p.asnumpy(), requires_grad=True) for p in held]
    optimizer = nn.AdamWeightDecay([{"params": held}], 0.1, beta1=0.8, beta2=0.9, eps=0.1, weight_decay=0.3)
    torch_optimizer = torch.optim.AdamW(leaves, 0.1, betas=(0.8, 0.9), eps=0.1, weight_decay=0.3)
    for leaf in leaves:
        zero = torch.zeros_like(leaf)
        torch_optimizer.state[leaf] = {
            "step": torch.tensor(10_000.0),
            "exp_avg": zero.clone(),
            "exp_avg_sq": zero.clone(),
        }
    for step in range(STEPS):
        slopes = gradients(step)
        for leaf, slope in zip(leaves, slopes, strict=True):
            leaf.grad = torch.tensor(slope.asnumpy())
        torch_optimizer.step()
        optimizer(slopes)
    for p, leaf in zip(held, leaves, strict=True):
        np.testing.assert_allclose(p.asnumpy(), leaf.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop_is_torch_s_but_for_eps_and_the_first_average(centered: bool) -> None:
    def begin_with_ones(optimizer: torch.optim.Optimizer, step: int) -> None:
        if step == 0:
            for leaf in optimizer.param_groups[0]["params"]:
                zero = torch.zeros_like(leaf)
                optimizer.state[leaf] = {"step": torch.tensor(0.0), "square_avg": torch.ones_like(leaf)}
                optimizer.state[leaf] |= {"momentum_buffer": zero.clone(), "grad_avg": zero.clone()}

    assert_as_torch(
        lambda p: nn.RMSProp(p, 0.1, decay=0.8, momentum=0.5, epsilon=1e-300, centered=centered),
        lambda p: torch.optim.RMSprop(p, 0.1, alpha=0.8, momentum=0.5, eps=0, centered=centered),
        begin_with_ones,
    )


def test_rmsprop_has_its_epsilon_under_the_root() -> None:
    p = Parameter(np.array([1.0]), name="w")
    nn.RMSProp([p], 0.1, decay=0.5, epsilon=3.0)((Tensor(np.array([1.0])),))
    np.testing.assert_allclose(p.asnumpy(), [1 - 0.1 / 2])  # sqrt(1 + 3)


def test_adagrad_is_torch_s_without_eps() -> None:
    assert_as_torch(
        lambda p: nn.Adagrad(p, accum=0.2, learning_rate=0.1),
        lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.2, eps=0),
    )


def test_adagrad_can_keep_its_sum() -> None:
    p = Parameter(np.array([1.0]), name="w")
    optimizer = nn.Adagrad([p], accum=4.0, learning_rate=0.1, update_slots=False)
    optimizer((Tensor(np.array([3.0])),))
    np.testing.assert_allclose(p.asnumpy(), [1 - 0.1 * 3 / 2])
    np.testing.assert_array_equal(optimizer.accum[0].asnumpy(), [4])


def test_adadelta_is_torch_s() -> None:
    assert_as_torch(
        lambda p: nn.Adadelta(p, 0.5, rho=0.8, epsilon=0.01),
        lambda p: torch.optim.Adadelta(p, 0.5, rho=0.8, eps=0.01),
    )


def test_adamax_is_torch_s_but_for_eps() -> None:
    assert_as_torch(lambda p: nn.AdaMax(p, 0.1, eps=1e-300), lambda p: torch.optim.Adamax(p, 0.1, eps=0))


@pytest.fixture
def _torch_in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_torch_in_float64")  # torch holds eta and mu in its default dtype
def test_asgd_is_torch_s() -> None:
    assert_as_torch(
        lambda p: nn.ASGD(p, 0.1, lambd=0.1, alpha=0.5, t0=2.0),
        lambda p: torch.optim.ASGD(p, 0.1, lambd=0.1, alpha=0.5, t0=2.0),
    )


def test_rprop_is_torch_s() -> None:
    assert_as_torch(
        lambda p: nn.Rprop(p, 0.05, etas=(0.3, 1.5), step_sizes=(0.04, 0.1)),
        lambda p: torch.optim.Rprop(p, 0.05, etas=(0.3, 1.5), step_sizes=(0.04, 0.1)),
    )


# ---- state ----

STATES = {
    "Momentum": ({"learning_rate": 0.1, "momentum": 0.9}, ["momentum", "moments.w"]),
    "SGD": ({}, ["momentum", "accum.w", "stat.w"]),
    "Adam": ({}, ["beta1_power", "beta2_power", "moment1.w", "moment2.w"]),
    "AdamWeightDecay": ({}, ["adam_m.w", "adam_v.w"]),
    "RMSProp": ({"centered": True}, ["mean_grad.w", "mean_square.w", "moment.w"]),
    "Adagrad": ({}, ["accum.w"]),
    "Adadelta": ({}, ["accum.w", "accum_update.w"]),
    "AdaMax": ({}, ["beta1_power", "moment1.w", "moment2.w"]),
    "ASGD": ({}, ["mu_w", "eta_w", "ax_.w"]),
    "Rprop": ({}, ["prev.w", "step_size.w"]),
}


@pytest.mark.parametrize("name", STATES)
def test_state_is_held_in_parameters_so_that_training_can_go_on(name: str) -> None:
    arguments, state = STATES[name]

    def made() -> tuple[Parameter, nn.Optimizer]:
        p = Parameter(np.array([1.0, -2.0], np.float32), name="w")
        return p, getattr(nn, name)([p], **arguments)

    slopes = [Tensor(np.array([s, 1 - s], np.float32)) for s in (0.5, -1.0, 2.0, 0.25)]
    p, optimizer = made()
    assert [q.name for q in optimizer.get_parameters()] == ["global_step", "learning_rate", "w", *state]
    for slope in slopes[:2]:
        optimizer((slope,))
    resumed, resumed_optimizer = made()
    for to, origin in zip(resumed_optimizer.get_parameters(), optimizer.get_parameters(), strict=True):
        to.set_data(origin.value())
    for slope in slopes[2:]:
        optimizer((slope,))
        resumed_optimizer((slope,))
    np.testing.assert_array_equal(p.asnumpy(), resumed.asnumpy())
    assert optimizer.global_step.asnumpy().tolist() == [4]


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.float32, ms.float64])
def test_parameters_and_state_keep_their_dtype(name: str, dtype: Any) -> None:
    arguments, _ = STATES[name]
    p = Parameter(np.array([0.01, -2.0], dtype), name="w")
    optimizer = getattr(nn, name)([p], **arguments)
    before = {q.name: (q.dtype, q.shape) for q in optimizer.get_parameters()}
    for _ in range(2):
        optimizer((Tensor(np.array([0.5, 0.25], dtype)),))
    assert {q.name: (q.dtype, q.shape) for q in optimizer.get_parameters()} == before
    assert p.dtype == dtype
    assert optimizer.learning_rate.dtype == (ms.float64 if dtype == ms.float64 else ms.float32)
    assert float(p.asnumpy()[0]) != float(np.array(0.01, dtype))


def test_half_precision_is_rounded_once() -> None:
    p = Parameter(np.array([1.0], np.float16), name="w")
    optimizer = nn.Adam([p], 0.1)
    optimizer((Tensor(np.array([0.001], np.float16)),))  # its square, 1e-6, times 0.001 is 0 in float16
    np.testing.assert_allclose(p.asnumpy().astype(np.float64), [0.9], rtol=1e-3)


def test_a_gradient_of_another_dtype_is_taken_as_a_number() -> None:
    p = Parameter(np.array([1.0], np.float32), name="w")
    nn.SGD([p], 0.5)((Tensor(np.array([0.5], np.float16)),))
    np.testing.assert_array_equal(p.asnumpy(), np.array([0.75], np.float32))


def test_inf_and_nan_go_where_they_come_from_without_a_warning() -> None:
    p = Parameter(np.zeros(3, np.float32), name="w")
    with np.errstate(all="raise"):
        nn.Adam([p], 0.1)((Tensor(np.array([np.inf, np.nan, 1.0], np.float32)),))
    assert np.isfinite(p.asnumpy()).tolist() == [False, False, True]


def test_an_update_is_never_recorded() -> None:
    p = Parameter(np.array([2.0]), name="w")
    optimizer = nn.Momentum([p], 0.1, 0.9, weight_decay=0.1)
    recording = tape.Tape()

    def forward(x: Any) -> Any:
        before = len(recording.entries)
        optimizer((x,))
        assert len(recording.entries) == before
        return x * x

    with tape.record_on(recording):
        forward(Tensor(np.array([3.0])))
    assert ms.grad(forward)(Tensor(np.array([3.0]))).asnumpy().tolist() == [6.0]
    assert p.number_on(recording) is None


def test_frozen_parameters_are_updated_by_explicit_gradients() -> None:
    p = Parameter(np.array([1.0]), name="w", requires_grad=False)
    nn.SGD([p], 0.5)((Tensor(np.array([1.0])),))
    assert p.asnumpy().tolist() == [0.5]


# ---- errors ----


def parameter(name: str = "w") -> Parameter:
    return Parameter(np.array([1.0, 2.0], np.float32), name=name)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nn.Momentum([parameter()], 0.1, -0.9), ValueError, ["momentum", ">= 0", "-0.9"]),
        (lambda: nn.Momentum([parameter()], 0.1, "0.9"), TypeError, ["momentum", "str"]),
        (lambda: nn.Momentum([parameter()], 0.1, 0.9, use_nesterov=1), TypeError, ["use_nesterov", "bool"]),
        (lambda: nn.Momentum([parameter()], 0.1, 0.9, loss_scale=0.0), ValueError, ["loss_scale", "> 0"]),
        (lambda: nn.Momentum([parameter()], 0.1, 0.9, loss_scale="1"), TypeError, ["loss_scale", "str"]),
        (lambda: nn.Momentum([parameter()], 0.1, 0.9, weight_decay=-1.0), ValueError, ["weight_decay", ">= 0"]),
        (lambda: nn.Momentum([parameter()], 0.1, 0.9, weight_decay="a"), TypeError, ["weight_decay", "str"]),
        (lambda: nn.SGD([parameter()], dampening=-1.0), ValueError, ["dampening", ">= 0"]),
        (lambda: nn.SGD([parameter()], nesterov=True), ValueError, ["nesterov", "momentum"]),
        (
            lambda: nn.SGD([parameter()], momentum=0.9, dampening=0.1, nesterov=True),
            ValueError,
            ["nesterov", "dampening"],
        ),
        (lambda: nn.Adam([parameter()], beta1=1.0), ValueError, ["beta1", "(0, 1)"]),
        (lambda: nn.Adam([parameter()], beta2=0.0), ValueError, ["beta2", "(0, 1)"]),
        (lambda: nn.Adam([parameter()], eps=0.0), ValueError, ["eps", "> 0"]),
        (lambda: nn.AdamWeightDecay([parameter()], eps=-1.0), ValueError, ["eps", "> 0"]),
        (lambda: nn.RMSProp([parameter()], epsilon=0.0), ValueError, ["epsilon", "> 0"]),
        (lambda: nn.RMSProp([parameter()], decay=-0.1), ValueError, ["decay", ">= 0"]),
        (lambda: nn.Adagrad([parameter()], accum=-0.1), ValueError, ["accum", ">= 0"]),
        (lambda: nn.Adadelta([parameter()], rho=2.0), ValueError, ["rho", "[0, 1]"]),
        (lambda: nn.Rprop([parameter()], etas=(0.5,)), ValueError, ["etas", "2"]),
        (lambda: nn.Rprop([parameter()], etas=(0.5, 1.0)), ValueError, ["etas[1]", "> 1"]),
        (lambda: nn.Rprop([parameter()], step_sizes=(2.0, 1.0)), ValueError, ["step_sizes[1]", ">= 2"]),
        (lambda: nn.ASGD([parameter()], lambd="a"), TypeError, ["lambd", "str"]),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make()
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize(
    ("given_gradients", "error", "words"),
    [
        ((Tensor([1.0, 1.0]),), RuntimeError, ["2 parameters", "got 1"]),
        (Tensor([1.0, 1.0]), TypeError, ["tuple", "Tensor"]),
        ((Tensor([1.0, 1.0]), None), TypeError, ["'b'", "NoneType"]),
        ((Tensor([1.0, 1.0]), Tensor([1.0])), ValueError, ["'b'", "(2,)", "(1,)"]),
    ],
)
def test_gradients_are_checked_before_anything_changes(
    given_gradients: Any, error: type[Exception], words: list[str]
) -> None:
    held = [parameter("a"), parameter("b")]
    optimizer = nn.Momentum(held, 0.1, 0.9)
    with pytest.raises(error) as raised:
        optimizer(given_gradients)
    assert all(word in str(raised.value) for word in words), str(raised.value)
    assert [p.asnumpy().tolist() for p in held] == [[1.0, 2.0]] * 2
    assert int(optimizer.global_step) == 0
