"""`Optimizer`: what all optimizers share; each of them adds its formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import float32, float64, int32
from ...common.nested import mapped
from ...common.parameter import Parameter, ParameterTuple
from ...common.tensor import Tensor, wrapped
from ...eager import tape
from ...ir.types import is_half
from ...ops import elementwise, reduction, shaping
from ...precision import computing_in
from ...tracing import SymbolicTensor
from ..cell import Cell
from ..layer.container import CellList
from .groups import Member, members
from .rates import FixedRate, ListedRates, as_rate

Rule = Callable[..., tuple[Any, ...]]


class Optimizer(Cell):
    """The base of the optimizers.

    At each call, the gradients are divided by `loss_scale`; then `weight_decay` times the Parameter is added; then,
    where asked for, they are centralized (arXiv:2004.01461: less their mean over all axes but the first); then comes
    the formula of the optimizer. Its state is held in Parameters, so that checkpoints hold it. Nothing is recorded for
    differentiation.

    A subclass keeps its state as Parameters and computes in `construct(gradients)`, with `update`; or by itself, with
    `decay_weight`, `gradients_centralization`, `scale_grad` (in this order) and `get_lr`.

    Args:
        learning_rate: a number >= 0; a tensor or other iterable with one number per step, beyond which a step is an
            error; or a `LearningRateSchedule`.
        parameters: Parameters, or groups of them: dicts with Parameters under `params` and, optionally, `lr`,
            `weight_decay` and `grad_centralization` (a bool) for them. A dict with `order_params` alone gives the order
            of all.
        weight_decay: a number >= 0, or a Cell that computes it from the step. It spares Parameters whose name contains
            "beta" or "gamma", unless they came in groups.
        loss_scale: a number > 0: the factor that the gradients carry.

    Inputs:
        gradients: a tuple of tensors, one for each of `parameters`.

    Outputs:
        A tuple of True, one for each Parameter.

    Attributes:
        parameters: the Parameters to update, in order.
        global_step: Parameter of shape (1,), int32: how many steps were made.
        learning_rate: Parameter or Cell from which `get_lr` reads the learning rate; one for each Parameter (a
            `ParameterTuple` or `CellList`) if a group gives its own.
        number_dtype: dtype of the learning rate and of other numbers that are held in Parameters: float32, or float64
            if a Parameter to update is float64.

    Raises:
        TypeError: an argument, an element of `parameters` or a gradient is of another type.
        ValueError: a number is out of range; there are no Parameters, two have one name, or `order_params` aren't those
            of the groups; a gradient doesn't have the shape of its Parameter.
        KeyError: a group has an unknown key, or no `params`.
        RuntimeError: a Parameter is in two groups; there isn't one gradient per Parameter; a list of learning rates was
            used up.
    """

    _holds_others = True

    def __init__(self, learning_rate: Any, parameters: Any, weight_decay: Any = 0.0, loss_scale: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        of = self.cls_name
        found, self.is_group = members(parameters, of=of)
        self.loss_scale = float(checks.in_range(loss_scale, "loss_scale", "(0, inf)", of=of))
        self.global_step = Parameter(np.zeros(1, int32), name="global_step")
        self.number_dtype = float64 if any(member.parameter.dtype == float64 for member in found) else float32
        self.learning_rate: Any = self._rates(learning_rate, found)
        self.is_group_lr = isinstance(self.learning_rate, (ParameterTuple, CellList))
        self.dynamic_lr = isinstance(self.learning_rate, Cell)
        self.parameters = ParameterTuple(member.parameter for member in found)
        decays = [_as_decay(member.own.get("weight_decay", weight_decay), of) for member in found]
        self.weight_decay: Any = tuple(decays) if self.is_group else decays[0]
        self.decay_flags = tuple(
            (isinstance(decay, Cell) or decay > 0) and (self.is_group or not _is_spared(parameter))
            for decay, parameter in zip(decays, self.parameters, strict=True)
        )
        self._centralized = tuple(member.own.get("grad_centralization", False) for member in found)

    def _rates(self, learning_rate: Any, found: list[Member]) -> Any:
        of, dtype = self.cls_name, self.number_dtype
        default = as_rate(learning_rate, "learning_rate", dtype, of=of)
        if not any("lr" in member.own for member in found):
            return default
        own: dict[int, Any] = {
            member.group: as_rate(member.own["lr"], f"learning_rate_group_{member.group}", dtype, of=of)
            for member in found
            if "lr" in member.own
        }
        rates: list[Any] = [own.get(member.group, default) for member in found]
        if not any(isinstance(rate, Cell) for rate in rates):
            return ParameterTuple(rates)
        fixed = {id(rate): FixedRate(rate) for rate in rates if isinstance(rate, Parameter)}
        return CellList([fixed.get(id(rate), rate) for rate in rates], auto_prefix=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Update the Parameters; see the class."""
        with tape.recording(None), computing_in(None):
            return super().__call__(*args, **kwargs)

    # ---- what holds at this step ----

    def get_lr(self) -> Any:
        """The learning rate of this step, a 0-d tensor; one for each Parameter, a tuple, if a group gives its own."""
        if self.is_group_lr:
            return tuple(self._at_this_step(rate) for rate in self.learning_rate)
        return self._at_this_step(self.learning_rate)

    def get_lr_parameter(self, param: Any) -> Any:
        """Where the learning rate of a Parameter, or of each in a list, is read from: a Parameter or a schedule.

        Raises:
            TypeError: `param` is neither a Parameter nor a list of them.
            ValueError: the optimizer doesn't update it.
        """
        if isinstance(param, list):
            return [self.get_lr_parameter(item) for item in param]
        checks.of_type(param, "param", Parameter, of="get_lr_parameter")
        for i, parameter in enumerate(self.parameters):
            if parameter is param:
                rate = self.learning_rate[i] if self.is_group_lr else self.learning_rate
                return rate.learning_rate if isinstance(rate, (FixedRate, ListedRates)) else rate
        raise ValueError(f"For 'get_lr_parameter', 'param' must be one that is updated, but got '{param.name}'")

    def get_weight_decay(self) -> Any:
        """The weight decay of this step; a tuple with one for each Parameter if they came in groups."""
        if self.is_group:
            return tuple(self._at_this_step(decay) for decay in self.weight_decay)
        return self._at_this_step(self.weight_decay)

    def _at_this_step(self, value: Any) -> Any:
        return scalar(value(self.global_step.value())) if isinstance(value, Cell) else value

    def _each(self, values: Any) -> Sequence[Any]:
        """One value for each Parameter, of a value for all of them or a tuple."""
        return values if isinstance(values, tuple) else (values,) * len(self.parameters)

    # ---- gradients ----

    def decay_weight(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients, still scaled by `loss_scale`, with the weight decay added."""
        return tuple(
            gradient + in_dtype_of(gradient, decay * self.loss_scale) * parameter if flag else gradient
            for gradient, parameter, decay, flag in zip(
                gradients, self.parameters, self._each(self.get_weight_decay()), self.decay_flags, strict=True
            )
        )

    def gradients_centralization(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients, centralized where their group asks for it."""
        return tuple(_centralized(g) if flag else g for g, flag in zip(gradients, self._centralized, strict=True))

    def scale_grad(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients divided by `loss_scale`."""
        return tuple(gradients) if self.loss_scale == 1 else tuple(g / self.loss_scale for g in gradients)

    # ---- the update ----

    def update(
        self,
        rule: Rule,
        gradients: Any,
        *states: Sequence[Parameter],
        rate_factor: Any = None,
        decoupled_decay: bool = False,
    ) -> tuple[bool, ...]:
        """Make a step.

        Args:
            rule: the formula: from the data of a Parameter, its gradient, the learning rate (with `decoupled_decay`,
                and the weight decay, None where there is none) and its state to the new Parameter and state. All are
                arrays, or symbolic while Python is traced: written with ops and + - * / **, it serves both.
                Half-precision numbers arrive as float32, and the result is rounded once. The learning rate and the
                weight decay are 0-d, in the dtype of the Parameter's data, or Python numbers.
            gradients: what `construct` was given.
            states: one kind of state each: a Parameter for each of `parameters`.
            rate_factor: a 0-d float64 tensor that the learning rate is multiplied by, before it is rounded.
            decoupled_decay: whether the rule applies the weight decay itself; otherwise the gradient contains it.

        Returns:
            A tuple of True, one for each Parameter.
        """
        self._check(gradients)
        rates = self.get_lr()
        if rate_factor is not None:
            rates = mapped(rates, lambda rate: elementwise.cast(rate, dtype=float64) * rate_factor)
        rates, decays = self._each(rates), self._each(self.get_weight_decay())
        self.global_step.set_data(self.global_step + 1)
        with np.errstate(all="ignore"):
            for i, (parameter, gradient, *state) in enumerate(zip(self.parameters, gradients, *states, strict=True)):
                weight, slope, *held = (_widened(x) for x in (parameter, gradient, *state))
                if self.loss_scale != 1:
                    slope = slope / self.loss_scale
                decay = number_for(weight, decays[i]) if self.decay_flags[i] else None
                if decay is not None and not decoupled_decay:
                    slope = slope + decay * weight
                if self._centralized[i]:
                    slope = _centralized(slope)
                rate = number_for(weight, rates[i])
                numbers = (rate, decay) if decoupled_decay else (rate,)
                for target, value in zip((parameter, *state), rule(weight, slope, *numbers, *held), strict=True):
                    target.set_data(wrapped(value if isinstance(value, SymbolicTensor) else np.asarray(value)))
        return (True,) * len(self.parameters)

    def _check(self, gradients: Any) -> None:
        if not isinstance(gradients, (tuple, list)):
            raise TypeError(f"For '{self.cls_name}', the gradients must be a tuple, but got {type(gradients).__name__}")
        if len(gradients) != len(self.parameters):
            raise RuntimeError(
                f"For '{self.cls_name}', there must be one gradient for each of the {len(self.parameters)} parameters, "
                f"but got {len(gradients)}"
            )
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if not isinstance(gradient, Tensor):
                raise TypeError(
                    f"For '{self.cls_name}', the gradient of '{parameter.name}' must be a Tensor, but got "
                    f"{type(gradient).__name__}"
                )
            if gradient.shape != parameter.shape:
                raise ValueError(
                    f"For '{self.cls_name}', the gradient of '{parameter.name}' must have its shape, "
                    f"{parameter.shape}, but got {gradient.shape}"
                )


def scalar(number: Any) -> Any:
    """A tensor of one element as a 0-d one; a Python number as it is."""
    return shaping.reshape(number, shape=()) if isinstance(number, Tensor) and number.ndim else number


def in_dtype_of(x: Any, number: Any) -> Any:
    """A 0-d tensor in the dtype of `x`, to compute with it; a Python number, which takes that dtype, as it is."""
    return elementwise.cast(number, dtype=x.dtype) if isinstance(number, Tensor) else number


def number_for(data: Any, number: Any) -> Any:
    """The data of a 0-d tensor, in the dtype of `data`; a Python number as it is. For the formulas of `update`."""
    return number._data.astype(data.dtype, copy=False) if isinstance(number, Tensor) else number


def _centralized(gradient: Any) -> Any:
    if gradient.ndim < 2:
        return gradient
    return gradient - reduction.reduce_mean(gradient, axes=tuple(range(1, gradient.ndim)), keepdims=True)


def _widened(tensor: Tensor) -> Any:
    return tensor._data.astype(float32) if is_half(tensor.dtype) else tensor._data


def _as_decay(weight_decay: Any, of: str) -> Any:
    if isinstance(weight_decay, Cell):
        return weight_decay
    return float(checks.in_range(weight_decay, "weight_decay", "[0, inf)", of=of))


def _is_spared(parameter: Parameter) -> bool:
    return "beta" in parameter.name or "gamma" in parameter.name
