"""`Optimizer`: the base class of all optimizers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import checks
from ...common import tape
from ...common.dtype import float32, float64, int32
from ...common.parameter import Parameter, ParameterTuple
from ...common.tensor import Tensor, from_array
from ...ir.types import is_half
from ...ops import elementwise, reduction, shaping
from ...precision import compute_in
from ...tracing import SymbolicTensor
from ...tree import map_leaves
from ..cell import Cell
from ..layer.container import CellList
from .groups import GroupMember, group_members
from .rates import FixedRate, ListedRates, as_rate

Rule = Callable[..., tuple[Any, ...]]


class _Observer(threading.local):
    function: Callable[[Optimizer, Sequence[Tensor]], None] | None = None


_observer = _Observer()


@contextlib.contextmanager
def observe_updates(observer: Callable[[Optimizer, Sequence[Tensor]], None]) -> Iterator[None]:
    """Within the context, call `observer(optimizer, gradients)` before each update that isn't merely traced."""
    before = _observer.function
    _observer.function = observer
    try:
        yield
    finally:
        _observer.function = before


class Optimizer(Cell):
    """The base class of optimizers.

    A call divides the gradients by `loss_scale`; adds `weight_decay` times the Parameter; centralizes them if their
    group asks for it (arXiv:2004.01461: subtracts their mean over all axes except the first); and applies the formula
    of the optimizer. The state consists of Parameters, so checkpoints include it. A call isn't differentiable.

    A subclass creates its state as Parameters and computes in `construct(gradients)`, either by `update`, or by
    `decay_weight`, `gradients_centralization`, `scale_grad` (in this order) and `get_lr`.

    Args:
        learning_rate: a number >= 0; a tensor or other iterable with one number per step (a step beyond the last raises
            an error); or a `LearningRateSchedule`.
        parameters: Parameters, or groups of them: dicts with Parameters under `params` and, optionally, `lr`,
            `weight_decay` and `grad_centralization` (a bool). A dict with only `order_params` sets the order of all.
        weight_decay: a number >= 0, or a Cell that computes it from the step. Parameters whose name contains "beta" or
            "gamma" are exempt, unless there are groups.
        loss_scale: a number > 0: the factor by which the loss was multiplied before the backward pass.

    Inputs:
        gradients: a tuple of tensors, one for each of `parameters`.

    Outputs:
        A tuple of True, one for each Parameter.

    Attributes:
        parameters: the Parameters to update, in order.
        global_step: Parameter of shape (1,), int32: the number of completed steps.
        learning_rate: the Parameter or Cell from which `get_lr` reads the learning rate; one for each Parameter (a
            `ParameterTuple` or `CellList`) if a group sets its own.
        number_dtype: the dtype of the learning rate and of other numbers in Parameters: float32, or float64 if a
            Parameter to update is float64.

    Raises:
        TypeError: an argument, an element of `parameters` or a gradient has a wrong type.
        ValueError: a number is out of range; there are no Parameters, two have the same name, or `order_params` differs
            from the Parameters of the groups; a gradient has another shape than its Parameter.
        KeyError: a group has an unknown key, or no `params`.
        RuntimeError: a Parameter is in two groups; there isn't one gradient per Parameter; a list of learning rates is
            exhausted.
    """

    _shares_parameters = True

    def __init__(self, learning_rate: Any, parameters: Any, weight_decay: Any = 0.0, loss_scale: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        of = self.cls_name
        members, self.is_group = group_members(parameters, of=of)
        self.loss_scale = float(checks.in_range(loss_scale, "loss_scale", "(0, inf)", of=of))
        self.global_step = Parameter(np.zeros(1, int32), name="global_step")
        self.number_dtype = float64 if any(member.parameter.dtype == float64 for member in members) else float32
        self.learning_rate: Any = self._create_rates(learning_rate, members)
        self.is_group_lr = isinstance(self.learning_rate, (ParameterTuple, CellList))
        self.dynamic_lr = isinstance(self.learning_rate, Cell)
        self.parameters = ParameterTuple(member.parameter for member in members)
        decays = [_as_decay(member.settings.get("weight_decay", weight_decay), of) for member in members]
        self.weight_decay: Any = tuple(decays) if self.is_group else decays[0]
        self.decay_flags = tuple(
            (isinstance(decay, Cell) or decay > 0) and (self.is_group or not _is_exempt(parameter))
            for decay, parameter in zip(decays, self.parameters, strict=True)
        )
        self._centralize_flags = tuple(member.settings.get("grad_centralization", False) for member in members)

    def _create_rates(self, learning_rate: Any, members: list[GroupMember]) -> Any:
        of, dtype = self.cls_name, self.number_dtype
        default = as_rate(learning_rate, "learning_rate", dtype, of=of)
        if not any("lr" in member.settings for member in members):
            return default
        group_rates: dict[int, Any] = {
            member.group: as_rate(member.settings["lr"], f"learning_rate_group_{member.group}", dtype, of=of)
            for member in members
            if "lr" in member.settings
        }
        rates: list[Any] = [group_rates.get(member.group, default) for member in members]
        if not any(isinstance(rate, Cell) for rate in rates):
            return ParameterTuple(rates)
        fixed_rates = {id(rate): FixedRate(rate) for rate in rates if isinstance(rate, Parameter)}
        return CellList([fixed_rates.get(id(rate), rate) for rate in rates], auto_prefix=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Update the Parameters; see the class."""
        gradients = args[0] if args and isinstance(args[0], (tuple, list)) else ()
        if _observer.function is not None and not any(isinstance(gradient, SymbolicTensor) for gradient in gradients):
            _observer.function(self, gradients)
        with tape.record_on(None), compute_in(None):
            return super().__call__(*args, **kwargs)

    # ---- values at the current step ----

    def get_lr(self) -> Any:
        """Return the learning rate of this step, a 0-d tensor; a tuple by Parameter if a group sets its own."""
        if self.is_group_lr:
            return tuple(self._at_current_step(rate) for rate in self.learning_rate)
        return self._at_current_step(self.learning_rate)

    def get_lr_parameter(self, param: Any) -> Any:
        """Return the Parameter or schedule that gives the learning rate of a Parameter; a list of them for a list.

        Raises:
            TypeError: `param` is neither a Parameter nor a list of them.
            ValueError: the optimizer doesn't update the Parameter.
        """
        if isinstance(param, list):
            return [self.get_lr_parameter(item) for item in param]
        checks.of_type(param, "param", Parameter, of="get_lr_parameter")
        for i, parameter in enumerate(self.parameters):
            if parameter is param:
                rate = self.learning_rate[i] if self.is_group_lr else self.learning_rate
                return rate.learning_rate if isinstance(rate, (FixedRate, ListedRates)) else rate
        raise ValueError(
            f"For 'get_lr_parameter', 'param' must be a Parameter that the optimizer updates, but got '{param.name}'"
        )

    def get_weight_decay(self) -> Any:
        """Return the weight decay of this step; a tuple by Parameter if there are groups."""
        if self.is_group:
            return tuple(self._at_current_step(decay) for decay in self.weight_decay)
        return self._at_current_step(self.weight_decay)

    def _at_current_step(self, value: Any) -> Any:
        return scalar(value(self.global_step.value())) if isinstance(value, Cell) else value

    def _per_parameter(self, values: Any) -> Sequence[Any]:
        """Return one value for each Parameter, from a single value or a tuple."""
        return values if isinstance(values, tuple) else (values,) * len(self.parameters)

    # ---- gradients ----

    def decay_weight(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Add the weight decay to gradients that are still scaled by `loss_scale`."""
        return tuple(
            gradient + in_dtype_of(gradient, decay * self.loss_scale) * parameter if flag else gradient
            for gradient, parameter, decay, flag in zip(
                gradients, self.parameters, self._per_parameter(self.get_weight_decay()), self.decay_flags, strict=True
            )
        )

    def gradients_centralization(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Centralize the gradients whose group asks for it."""
        return tuple(_centralize(g) if flag else g for g, flag in zip(gradients, self._centralize_flags, strict=True))

    def scale_grad(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Divide the gradients by `loss_scale`."""
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
        """Run a step.

        Args:
            rule: the formula: a function of the data of a Parameter, its gradient, the learning rate (with
                `decoupled_decay` also the weight decay, or None) and its state, which returns the new Parameter and
                state. All are arrays, or symbolic while Python is traced; a rule written with ops and + - * / ** works
                for both. Half-precision data are float32 here, and the result is rounded once. The learning rate and
                the weight decay are 0-d with the dtype of the Parameter's data, or Python numbers.
            gradients: the argument of `construct`.
            states: the state, one sequence for each kind, with a Parameter for each of `parameters`.
            rate_factor: a 0-d float64 tensor that multiplies the learning rate before it is rounded.
            decoupled_decay: whether the rule applies the weight decay itself; otherwise the gradient contains it.

        Returns:
            A tuple of True, one for each Parameter.
        """
        self._check(gradients)
        rates = self.get_lr()
        if rate_factor is not None:
            rates = map_leaves(lambda rate: elementwise.cast(rate, dtype=float64) * rate_factor, rates)
        rates, decays = self._per_parameter(rates), self._per_parameter(self.get_weight_decay())
        self.global_step.set_data(self.global_step + 1)
        with np.errstate(all="ignore"):
            for i, (parameter, gradient, *state) in enumerate(zip(self.parameters, gradients, *states, strict=True)):
                weight, g, *data = (_upcast(x) for x in (parameter, gradient, *state))
                if self.loss_scale != 1:
                    g = g / self.loss_scale
                decay = number_for(weight, decays[i]) if self.decay_flags[i] else None
                if decay is not None and not decoupled_decay:
                    g = g + decay * weight
                if self._centralize_flags[i]:
                    g = _centralize(g)
                rate = number_for(weight, rates[i])
                numbers = (rate, decay) if decoupled_decay else (rate,)
                for target, value in zip((parameter, *state), rule(weight, g, *numbers, *data), strict=True):
                    target.set_data(from_array(value if isinstance(value, SymbolicTensor) else np.asarray(value)))
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
    """Reshape a tensor of one element to a 0-d tensor; return a Python number unchanged."""
    return shaping.reshape(number, shape=()) if isinstance(number, Tensor) and number.ndim else number


def in_dtype_of(x: Any, number: Any) -> Any:
    """Cast a 0-d tensor to the dtype of `x`; return a Python number, which adapts to `x`, unchanged."""
    return elementwise.cast(number, dtype=x.dtype) if isinstance(number, Tensor) else number


def number_for(data: Any, number: Any) -> Any:
    """Return the data of a 0-d tensor in the dtype of `data`, or a Python number, for the formulas of `update`."""
    return number._data.astype(data.dtype, copy=False) if isinstance(number, Tensor) else number


def _centralize(gradient: Any) -> Any:
    if gradient.ndim < 2:
        return gradient
    return gradient - reduction.reduce_mean(gradient, axes=tuple(range(1, gradient.ndim)), keepdims=True)


def _upcast(tensor: Tensor) -> Any:
    return tensor._data.astype(float32) if is_half(tensor.dtype) else tensor._data


def _as_decay(weight_decay: Any, of: str) -> Any:
    if isinstance(weight_decay, Cell):
        return weight_decay
    return float(checks.in_range(weight_decay, "weight_decay", "[0, inf)", of=of))


def _is_exempt(parameter: Parameter) -> bool:
    return "beta" in parameter.name or "gamma" in parameter.name
