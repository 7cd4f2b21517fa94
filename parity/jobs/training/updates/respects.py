"""The respects in which two optimizers may differ, one entry each: a setting, and the values to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from .rules import (
    ADADELTA,
    ADAGRAD,
    ADAM,
    ADAMAX,
    CORRECTED,
    FORMULAS,
    IN_MAXIMUM,
    IN_ROOT,
    NADAM,
    RADAM,
    RMSPROP,
    SGD,
    UNCORRECTED,
    Rule,
)

FREE = None
"""A value that is estimated."""

ADAPTIVE = tuple(kind for kind in FORMULAS if kind != SGD)
WITH_BETAS = (ADAM, ADAMAX, NADAM, RADAM)
PLACES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((ADAM, NADAM, RADAM), (CORRECTED, UNCORRECTED, IN_ROOT)),
    **dict.fromkeys((ADAGRAD, RMSPROP), (CORRECTED, IN_ROOT)),
    ADAMAX: (CORRECTED, IN_MAXIMUM),
}
"""What eps may be added to."""


@dataclass(frozen=True)
class Respect:
    """A respect in which two rules may differ.

    Attributes:
        field: the setting of a `Rule`; `lr` is multiplied, since it may vary from step to step.
        starts: from a rule, where the estimate of a number starts; empty if the respect doesn't concern the rule.
        values: from a rule, the values to try where there is nothing to estimate.
        low: the least number; below 0 where an estimate may pass through there.
        high: the number that it must stay below.
        more: other settings that change with it.
    """

    field: str
    starts: Callable[[Rule], Sequence[float]] = lambda rule: ()
    values: Callable[[Rule], Sequence[Any]] = lambda rule: ()
    low: float = 0.0
    high: float = float("inf")
    more: Callable[[Rule, Any], dict[str, Any]] = lambda rule, value: {}

    def change(self, rule: Rule, value: Any) -> Rule:
        """Return a rule that differs in this respect."""
        if self.field == "lr":
            return replace(rule, lr=rule.lr * value)
        return replace(rule, **{self.field: value}, **self.more(rule, value))


def _if(*kinds: str) -> Callable[..., Callable[[Rule], Sequence[Any]]]:
    """Values for rules of some kinds."""

    def of(*values: Any) -> Callable[[Rule], Sequence[Any]]:
        return lambda rule: values if rule.kind in kinds else ()

    return of


def _negated(field: str, *kinds: str) -> Respect:
    return Respect(field, values=lambda rule: (not getattr(rule, field),) if rule.kind in kinds else ())


def _other_place(rule: Rule) -> Sequence[str]:
    return [place for place in PLACES.get(rule.kind, ()) if place != rule.eps_place]


def _nesterov(rule: Rule, value: bool) -> dict[str, Any]:
    return {"dampening": 0.0} if value else {}


def _defaults(rule: Rule, kind: str) -> dict[str, Any]:
    """The settings of another kind of optimizer, which keeps what is common to all."""
    common = ("kind", "lr", "weight_decay", "maximize")
    defaults = {field.name: field.default for field in fields(Rule) if field.name not in common}
    return defaults | OTHER_DEFAULTS.get(kind, {})


OTHER_DEFAULTS: dict[str, dict[str, Any]] = {
    ADAGRAD: {"eps": 1e-10},
    RMSPROP: {"beta2": 0.99},
    ADAMAX: {"eps_place": IN_MAXIMUM},
    RADAM: {"eps_place": UNCORRECTED},
    ADADELTA: {"beta2": 0.9, "eps": 1e-6},
}

RESPECTS: tuple[Respect, ...] = (
    Respect("lr", starts=lambda rule: (1.0,)),
    Respect("weight_decay", starts=lambda rule: (rule.weight_decay or 1e-2,), low=-1.0),
    Respect("momentum", starts=_if(SGD, RMSPROP)(0.9, 0.5), high=1.0),
    Respect("momentum", values=lambda rule: (0.0,) if rule.momentum else (), more=lambda *_: {"nesterov": False}),
    Respect("dampening", starts=lambda rule: (0.1,) if rule.kind == SGD and rule.momentum else (), high=1.0 + 1e-9),
    Respect("nesterov", values=lambda rule: (not rule.nesterov,) if rule.momentum else (), more=_nesterov),
    Respect("beta1", starts=_if(*WITH_BETAS)(0.9, 0.5), high=1.0),
    Respect("beta2", starts=_if(*WITH_BETAS, RMSPROP, ADADELTA)(0.999, 0.99, 0.9), high=1.0),
    Respect("eps", starts=_if(*ADAPTIVE)(1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)),
    _negated("amsgrad", ADAM),
    _negated("decoupled", SGD, ADAM, NADAM, RADAM),
    _negated("bias_correction", ADAM),
    Respect("eps_place", values=_other_place),
    _negated("centered", RMSPROP),
    Respect("start", values=_if(ADAGRAD, RMSPROP)(0.0, 0.1, 1.0)),
    Respect("momentum_decay", starts=_if(NADAM)(4e-3)),
    Respect("lr_decay", starts=_if(ADAGRAD)(1e-2)),
    _negated("maximize", *FORMULAS),
    Respect("kind", values=lambda rule: [kind for kind in FORMULAS if kind != rule.kind], more=_defaults),
)  # fmt: skip
