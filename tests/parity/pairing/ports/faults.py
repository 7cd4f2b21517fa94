"""Typical faults of ports, each planted in a right port.

A fault is a function that changes the Cell, the path of the module whose port is then wrong, and the mode that shows
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cellbridge.runtime import Parameter, Tensor, nn, ops


@dataclass(frozen=True)
class Fault:
    """Attributes: port: name in `PORTS`; change: plants the fault; at: paths of the wrong modules; train: the mode."""

    port: str
    change: Callable[[Any], Any]
    at: tuple[str, ...]
    train: bool = False


def put(path: str, value: Any) -> Callable[[Any], None]:
    """Puts another Cell, or another value of an attribute, at a path."""

    def change(cell: Any) -> None:
        *outer, name = path.split(".")
        for part in outer:
            cell = cell[int(part)] if part.isdigit() else getattr(cell, part)
        if name.isdigit():
            cell[int(name)] = value
        else:
            setattr(cell, name, value)

    return change


def constructing(construct: Callable[..., Any], path: str = "") -> Callable[[Any], None]:
    """Puts another `construct` in place of that of the Cell at `path`."""

    def change(cell: Any) -> None:
        inner = dict(cell.cells_and_names())[path]
        inner.construct = construct.__get__(inner)

    return change


# ---- arguments ----


def _conv(**options: Any) -> nn.Conv2d:
    return nn.Conv2d(*options.pop("sizes", (4, 6, 3)), **{"stride": 2, "pad_mode": "pad", "padding": 1} | options)


ARGUMENTS = {
    "eps of BatchNorm": Fault("residual", put("bn1", nn.BatchNorm2d(6, eps=1e-3)), ("bn1",)),
    "eps of LayerNorm left as it is": Fault("mixer", put("norm1", nn.LayerNorm([6])), ("norm1",)),
    "eps of GroupNorm": Fault("u-net", put("inner.1", nn.GroupNorm(2, 6, eps=1e-3)), ("inner.1",)),
    "groups of GroupNorm": Fault("u-net", put("inner.1", nn.GroupNorm(3, 6)), ("inner.1",)),
    "momentum from the other end": Fault(
        "inverted residual", put("norm", nn.BatchNorm2d(8, eps=1e-3, momentum=0.01)), ("norm",), train=True
    ),
    "use_batch_statistics off": Fault(
        "residual", put("bn2", nn.BatchNorm2d(6, use_batch_statistics=False)), ("bn2",), train=True
    ),
    "use_batch_statistics on": Fault("residual", put("bn2", nn.BatchNorm2d(6, use_batch_statistics=True)), ("bn2",)),
    "GELU approximated": Fault("convnext", put("act", nn.GELU()), ("act",)),
    "LeakyReLU's slope left as it is": Fault("u-net", put("inner.2", nn.LeakyReLU()), ("inner.2",)),
    "pad_mode left as it is": Fault("lenet", put("conv1", nn.Conv2d(1, 4, 5, has_bias=True)), ("features.0",)),
    "same for 1 before and behind": Fault("residual", put("conv1", nn.Conv2d(4, 6, 3, stride=2)), ("conv1",)),
    "dilation": Fault("conv1d", put("conv", nn.Conv1d(3, 4, 3, has_bias=True)), ("conv",)),
    "tanh for ReLU": Fault("lenet", put("relu", nn.Tanh()), ("features.1",)),
    "max for average": Fault("lenet", put("pool", nn.MaxPool2d(2, 2)), ("features.2",)),
    "stride of a pooling left as it is": Fault("lenet", put("max_pool", nn.MaxPool2d(2)), ("features.5",)),
    "align_corners": Fault(
        "u-net",
        put("smooth", nn.Upsample(size=(8, 8), mode="bilinear", align_corners=True)),
        ("smooth",),
    ),
    "nearest for bilinear": Fault("u-net", put("smooth", nn.Upsample(size=(8, 8), mode="nearest")), ("smooth",)),
    "keep_prob for p": Fault("encoder", put("attention.dropout", nn.Dropout(0.2)), ("attention.dropout",), train=True),
    "Dropout forgotten": Fault("lenet", put("dropout", nn.Identity()), ("classifier.3",), train=True),
    "axis of softmax": Fault("encoder", put("attention.softmax", nn.Softmax(axis=2)), ("attention",)),
    "scale of attention": Fault("encoder", put("attention.scale", 1 / np.sqrt(8)), ("attention",)),
    "scale of attention in one layer": Fault("decoder", put("layers.1.attention.scale", 0.25), ("layers.1.attention",)),
    "heads": Fault("encoder", put("attention.heads", 4), ("attention",)),
    "one direction": Fault("conv1d", put("gate", nn.Conv1d(3, 4, 1, has_bias=False)), ("gate",)),
    "bias forgotten": Fault("inverted residual", put("project", nn.Conv2d(8, 4, 1)), ("project",)),
    "bias too many": Fault("convnext", put("depthwise", nn.Conv2d(6, 6, 7, group=6)), ("dwconv",)),
    "activation too many": Fault("mixer", put("tokens.fc2", nn.Dense(8, 5, activation="relu")), ("tokens.2",)),
    "activation forgotten": Fault("mixer", put("tokens.gelu", nn.Identity()), ("tokens.1",)),
}


# ---- construct ----


def _without_shortcut(self: Any, x: Tensor) -> Tensor:
    return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))


def _shortcut_behind(self: Any, x: Tensor) -> Tensor:
    return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))) + self.downsample(x)


def _shortcut_cut(self: Any, x: Tensor) -> Tensor:
    y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
    return self.relu(y + ops.stop_gradient(self.downsample(x)))


def _without_norm(self: Any, x: Tensor) -> Tensor:
    return self.relu(self.conv2(self.relu(self.bn1(self.conv1(x)))) + self.downsample(x))


def _norms_exchanged(self: Any, x: Tensor) -> Tensor:
    y = self.bn1(self.conv2(self.relu(self.bn2(self.conv1(x)))))
    return self.relu(y + self.downsample(x))


def _sum_for_mean(self: Any, x: Tensor) -> Tensor:
    y = self.act(self.norm(self.depthwise(self.expand(x))))
    return x + self.project(y * ops.hardsigmoid(self.excite(ops.relu(self.squeeze(y.sum((2, 3), keepdims=True))))))


def _concatenated_otherwise(self: Any, x: Tensor) -> dict[str, Tensor]:
    inner = self.inner(self.down(x))
    logits = self.merge(ops.concat([self.up(inner), x, self.smooth(inner)], axis=1))
    return {"logits": logits, "features": inner}


def _norm_of_other_axes(self: Any, x: Tensor) -> Tensor:
    x = x + self.tokens(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
    return x + self.channels(self.norm1(x))


def _eps_outside(self: Any, x: Tensor) -> Tensor:
    return x / (ops.sqrt(ops.square(x).mean(-1, keep_dims=True)) + 1e-6) * self.gamma


def _mask_forgotten(self: Any, x: Tensor, mask: Tensor) -> Tensor:
    x = self.norm1(x + self.attention(x))
    return self.norm2(x + self.output(self.intermediate(x)))


def _not_cut(self: Any, x: Tensor) -> Any:
    y = self.backbone(x)
    y = self.layer(self.attention(y, y, y, need_weights=False)[0])
    return self.head(y), self.auxiliary(y)


def _cut_too_early(self: Any, x: Tensor) -> Any:
    y = self.backbone(x)
    y = ops.stop_gradient(self.layer(self.attention(y, y, y, need_weights=False)[0]))
    return self.head(y), self.auxiliary(y)


def _last_step_only(self: Any, ids: Tensor) -> Tensor:
    output, (hidden, _) = self.rnn(self.embedding(ids).swapaxes(0, 1))
    return self.classifier(output[-1]) + self.classifier(ops.concat([hidden[-2], hidden[-1]], -1))


def _time_not_first(self: Any, ids: Tensor) -> Tensor:
    output, (hidden, _) = self.rnn(self.embedding(ids))
    return self.classifier(output.mean(1)) + self.classifier(ops.concat([hidden[-2], hidden[-1]], -1))


def _one_step_less(self: Any, source: Tensor, first: Tensor, steps: int = 3) -> Any:
    encoded, hidden = self.encoder(source)
    state, y, ys = hidden[0], first, []
    for _ in range(steps - 1):
        state = self.cell(y, state)
        y = ops.tanh(self.out(state))
        ys.append(y)
    return {"written": ops.stack([*ys, y], 1), "state": (state, encoded)}


def _sum_for_mean_of_a_loss(self: Any, x: Tensor) -> Any:
    mean, logvar = ops.chunk(self.encoder(x), 2, axis=-1)
    z = mean + ops.standard_normal(mean.shape) * ops.exp(0.5 * logvar)
    return ops.sigmoid(self.decoder(z)), -0.5 * (1 + logvar - mean**2 - ops.exp(logvar)).sum()


def _variance_for_its_root(self: Any, x: Tensor) -> Any:
    mean, logvar = ops.chunk(self.encoder(x), 2, axis=-1)
    z = mean + ops.standard_normal(mean.shape) * ops.exp(logvar)
    return ops.sigmoid(self.decoder(z)), -0.5 * (1 + logvar - mean**2 - ops.exp(logvar)).mean()


CONSTRUCTS = {
    "residual forgotten": Fault("residual", constructing(_without_shortcut), ("",)),
    "activation before the sum": Fault("residual", constructing(_shortcut_behind), ("",)),
    "stop_gradient too many": Fault("residual", constructing(_shortcut_cut), ("",)),
    "layer not called": Fault("residual", constructing(_without_norm), ("",)),
    "layers exchanged": Fault("residual", constructing(_norms_exchanged), ("",)),
    "sum for mean": Fault("inverted residual", constructing(_sum_for_mean), ("",)),
    "order of a concatenation": Fault("u-net", constructing(_concatenated_otherwise), ("",)),
    "one norm in place of two": Fault("mixer", constructing(_norm_of_other_axes), ("",)),
    "eps outside of the root": Fault("decoder", constructing(_eps_outside, "layers.0.norm2"), ("layers.0.norm2",)),
    "mask forgotten": Fault("encoder", constructing(_mask_forgotten), ("",)),
    "stop_gradient forgotten": Fault("pretrained", constructing(_not_cut), ("",)),
    "stop_gradient too early": Fault("pretrained", constructing(_cut_too_early), ("",)),
    "last step in place of the mean": Fault("lstm", constructing(_last_step_only), ("",)),
    "time not first": Fault("lstm", constructing(_time_not_first), ("lstm",)),
    "loop too short": Fault("seq2seq", constructing(_one_step_less), ("",)),
    "reduction of a loss": Fault("vae", constructing(_sum_for_mean_of_a_loss), ("",)),
    "variance for its root": Fault("vae", constructing(_variance_for_its_root), ("",)),
}


# ---- parameters ----


def _unfreeze(cell: Any) -> None:
    for parameter in cell.backbone.get_parameters():
        parameter.requires_grad = True


def _freeze(cell: Any) -> None:
    cell.fc1.weight.requires_grad = False


def _one_parameter_more(cell: Any) -> None:
    cell.scale = Parameter(Tensor(np.ones(6, np.float32)), name="scale")


def _tie(cell: Any) -> None:
    cell.norm2.gamma = cell.norm1.gamma


PARAMETERS = {
    "frozen part is trained": Fault("pretrained", _unfreeze, ("backbone.0",)),
    "trained part is frozen": Fault("lenet", _freeze, ("classifier.1",)),
    "parameter too many": Fault("residual", _one_parameter_more, ("",)),
    "weights tied here only": Fault("mixer", _tie, ("norm1", "norm2")),
}


# ---- backward passes written by hand ----


class Gelu(nn.Cell):
    """GELU with a backward pass by hand; `slope` is what makes it wrong."""

    def __init__(self, slope: float = 1.0) -> None:
        super().__init__()
        self.slope = slope

    def construct(self, x: Tensor) -> Tensor:
        return ops.gelu(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        density = ops.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
        return (dout * (0.5 * (1 + ops.erf(x / np.sqrt(2))) + self.slope * x * density),)


BACKWARD = {
    "gradient only": Fault("convnext", put("act", Gelu(1.01)), ("act",)),
    "gradient only, of one in two": Fault("mixer", put("channels.gelu", Gelu(0.9)), ("channels.1",)),
}

FAULTS = ARGUMENTS | CONSTRUCTS | PARAMETERS | BACKWARD
