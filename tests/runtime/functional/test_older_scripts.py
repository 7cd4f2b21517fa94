"""A training step as scripts for MindSpore 1 wrote it: operator objects, HyperMap, GradOperation and the like."""

from __future__ import annotations

from typing import Any

import numpy as np

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, ParameterTuple, Tensor, context, nn
from cellbridge.runtime.common import dtype as mstype
from cellbridge.runtime.common.initializer import Normal, initializer
from cellbridge.runtime.ops import composite as C
from cellbridge.runtime.ops import functional as F
from cellbridge.runtime.ops import operations as P

clip_grad = C.MultitypeFuncGraph("clip_grad")
grad_scale = C.MultitypeFuncGraph("grad_scale")
reciprocal = P.Reciprocal()


@clip_grad.register("Number", "Number", "Tensor")
def _clip_grad(clip_type: int, clip_value: float, grad: Any) -> Any:
    if clip_type not in (0, 1):
        return grad
    dt = F.dtype(grad)
    if clip_type == 0:
        return C.clip_by_value(
            grad, F.cast(F.tuple_to_array((-clip_value,)), dt), F.cast(F.tuple_to_array((clip_value,)), dt)
        )
    return nn.ClipByNorm()(grad, F.cast(F.tuple_to_array((clip_value,)), dt))


@grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale: Any, grad: Any) -> Any:
    return grad * F.cast(reciprocal(scale), F.dtype(grad))


class Attention(nn.Cell):
    """Attention of one head over a sequence, by operator objects."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = Parameter(initializer(Normal(0.1), [5, width]), name="table")
        self.query, self.key = nn.Dense(width, width), nn.Dense(width, width)
        self.gather, self.softmax, self.reshape = P.Gather(), nn.Softmax(), P.Reshape()
        self.matmul_trans_b, self.matmul = P.BatchMatMul(transpose_b=True), P.BatchMatMul()
        self.scores_mul = 1.0 / np.sqrt(float(width))
        self.multiply, self.expand_dims, self.sub, self.add = P.Mul(), P.ExpandDims(), P.Sub(), P.Add()
        self.cast, self.get_dtype, self.shape = P.Cast(), P.DType(), P.Shape()
        self.reduce, self.squeeze = P.ReduceSum(keep_dims=False), P.Squeeze(1)

    def construct(self, ids: Any, mask: Any) -> Any:
        """(batch, steps) ids, and 1 where they count; (batch, width) out."""
        x = self.gather(self.table, ids, 0)
        batch, steps, width = self.shape(x)
        flat = self.reshape(x, (-1, width))
        q, k = (self.reshape(layer(flat), (batch, steps, width)) for layer in (self.query, self.key))
        scores = self.multiply(self.matmul_trans_b(q, k), self.scores_mul)
        away = self.sub(self.cast(F.tuple_to_array((1.0,)), self.get_dtype(scores)), self.cast(mask, mstype.float32))
        scores = self.add(scores, self.expand_dims(away, 1) * -10000.0)
        return self.squeeze(
            P.StridedSlice()(self.matmul(self.softmax(scores), x), (0, 0, 0), (batch, 1, width), (1, 1, 1))
        )


class WithLoss(nn.Cell):
    """The network and its loss."""

    def __init__(self, network: nn.Cell, classes: int) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.log_softmax, self.onehot = P.LogSoftmax(axis=-1), P.OneHot()
        self.on, self.off, self.classes = Tensor(1.0, mstype.float32), Tensor(0.0, mstype.float32), classes
        self.reduce_sum, self.reduce_mean, self.neg = P.ReduceSum(), P.ReduceMean(), P.Neg()

    def construct(self, ids: Any, mask: Any, labels: Any) -> Any:
        """Cross-entropy, mean."""
        one_hot = self.onehot(labels, self.classes, self.on, self.off)
        logarithms = self.log_softmax(self.network(ids, mask))
        return self.reduce_mean(self.neg(self.reduce_sum(logarithms * one_hot, (-1,))))


class TrainOneStepWithClipping(nn.Cell):
    """Loss scale, overflow check, clipping and update."""

    def __init__(self, network: nn.Cell, optimizer: Any, scale: float) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.optimizer = network, optimizer
        self.network.set_grad()
        self.weights = ParameterTuple(network.trainable_params())
        self.grad = C.GradOperation(get_by_list=True, sens_param=True)
        self.hyper_map, self.cast, self.less_equal = C.HyperMap(), P.Cast(), P.LessEqual()
        self.addn, self.float_status, self.base = P.AddN(), P.FloatStatus(), Tensor(1, mstype.float32)
        self.loss_scale = Parameter(Tensor(scale, dtype=mstype.float32), name="loss_scale")

    def construct(self, *inputs: Any) -> Any:
        """Loss and whether there was an overflow."""
        loss = self.network(*inputs)
        sens = P.Fill()(P.DType()(loss), P.Shape()(loss), 1.0) * self.loss_scale
        grads = self.grad(self.network, self.weights)(*inputs, self.cast(sens, mstype.float32))
        grads = self.hyper_map(F.partial(grad_scale, self.loss_scale), grads)
        grads = self.hyper_map(F.partial(clip_grad, 1, 1.0), grads)
        overflow = self.less_equal(self.base, self.addn(self.hyper_map(self.float_status, grads)))
        if not overflow:
            loss = F.depend(loss, self.optimizer(grads))
        return loss, overflow


def test_a_network_learns() -> None:
    context.set_context(mode=context.PYNATIVE_MODE)
    ms.set_seed(1)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 5, (16, 4)).astype(np.int32)
    batch = Tensor(ids), Tensor(np.ones((16, 4), np.int32)), Tensor(ids[:, 0] % 2, mstype.int32)
    network = WithLoss(Attention(8), 8)
    step = TrainOneStepWithClipping(network, nn.Adam(network.trainable_params(), learning_rate=0.05), 1024.0)
    step.set_train()
    losses = [float(step(*batch)[0].asnumpy()) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    before = network.network.table.asnumpy()
    step.loss_scale.set_data(Tensor(np.inf, mstype.float32))
    loss, overflow = step(*batch)
    assert bool(overflow)
    np.testing.assert_array_equal(network.network.table.asnumpy(), before)
    assert np.isfinite(loss.asnumpy())
