"""Every entry of the table about optimizers, on a wrong port and on a right one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from cellbridge.parity import explain_optimizer
from cellbridge.parity.causes.api_differences.entry import Difference, LayerPair
from cellbridge.parity.causes.api_differences.table import OPTIMIZER_TABLE
from cellbridge.runtime import Parameter, nn

LINEAR = torch.nn.Linear(2, 2)
ON_TORCH = list(LINEAR.parameters())
HERE = [Parameter([1.0, 2.0], name="dense.weight"), Parameter([1.0], name="dense.bias")]
WITH_NORM = [Parameter([1.0, 2.0], name="norm.gamma"), Parameter([1.0], name="norm.beta")]


def adam(**more: Any) -> torch.optim.Adam:
    return torch.optim.Adam(ON_TORCH, eps=1e-30, **more)


ADAM_EPS = (
    "Adam: eps=1e-30 (beside the uncorrected root: 3.16e-29 at step 1) in the candidate, eps=1e-30 (at "
    "every step) in the reference; "
    "write an eps far below the gradients on both sides: none is right at every step"
)
RMS_START = (
    "RMSProp: mean square=1 at first in the candidate, mean square=0 at first in the reference; "
    "write for p in optimizer.ms: p.set_data(ops.zeros_like(p))"
)
RMS_ROOT = (
    "RMSProp: epsilon=1e-10 (in the root: sqrt(v + epsilon)) in the candidate, eps=1e-8 (beside it: "
    "sqrt(v) + eps) in the reference; "
    "write epsilon=1e-16, the same where v is 0"
)
UNCORRECTED = (
    "AdamWeightDecay: bias correction=none (step 1 is 3.16 times as long) in the candidate, bias "
    "correction=by sqrt(1 - beta2**t) "
    "/ (1 - beta1**t) in the reference; write this factor into a LearningRateSchedule, and its inverse "
    "into weight_decay"
)

CASES: list[tuple[Any, Any, list[str]]] = [
    (
        torch.optim.SGD(ON_TORCH, 0.1),
        nn.Adam(HERE, 0.1),
        ["Adam: Adam in the candidate, SGD in the reference; write nn.SGD"],
    ),
    (
        torch.optim.AdamW(ON_TORCH),
        nn.Adam(HERE, weight_decay=0.01),
        ["Adam: Adam in the candidate, AdamW in the reference; write nn.AdamWeightDecay"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1),
        nn.SGD(HERE[:1], 0.1),
        [
            "SGD: parameters=1 in the candidate, parameters=2 (that are trained) in the reference; write "
            "net.trainable_params()"
        ],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.01, momentum=0.9),
        nn.Momentum(HERE, 0.1, 0.9),
        ["Momentum: learning_rate=0.1 in the candidate, lr=0.01 in the reference; write learning_rate=0.01"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9),
        nn.SGD(HERE, 0.1),
        ["SGD: momentum=0.0 in the candidate, momentum=0.9 in the reference; write momentum=0.9"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9, dampening=0.5),
        nn.SGD(HERE, 0.1, 0.9),
        ["SGD: dampening=0.0 in the candidate, dampening=0.5 in the reference; write dampening=0.5"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9, dampening=0.5),
        nn.Momentum(HERE, 0.1, 0.9),
        [
            "Momentum: dampening=0 (there is no other) in the candidate, dampening=0.5 in the reference; "
            "write nn.SGD(dampening=...)"
        ],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9, nesterov=True),
        nn.SGD(HERE, 0.1, 0.9),
        ["SGD: nesterov=False in the candidate, nesterov=True in the reference; write nesterov=True"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9, nesterov=True),
        nn.Momentum(HERE, 0.1, 0.9),
        ["Momentum: use_nesterov=False in the candidate, nesterov=True in the reference; write use_nesterov=True"],
    ),
    (
        adam(betas=(0.8, 0.99)),
        nn.Adam(HERE, eps=1e-30),
        [
            "Adam: beta1=0.9 in the candidate, betas[0]=0.8 in the reference; write beta1=0.8",
            "Adam: beta2=0.999 in the candidate, betas[1]=0.99 in the reference; write beta2=0.99",
            ADAM_EPS,
        ],
    ),
    (
        torch.optim.AdamW(ON_TORCH, weight_decay=0.0),
        nn.AdamWeightDecay(HERE),
        ["AdamWeightDecay: eps=1e-6 in the candidate, eps=1e-8 in the reference; write eps=1e-8", UNCORRECTED],
    ),
    (
        adam(),
        nn.Adam(HERE, eps=1e-8),
        [
            "Adam: eps=1e-8 in the candidate, eps=1e-30 in the reference; write eps=1e-30",
            ADAM_EPS.replace("eps=1e-30 (beside", "eps=1e-8 (beside").replace("3.16e-29", "3.16e-07"),
        ],
    ),
    (
        adam(amsgrad=True),
        nn.Adam(HERE, eps=1e-30),
        [ADAM_EPS, "Adam: use_amsgrad=False in the candidate, amsgrad=True in the reference; write use_amsgrad=True"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, weight_decay=0.01),
        nn.SGD(HERE, 0.1),
        ["SGD: weight_decay=0.0 in the candidate, weight_decay=0.01 in the reference; write weight_decay=0.01"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, weight_decay=0.01),
        nn.SGD(WITH_NORM, 0.1, weight_decay=0.01),
        [
            "SGD: weight_decay=0.01 (0 for norm.gamma, norm.beta) in the candidate, weight_decay=0.01 "
            "(for all) in the reference; "
            'write [{"params": net.trainable_params(), "weight_decay": 0.01}]'
        ],
    ),
    (
        torch.optim.RMSprop(ON_TORCH, 0.1, alpha=0.9),
        nn.RMSProp(HERE),
        [RMS_START, RMS_ROOT],
    ),
    (
        torch.optim.RMSprop(ON_TORCH, 0.1),
        nn.RMSProp(HERE),
        [RMS_START, "RMSProp: decay=0.9 in the candidate, alpha=0.99 in the reference; write decay=0.99", RMS_ROOT],
    ),
    (
        torch.optim.RMSprop(ON_TORCH, 0.1, alpha=0.9, eps=1e-5, momentum=0.5, centered=True),
        nn.RMSProp(HERE),
        [
            RMS_START,
            "RMSProp: momentum=0.0 in the candidate, momentum=0.5 in the reference; write momentum=0.5",
            "RMSProp: centered=False in the candidate, centered=True in the reference; write centered=True",
        ],
    ),
    (
        torch.optim.Adagrad(ON_TORCH, 0.001, eps=0),
        nn.Adagrad(HERE),
        ["Adagrad: accum=0.1 in the candidate, initial_accumulator_value=0 in the reference; write accum=0"],
    ),
    (
        torch.optim.Adagrad(ON_TORCH, 0.001, lr_decay=0.1, initial_accumulator_value=0.1),
        nn.Adagrad(HERE),
        [
            "Adagrad: eps=0 (there is no other) in the candidate, eps=1e-10 in the reference; write eps=0 "
            "in torch, and a start above 0",
            "Adagrad: lr_decay=0 (there is no other) in the candidate, lr_decay=0.1 in the reference; "
            "write nn.InverseDecayLR as learning_rate",
        ],
    ),
    (
        torch.optim.Adadelta(ON_TORCH, rho=0.8, eps=1e-5),
        nn.Adadelta(HERE),
        [
            "Adadelta: rho=0.9 in the candidate, rho=0.8 in the reference; write rho=0.8",
            "Adadelta: epsilon=1e-6 in the candidate, eps=1e-5 in the reference; write epsilon=1e-5",
        ],
    ),
    (
        torch.optim.Rprop(ON_TORCH, 0.1, etas=(0.5, 1.5), step_sizes=(1e-6, 10)),
        nn.Rprop(HERE),
        [
            "Rprop: etas=(0.5, 1.2) in the candidate, etas=(0.5, 1.5) in the reference; write etas=(0.5, 1.5)",
            "Rprop: step_sizes=(1e-6, 50.0) in the candidate, step_sizes=(1e-6, 10) in the reference; "
            "write step_sizes=(1e-6, 10)",
        ],
    ),
    (
        torch.optim.ASGD(ON_TORCH, 0.1, lambd=1e-3, alpha=0.5),
        nn.ASGD(HERE),
        [
            "ASGD: lambd=0.0001 in the candidate, lambd=0.001 in the reference; write lambd=0.001",
            "ASGD: alpha=0.75 in the candidate, alpha=0.5 in the reference; write alpha=0.5",
        ],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, maximize=True),
        nn.SGD(HERE, 0.1),
        ["SGD: maximize=False (there is no other) in the candidate, maximize=True in the reference; write -loss"],
    ),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9),
        nn.Momentum(HERE, 0.1, 0.9, loss_scale=1024.0),
        [
            "Momentum: loss_scale=1024.0 (gradients are divided by it) in the candidate, loss_scale=1 in "
            "the reference; "
            "write sens=1024.0 for TrainOneStepCell, or loss_scale=1.0"
        ],
    ),
]

RIGHT: list[tuple[Any, Any]] = [
    (torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9, weight_decay=0.01), nn.Momentum(HERE, 0.1, 0.9, weight_decay=0.01)),
    (
        torch.optim.SGD(ON_TORCH, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        nn.SGD([{"params": WITH_NORM, "weight_decay": 0.01}], 0.1, 0.9, nesterov=True),
    ),
    (
        torch.optim.SGD([{"params": ON_TORCH[:1], "lr": 0.1}, {"params": ON_TORCH[1:], "lr": 0.2}], 0.1),
        nn.SGD([{"params": HERE[:1], "lr": 0.1}, {"params": HERE[1:], "lr": 0.2}], 0.1),
    ),
    (torch.optim.Adagrad(ON_TORCH, 0.001, initial_accumulator_value=0.1, eps=0), nn.Adagrad(HERE)),
    (torch.optim.Adadelta(ON_TORCH), nn.Adadelta(HERE)),
    (torch.optim.Adamax(ON_TORCH, 0.001), nn.AdaMax(HERE)),
    (torch.optim.Rprop(ON_TORCH, 0.1, etas=(0.5, 1.2)), nn.Rprop(HERE)),
    (torch.optim.ASGD(ON_TORCH, 0.1), nn.ASGD(HERE)),
]


def name(value: Any) -> str | None:
    return (
        re.sub(r"[^\w=. ]", "", value[0].partition(" in the candidate")[0])
        if isinstance(value, list)
        else type(value).__name__
    )


@pytest.mark.parametrize(("reference", "optimizer", "lines"), CASES, ids=name)
def test_a_wrong_optimizer_is_explained(reference: Any, optimizer: Any, lines: list[str]) -> None:
    assert explain_optimizer(reference, optimizer) == lines


@pytest.mark.parametrize(("reference", "optimizer"), RIGHT, ids=name)
def test_nothing_is_said_of_a_right_optimizer(reference: Any, optimizer: Any) -> None:
    assert explain_optimizer(reference, optimizer) == []


@pytest.mark.parametrize(
    "entry", OPTIMIZER_TABLE, ids=lambda entry: f"{entry.layers[0]}-{entry.cell_arguments}-{entry.module_arguments}"
)
def test_every_entry_about_optimizers_has_a_case(entry: Difference) -> None:
    pairs = [LayerPair(reference, optimizer) for reference, optimizer, _ in CASES]
    assert any(entry.concerns(pair) and entry.find(pair) is not None for pair in pairs)


def test_the_factor_of_the_first_step_without_bias_correction() -> None:
    """3.16, as the table says: measured."""
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    parameter = Parameter([0.0], name="weight")
    reference, optimizer = torch.optim.AdamW([weight], 0.1, eps=1e-12), nn.AdamWeightDecay([parameter], 0.1, eps=1e-12)
    weight.grad = torch.full((1,), 0.5, dtype=torch.float64)
    reference.step()
    optimizer((nn.Identity()(Parameter([0.5], name="g")),))
    assert float(parameter.asnumpy()[0]) / weight.item() == pytest.approx(3.162, rel=1e-3)
