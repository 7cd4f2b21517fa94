"""Situations that must raise: each is a function under the name of its action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellbridge.runtime import (
    GRAPH_MODE,
    GradOperation,
    Parameter,
    ParameterTuple,
    Tensor,
    amp,
    context,
    float16,
    float32,
    grad,
    int32,
    load_checkpoint,
    load_param_into_net,
    nn,
    ops,
)
from cellbridge.runtime.common.initializer import initializer
from fixtures.recipes.positional_encoding import PositionalEncoding
from tests.runtime.golden.networks import Lambda

SITUATIONS: dict[str, Callable[[], Any]] = {}


def situation(function: Callable[[], Any]) -> Callable[[], Any]:
    """Declare a situation."""
    SITUATIONS[function.__name__] = function
    return function


def _tensor(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def _parameters(name: str = "weight") -> list[Parameter]:
    return [Parameter(_tensor(1, 2), name=name)]


# ---- gradients ----


@situation
def grad_none_none() -> Any:
    return grad(nn.Dense(2, 1), grad_position=None, weights=None)(_tensor(1, 2))


@situation
def grad_dup_position() -> Any:
    return grad(lambda x: x, grad_position=(0, 0))(_tensor(2))


@situation
def grad_negative_position() -> Any:
    return grad(lambda x: x, grad_position=-1)(_tensor(2))


@situation
def grad_list_position() -> Any:
    return grad(lambda x: x, grad_position=[0])(_tensor(2))


@situation
def grad_position_out_of_range() -> Any:
    return grad(lambda x, y: x * y, grad_position=2)(_tensor(2), _tensor(2))


@situation
def grad_has_aux_single_output() -> Any:
    return grad(lambda x: x * x, has_aux=True)(_tensor(2))


@situation
def gradop_flag_type() -> Any:
    return GradOperation(get_all=1)


@situation
def gradop_sens_shape() -> Any:
    return GradOperation(sens_param=True)(lambda x: x * x)(_tensor(2), _tensor(3))


# ---- containers, Cells and Parameters ----


@situation
def seqcell_tuple() -> Any:
    return nn.SequentialCell((nn.Dense(2, 2), nn.ReLU()))


@situation
def seqcell_primitive_in_list() -> Any:
    return nn.SequentialCell([nn.Dense(2, 2), ops.ReLU()])


@situation
def seqcell_function_star() -> Any:
    return nn.SequentialCell(nn.Dense(2, 2), lambda v: v)


@situation
def seqcell_append_noncell() -> Any:
    return nn.SequentialCell([nn.ReLU()]).append(3)


@situation
def seqcell_index() -> Any:
    return nn.SequentialCell([nn.ReLU(), nn.ReLU(), nn.ReLU()])[7]


@situation
def celllist_int() -> Any:
    return nn.CellList(5)


@situation
def celllist_call() -> Any:
    return nn.CellList([nn.Dense(2, 2)])(_tensor(1, 2))


@situation
def param_before_super_init() -> Any:
    class Early(nn.Cell):
        def __init__(self) -> None:
            self.w = Parameter(_tensor(2), name="w")
            super().__init__()

    return Early()


@situation
def no_construct() -> Any:
    class Empty(nn.Cell):
        pass

    return Empty()(_tensor(2))


@situation
def missing_attr() -> Any:
    return nn.Dense(2, 1).foo


@situation
def assign_nonparam_over_param() -> None:
    nn.Dense(2, 1).weight = 5


@situation
def assign_noncell_over_cell() -> None:
    setattr(nn.SequentialCell([nn.Dense(2, 1)]), "0", 5)


@situation
def parametertuple_dup_name() -> Any:
    return ParameterTuple([Parameter([1.0], name="a"), Parameter([2.0], name="a")])


@situation
def requires_grad_type() -> None:
    _parameters()[0].requires_grad = 3  # type: ignore[assignment]


@situation
def set_data_numpy() -> Any:
    return _parameters()[0].set_data(np.zeros((1, 2)))  # type: ignore[arg-type]


# ---- backward passes and hooks ----


class _OwnBackward(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        return x * y


def _own_backward(bprop: Callable[..., Any]) -> Any:
    cell = type("OwnBackward", (_OwnBackward,), {"bprop": bprop})()
    return grad(cell, (0, 1))(_tensor(2), _tensor(2))


@situation
def bprop_count() -> Any:
    return _own_backward(lambda self, x, y, out, dout: (dout,))


@situation
def bprop_shape() -> Any:
    return _own_backward(lambda self, x, y, out, dout: (_tensor(3), dout))


@situation
def bprop_missing_arg() -> Any:
    return _own_backward(lambda self, x, y, dout: (dout, dout))


@situation
def bprop_returns_none() -> Any:
    return _own_backward(lambda self, x, y, out, dout: None)


@situation
def bprop_debug_type() -> None:
    nn.Cell().bprop_debug = 3  # type: ignore[assignment]


@situation
def hook_not_callable() -> Any:
    return nn.Dense(2, 1).register_forward_hook(3)  # type: ignore[arg-type]


@situation
def backward_hook_size() -> Any:
    cell = Lambda(lambda x: x * x)
    cell.register_backward_hook(lambda cell, grad_input, grad_output: (grad_input[0], grad_input[0]))
    return grad(cell)(_tensor(2))


# ---- precision, loss scale, optimizers ----


@situation
def to_float_int() -> Any:
    return nn.Dense(2, 1).to_float(int32)


@situation
def static_scaler_le1() -> Any:
    return amp.StaticLossScaler(0.5)


@situation
def static_scaler_str() -> Any:
    return amp.StaticLossScaler("a")


@situation
def dynamic_scaler_factor_float() -> Any:
    return amp.DynamicLossScaler(4, 0.5, 1)


@situation
def clip_norm_negative() -> Any:
    return ops.clip_by_global_norm((_tensor(2),), -1.0)


@situation
def train_sens_zero() -> Any:
    net = nn.Dense(2, 1)
    update = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), update, sens=0)


@situation
def opt_loss_scale_zero() -> Any:
    return nn.Momentum(_parameters(), 0.1, 0.9, loss_scale=0.0)


@situation
def opt_empty() -> Any:
    return nn.Momentum([], 0.1, 0.9)


@situation
def opt_not_param() -> Any:
    return nn.Momentum([_tensor(2)], 0.1, 0.9)


@situation
def opt_same_name() -> Any:
    return nn.Momentum(_parameters() + _parameters(), 0.1, 0.9)


@situation
def opt_wd_negative() -> Any:
    return nn.Momentum(_parameters(), 0.1, 0.9, weight_decay=-1.0)


@situation
def amp_level() -> Any:
    return amp.auto_mixed_precision(nn.Dense(2, 1), "O9")


# ---- checkpoints ----


@situation
def load_shape() -> Any:
    return load_param_into_net(nn.Dense(3, 1), {"weight": Parameter(_tensor(1, 2), name="weight")})


@situation
def load_dtype_int() -> Any:
    return load_param_into_net(nn.Dense(2, 1), {"weight": Parameter(Tensor([[1, 2]], int32), name="weight")})


@situation
def load_plain_tensor() -> Any:
    return load_param_into_net(nn.Dense(2, 1), {"weight": _tensor(1, 2)})


@situation
def load_not_cell() -> Any:
    return load_param_into_net(_parameters(), {})  # type: ignore[arg-type]


@situation
def load_ckpt_missing() -> Any:
    return load_checkpoint("nope.ckpt")


@situation
def load_ckpt_bad_ext() -> Any:
    return load_checkpoint("nope.txt")


# ---- layers ----


@situation
def conv_padding_in_same() -> Any:
    return nn.Conv2d(2, 3, 3, padding=1)


@situation
def conv_pad_mode() -> Any:
    return nn.Conv2d(2, 3, 3, pad_mode="foo")


@situation
def conv_kernel_too_big() -> Any:
    return nn.Conv2d(1, 1, 7, pad_mode="valid")(_tensor(1, 1, 5, 5))


@situation
def dropout_p1() -> Any:
    return nn.Dropout(p=1.0)


@situation
def layernorm_int() -> Any:
    return nn.LayerNorm(4)


@situation
def bn_momentum() -> Any:
    return nn.BatchNorm2d(3, momentum=2.0)


@situation
def scewl_reduction() -> Any:
    return nn.SoftmaxCrossEntropyWithLogits(True, "avg")


@situation
def initializer_unknown() -> Any:
    return initializer("foo", [2], float32)


@situation
def positional_too_long() -> Any:
    return PositionalEncoding(4, max_len=2)(_tensor(1, 3, 4))


@situation
def dense_mixed_dtype() -> Any:
    return nn.Dense(2, 1)(Tensor([[1.0, 2.0]], float16))


@situation
def dense_used_as_function() -> Any:
    return nn.Dense(_tensor(1, 2))  # type: ignore[call-arg]


# ---- modes ----


def _in_graph_mode(cell: nn.Cell, x: Tensor) -> Any:
    before = context.get_context("mode")
    context.set_context(mode=GRAPH_MODE)
    try:
        return cell(x)
    finally:
        context.set_context(mode=before)


@situation
def graph_try() -> Any:
    class Tries(nn.Cell):
        def construct(self, x: Any) -> Any:
            try:
                return x * 2
            except ValueError:
                return x

    return _in_graph_mode(Tries(), _tensor(2))


@situation
def graph_yield() -> Any:
    class Yields(nn.Cell):
        def construct(self, x: Any) -> Any:
            yield x

    return _in_graph_mode(Yields(), _tensor(2))


class _Branches(nn.Cell):
    def construct(self, x: Any) -> Any:
        if x > 0:
            return x * 2
        return x


@situation
def graph_if_tensor() -> Any:
    return _in_graph_mode(_Branches(), _tensor(2))


@situation
def pynative_if_tensor() -> Any:
    return _Branches()(_tensor(2))
