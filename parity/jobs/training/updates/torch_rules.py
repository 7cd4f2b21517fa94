"""The rules of torch's optimizers, read from their parameter groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .rules import ADADELTA, ADAGRAD, ADAM, ADAMAX, IN_MAXIMUM, NADAM, RADAM, RMSPROP, SGD, UNCORRECTED, Rule

FIELDS = {
    torch.optim.SGD: ("weight_decay", "momentum", "dampening", "nesterov", "maximize"),
    torch.optim.Adam: ("weight_decay", "eps", "amsgrad", "maximize"),
    torch.optim.AdamW: ("weight_decay", "eps", "amsgrad", "maximize"),
    torch.optim.Adagrad: ("weight_decay", "eps", "lr_decay", "maximize"),
    torch.optim.RMSprop: ("weight_decay", "eps", "momentum", "centered", "maximize"),
    torch.optim.Adamax: ("weight_decay", "eps", "maximize"),
    torch.optim.NAdam: ("weight_decay", "eps", "momentum_decay", "maximize"),
    torch.optim.RAdam: ("weight_decay", "eps", "maximize"),
    torch.optim.Adadelta: ("weight_decay", "eps", "maximize"),
}
"""The settings that have the same name in a `Rule`."""

KINDS = {
    torch.optim.SGD: SGD,
    torch.optim.Adam: ADAM,
    torch.optim.AdamW: ADAM,
    torch.optim.Adagrad: ADAGRAD,
    torch.optim.RMSprop: RMSPROP,
    torch.optim.Adamax: ADAMAX,
    torch.optim.NAdam: NADAM,
    torch.optim.RAdam: RADAM,
    torch.optim.Adadelta: ADADELTA,
}


PLACES = {torch.optim.Adamax: IN_MAXIMUM, torch.optim.RAdam: UNCORRECTED}
"""What eps is added to, where it isn't the corrected root."""


def rule_of(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> Rule | None:
    """Return the rule of a parameter group as it is now; None for an optimizer whose formula isn't known."""
    kind = type(optimizer)
    if kind not in KINDS:
        return None
    settings = {name: _plain(group[name]) for name in FIELDS[kind] if name in group}
    if "betas" in group:
        settings["beta1"], settings["beta2"] = map(_plain, group["betas"])
    for name in ("alpha", "rho"):
        if name in group:
            settings["beta2"] = _plain(group[name])
    if kind in PLACES:
        settings["eps_place"] = PLACES[kind]
    if "initial_accumulator_value" in group:
        settings["start"] = _plain(group["initial_accumulator_value"])
    settings["decoupled"] = kind is torch.optim.AdamW or bool(group.get("decoupled_weight_decay", False))
    return Rule(KINDS[kind], _plain(group["lr"]), **settings)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value
