"""One call of every layer and loss that `runtime.nn` exports: how it is made, its inputs, the shapes that come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cellbridge.runtime import nn, ops

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A layer, its inputs (structures of arrays), and the shapes of the tensors in its output, in order."""

    make: Callable[[], nn.Cell]
    inputs: tuple[Any, ...]
    shapes: tuple[Shape, ...]


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def even(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).uniform(0.1, 0.9, shape).astype(np.float32)


def classes(*shape: int, below: int = 3) -> Array:
    return np.random.default_rng(len(shape)).integers(0, below, shape)


def signs(*shape: int) -> Array:
    return np.where(normal(*shape) > 0, 1.0, -1.0).astype(np.float32)


class _OwnLoss(nn.LossBase):
    def construct(self, logits: Any, labels: Any) -> Any:
        return self.get_loss(ops.square(logits - labels))


def case(make: Callable[[], nn.Cell], *inputs: Any, gives: Any) -> Case:
    """`gives` is a shape, or a list of shapes."""
    return Case(make, inputs, tuple(gives) if isinstance(gives, list) else (gives,))


X, LINE, IMAGE, VOLUME = normal(3, 4), normal(2, 4, 8), normal(2, 4, 6, 6), normal(1, 4, 4, 4, 4)
STEPS, STATE, WORDS = normal(5, 2, 3), normal(2, 4), normal(5, 2, 4)
LOGITS, LABELS, ONE_HOT = normal(3, 4), classes(3, below=4), np.eye(4, dtype=np.float32)[[0, 2, 1]]


def _same(*names: str) -> dict[str, Case]:
    """Elementwise layers without arguments."""
    return {name: case(getattr(nn, name), X, gives=(3, 4)) for name in names}


def _for_axes(
    name: str, arguments: tuple[Any, ...], spatial: Callable[[int], int], channels: int = 4
) -> dict[str, Case]:
    """A layer for sequences, images and volumes; `spatial` gives the sizes behind it."""
    inputs = {1: LINE, 2: IMAGE, 3: VOLUME}
    return {
        name.format(axes): case(
            lambda axes=axes: getattr(nn, name.format(axes))(*arguments),
            x,
            gives=(len(x), channels, *map(spatial, x.shape[2:])),
        )
        for axes, x in inputs.items()
    }


ACTIVATIONS = {
    **_same(
        "CELU", "ELU", "GELU", "FastGelu", "HSigmoid", "HSwish", "HShrink", "Hardtanh", "LeakyReLU", "LogSigmoid",
        "LogSoftmax", "Mish", "RReLU", "ReLU", "ReLU6", "SeLU", "SiLU", "Sigmoid", "SoftShrink", "Softmax", "Softmin",
        "Softsign", "Tanh", "Tanhshrink", "Identity", "LGamma", "DiGamma",
    ),
    "Threshold": case(lambda: nn.Threshold(0.1, 2.0), X, gives=(3, 4)),
    "PReLU": case(lambda: nn.PReLU(4), IMAGE, gives=(2, 4, 6, 6)),
    "Softmax2d": case(nn.Softmax2d, IMAGE, gives=(2, 4, 6, 6)),
    "GLU": case(nn.GLU, X, gives=(3, 2)),
    "LRN": case(nn.LRN, IMAGE, gives=(2, 4, 6, 6)),
}  # fmt: skip

DENSE = {
    "Dense": case(lambda: nn.Dense(4, 5), X, gives=(3, 5)),
    "Linear": case(lambda: nn.Linear(4, 5), X, gives=(3, 5)),
    "BiDense": case(lambda: nn.BiDense(4, 3, 5), X, normal(3, 3), gives=(3, 5)),
    "DenseBnAct": case(lambda: nn.DenseBnAct(4, 5, has_bn=True, activation="relu"), X, gives=(3, 5)),
    "Conv2dBnAct": case(lambda: nn.Conv2dBnAct(4, 5, 3, has_bn=True, activation="relu"), IMAGE, gives=(2, 5, 6, 6)),
    "Embedding": case(lambda: nn.Embedding(9, 4), classes(2, 3), gives=(2, 3, 4)),
    "EmbeddingLookup": case(lambda: nn.EmbeddingLookup(9, 4), classes(2, 3), gives=(2, 3, 4)),
    "Dropout": case(lambda: nn.Dropout(p=0.5), X, gives=(3, 4)),
    "Dropout1d": case(nn.Dropout1d, LINE, gives=(2, 4, 8)),
    "Dropout2d": case(nn.Dropout2d, IMAGE, gives=(2, 4, 6, 6)),
    "Dropout3d": case(nn.Dropout3d, VOLUME, gives=(1, 4, 4, 4, 4)),
}

CONVOLUTIONS = {
    **_for_axes("Conv{}d", (4, 5, 3, 2), lambda n: n // 2, channels=5),
    **_for_axes("Conv{}dTranspose", (4, 5, 3, 2), lambda n: n * 2, channels=5),
}

NORMALIZATIONS = {
    **_for_axes("BatchNorm{}d", (4,), lambda n: n),
    **_for_axes("InstanceNorm{}d", (4,), lambda n: n),
    "SyncBatchNorm": case(lambda: nn.SyncBatchNorm(4), IMAGE, gives=(2, 4, 6, 6)),
    "GroupNorm": case(lambda: nn.GroupNorm(2, 4), IMAGE, gives=(2, 4, 6, 6)),
    "LayerNorm": case(lambda: nn.LayerNorm((4,)), X, gives=(3, 4)),
}

POOLS = {
    **_for_axes("MaxPool{}d", (2, 2), lambda n: n // 2),
    **_for_axes("AvgPool{}d", (2, 2), lambda n: n // 2),
    **_for_axes("AdaptiveAvgPool{}d", (2,), lambda n: 2),
    **_for_axes("AdaptiveMaxPool{}d", (2,), lambda n: 2),
    "LPPool1d": case(lambda: nn.LPPool1d(2, 2), LINE, gives=(2, 4, 4)),
    "LPPool2d": case(lambda: nn.LPPool2d(2, 2), IMAGE, gives=(2, 4, 3, 3)),
    "FractionalMaxPool2d": case(lambda: nn.FractionalMaxPool2d(2, 3), IMAGE, gives=(2, 4, 3, 3)),
    "FractionalMaxPool3d": case(lambda: nn.FractionalMaxPool3d(2, 2), VOLUME, gives=(1, 4, 2, 2, 2)),
    "MaxUnpool1d": case(lambda: nn.MaxUnpool1d(2), LINE, np.tile(np.arange(8) * 2, (2, 4, 1)), gives=(2, 4, 16)),
    "MaxUnpool2d": case(
        lambda: nn.MaxUnpool2d(2), IMAGE, np.tile(np.arange(36).reshape(6, 6), (2, 4, 1, 1)), gives=(2, 4, 12, 12)
    ),
    "MaxUnpool3d": case(
        lambda: nn.MaxUnpool3d(2), VOLUME, np.tile(np.arange(64).reshape(4, 4, 4), (1, 4, 1, 1, 1)),
        gives=(1, 4, 8, 8, 8),
    ),
}  # fmt: skip

PADDING = {
    **_for_axes("ConstantPad{}d", (1, 0.5), lambda n: n + 2),
    **_for_axes("ReflectionPad{}d", (1,), lambda n: n + 2),
    **_for_axes("ReplicationPad{}d", (1,), lambda n: n + 2),
    "ZeroPad2d": case(lambda: nn.ZeroPad2d(1), IMAGE, gives=(2, 4, 8, 8)),
    "Pad": case(lambda: nn.Pad(((1, 0), (0, 2))), X, gives=(4, 6)),
}

REARRANGING = {
    "Flatten": case(nn.Flatten, IMAGE, gives=(2, 144)),
    "Unflatten": case(lambda: nn.Unflatten(1, (2, 2)), X, gives=(3, 2, 2)),
    "OneHot": case(lambda: nn.OneHot(depth=3), classes(2, 4), gives=(2, 4, 3)),
    "Roll": case(lambda: nn.Roll(1, 0), X, gives=(3, 4)),
    "Tril": case(nn.Tril, X, gives=(3, 4)),
    "Triu": case(nn.Triu, X, gives=(3, 4)),
    "Upsample": case(lambda: nn.Upsample(scale_factor=2.0, recompute_scale_factor=True), LINE, gives=(2, 4, 16)),
    "ChannelShuffle": case(lambda: nn.ChannelShuffle(2), IMAGE, gives=(2, 4, 6, 6)),
    "PixelShuffle": case(lambda: nn.PixelShuffle(2), IMAGE, gives=(2, 1, 12, 12)),
    "PixelUnshuffle": case(lambda: nn.PixelUnshuffle(2), IMAGE, gives=(2, 16, 3, 3)),
    "CentralCrop": case(lambda: nn.CentralCrop(0.5), IMAGE, gives=(2, 4, 4, 4)),
    "ImageGradients": case(nn.ImageGradients, IMAGE, gives=[(2, 4, 6, 6)] * 2),
    "PSNR": case(nn.PSNR, even(2, 1, 4, 4), even(2, 1, 4, 4) * 0.5, gives=(2,)),
    "SSIM": case(lambda: nn.SSIM(filter_size=3), even(2, 3, 8, 8), even(2, 3, 8, 8) ** 2, gives=(2,)),
    "MSSSIM": case(
        lambda: nn.MSSSIM(power_factors=(0.5, 0.5), filter_size=3), even(2, 3, 8, 8), even(2, 3, 8, 8) ** 2, gives=(2,)
    ),
    "ClipByNorm": case(nn.ClipByNorm, X, np.float32(1.0), gives=(3, 4)),
    "CosineSimilarity": case(nn.CosineSimilarity, X, X[::-1].copy(), gives=(3,)),
    "L1Regularizer": case(lambda: nn.L1Regularizer(0.5), X, gives=()),
    "MatMul": case(nn.MatMul, X, normal(4, 2), gives=(3, 2)),
    "Moments": case(lambda: nn.Moments(0), X, gives=[(4,), (4,)]),
    "Norm": case(nn.Norm, X, gives=()),
    "ReduceLogSumExp": case(lambda: nn.ReduceLogSumExp(1), X, gives=(3,)),
    "Range": case(lambda: nn.Range(4), gives=(4,)),
}

SEQUENCES = {
    "LSTM": case(lambda: nn.LSTM(3, 4), STEPS, gives=[(5, 2, 4), (1, 2, 4), (1, 2, 4)]),
    "GRU": case(lambda: nn.GRU(3, 4, bidirectional=True), STEPS, gives=[(5, 2, 8), (2, 2, 4)]),
    "RNN": case(lambda: nn.RNN(3, 4, 2, batch_first=True), STEPS, gives=[(5, 2, 4), (2, 5, 4)]),
    "LSTMCell": case(lambda: nn.LSTMCell(3, 4), STEPS[0], (STATE, STATE), gives=[(2, 4), (2, 4)]),
    "GRUCell": case(lambda: nn.GRUCell(3, 4), STEPS[0], STATE, gives=(2, 4)),
    "RNNCell": case(lambda: nn.RNNCell(3, 4), STEPS[0], STATE, gives=(2, 4)),
    "MultiheadAttention": case(lambda: nn.MultiheadAttention(4, 2), WORDS, WORDS, WORDS, gives=[(5, 2, 4), (2, 5, 5)]),
    "TransformerEncoderLayer": case(lambda: nn.TransformerEncoderLayer(4, 2, 6), WORDS, gives=(5, 2, 4)),
    "TransformerDecoderLayer": case(lambda: nn.TransformerDecoderLayer(4, 2, 6), WORDS, WORDS, gives=(5, 2, 4)),
    "TransformerEncoder": case(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6), 2), WORDS, gives=(5, 2, 4)
    ),
    "TransformerDecoder": case(
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6), 2), WORDS, WORDS, gives=(5, 2, 4)
    ),
    "Transformer": case(lambda: nn.Transformer(4, 2, 1, 1, 6), WORDS, normal(3, 2, 4), gives=(3, 2, 4)),
    "TimeDistributed": case(lambda: nn.TimeDistributed(nn.Dense(3, 4), 1, 0), STEPS, gives=(5, 2, 4)),
    "SequentialCell": case(lambda: nn.SequentialCell(nn.Dense(4, 3), nn.ReLU()), X, gives=(3, 3)),
}

LOSSES = {
    **{
        name: case(getattr(nn, name), X, normal(3, 4)[::-1].copy(), gives=())
        for name in ("MSELoss", "RMSELoss", "L1Loss", "MAELoss", "HuberLoss")
    },
    "LossBase": case(_OwnLoss, X, X * 0.5, gives=()),
    "SmoothL1Loss": case(nn.SmoothL1Loss, X, X * 0.5, gives=(3, 4)),
    "BCELoss": case(nn.BCELoss, even(3, 4), even(3, 4), gives=()),
    "BCEWithLogitsLoss": case(nn.BCEWithLogitsLoss, X, even(3, 4), gives=()),
    "KLDivLoss": case(nn.KLDivLoss, X, even(3, 4), gives=()),
    "PoissonNLLLoss": case(nn.PoissonNLLLoss, X, even(3, 4), gives=()),
    "GaussianNLLLoss": case(nn.GaussianNLLLoss, X, X * 0.5, even(3, 4), gives=()),
    "CrossEntropyLoss": case(nn.CrossEntropyLoss, LOGITS, LABELS, gives=()),
    "NLLLoss": case(nn.NLLLoss, LOGITS, LABELS, gives=()),
    "SoftmaxCrossEntropyWithLogits": case(nn.SoftmaxCrossEntropyWithLogits, LOGITS, ONE_HOT, gives=(3,)),
    "CTCLoss": case(nn.CTCLoss, np.log(even(5, 2, 4)), classes(2, 2) + 1, np.array([5, 5]), np.array([2, 2]), gives=()),
    "FocalLoss": case(nn.FocalLoss, normal(2, 3, 4), classes(2, 1, 4), gives=()),
    "DiceLoss": case(nn.DiceLoss, even(3, 4), ONE_HOT, gives=()),
    "MultiClassDiceLoss": case(nn.MultiClassDiceLoss, even(3, 4), ONE_HOT, gives=()),
    "SoftMarginLoss": case(nn.SoftMarginLoss, X, signs(3, 4), gives=()),
    "HingeEmbeddingLoss": case(nn.HingeEmbeddingLoss, X, signs(3, 4), gives=()),
    "MarginRankingLoss": case(nn.MarginRankingLoss, X, X[::-1].copy(), signs(3, 4), gives=()),
    "CosineEmbeddingLoss": case(nn.CosineEmbeddingLoss, X, X[::-1].copy(), signs(3), gives=()),
    "TripletMarginLoss": case(nn.TripletMarginLoss, X, X[::-1].copy(), X * 0.5, gives=()),
    "TripletMarginWithDistanceLoss": case(nn.TripletMarginWithDistanceLoss, X, X[::-1].copy(), X * 0.5, gives=()),
    "MultiMarginLoss": case(nn.MultiMarginLoss, LOGITS, LABELS, gives=()),
    "MultilabelMarginLoss": case(nn.MultilabelMarginLoss, LOGITS, np.array([[0, 2, -1, 1]] * 3, np.int32), gives=()),
    "MultiLabelSoftMarginLoss": case(nn.MultiLabelSoftMarginLoss, LOGITS, ONE_HOT, gives=()),
}

CASES: dict[str, Case] = (
    ACTIVATIONS | DENSE | CONVOLUTIONS | NORMALIZATIONS | POOLS | PADDING | REARRANGING | SEQUENCES | LOSSES
)
