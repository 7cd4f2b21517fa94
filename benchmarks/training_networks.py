"""The networks whose training steps are measured, in torch and in MindSpore's Cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

NETWORKS = {
    "lenet": "LeNet-5, batch 32, 28x28, SGD with momentum",
    "encoder": "transformer encoder, 4 layers, d=256, sequence 128, batch 8, AdamW",
    "lstm": "LSTM classifier, hidden 256, sequence 64, batch 16, Adam",
    "resnet": "ResNet-18 for CIFAR, batch 16, SGD with momentum",
}
CLASSES = 10
WORDS = 1000
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def batch(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels."""
    rng = np.random.default_rng(0)
    shapes = {"lenet": (32, 1, 28, 28), "encoder": (8, 128), "lstm": (16, 64), "resnet": (16, 3, 32, 32)}
    shape = shapes[name]
    words = name in ("encoder", "lstm")
    x = rng.integers(0, WORDS, shape) if words else rng.standard_normal(shape, dtype=np.float32)
    return x, rng.integers(0, CLASSES, shape[0])


def torch_network(name: str) -> torch.nn.Module:
    """The network in torch, in train mode."""
    import torch
    from torch import nn

    class Last(nn.Module):
        """The output of a recurrent layer at the last step."""

        def forward(self, outputs: Any) -> Any:
            return outputs[0][:, -1]

    class Mean(nn.Module):
        """The mean over some axes."""

        def __init__(self, *axes: int) -> None:
            super().__init__()
            self.axes = axes

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(self.axes)

    class Block(nn.Module):
        """Two convolutions with a residual connection."""

        def __init__(self, channels: int, wide: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(channels, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
                nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide),
            )  # fmt: skip
            same = stride == 1 and channels == wide
            projection = (nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
            self.around = nn.Identity() if same else nn.Sequential(*projection)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(x) + self.around(x))

    torch.manual_seed(0)
    if name == "lenet":
        network = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES),
        )  # fmt: skip
    elif name == "encoder":
        layer = nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu", batch_first=True)
        encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        network = nn.Sequential(nn.Embedding(WORDS, 256), encoder, Mean(1), nn.Linear(256, CLASSES))
    elif name == "lstm":
        recurrent = nn.LSTM(128, 256, batch_first=True)
        network = nn.Sequential(nn.Embedding(WORDS, 128), recurrent, Last(), nn.Linear(256, CLASSES))
    else:
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        channels = 64
        for wide, stride in STAGES:
            layers += [Block(channels, wide, stride), Block(wide, wide, 1)]
            channels = wide
        network = nn.Sequential(*layers, Mean(2, 3), nn.Linear(channels, CLASSES))
    return network.train()


def torch_optimizer(name: str, parameters: Any) -> Any:
    """The optimizer in torch."""
    import torch

    if name == "encoder":
        return torch.optim.AdamW(parameters, 1e-4)
    if name == "lstm":
        return torch.optim.Adam(parameters, 1e-4)
    return torch.optim.SGD(parameters, 0.01, momentum=0.9)


def our_optimizer(name: str, parameters: Any) -> Any:
    """The same optimizer in `runtime.optim`, which uses torch's formulas."""
    from cellbridge.runtime import optim

    if name == "encoder":
        return optim.AdamW(parameters, 1e-4)
    if name == "lstm":
        return optim.Adam(parameters, 1e-4)
    return optim.SGD(parameters, 0.01, momentum=0.9)


def mindspore_network(name: str) -> Any:
    """The network in MindSpore's Cells, with its loss."""
    from mindspore import nn, ops

    class Last(nn.Cell):
        """The output of a recurrent layer at the last step."""

        def __init__(self, recurrent: Any) -> None:
            super().__init__()
            self.recurrent = recurrent

        def construct(self, x: Any) -> Any:
            return self.recurrent(x)[0][:, -1]

    class Mean(nn.Cell):
        """The mean over some axes."""

        def __init__(self, *axes: int) -> None:
            super().__init__()
            self.axes = axes

        def construct(self, x: Any) -> Any:
            return ops.mean(x, self.axes)

    class Block(nn.Cell):
        """Two convolutions with a residual connection."""

        def __init__(self, channels: int, wide: int, stride: int) -> None:
            super().__init__()
            self.body = nn.SequentialCell([
                nn.Conv2d(channels, wide, 3, stride), nn.BatchNorm2d(wide), nn.ReLU(),
                nn.Conv2d(wide, wide, 3), nn.BatchNorm2d(wide),
            ])  # fmt: skip
            same = stride == 1 and channels == wide
            projection = [nn.Conv2d(channels, wide, 1, stride), nn.BatchNorm2d(wide)]
            self.around = nn.Identity() if same else nn.SequentialCell(projection)

        def construct(self, x: Any) -> Any:
            return ops.relu(self.body(x) + self.around(x))

    if name == "lenet":
        layers = [
            nn.Conv2d(1, 6, 5, pad_mode="pad", padding=2, has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
            nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(),
            nn.Dense(400, 120), nn.ReLU(), nn.Dense(120, 84), nn.ReLU(), nn.Dense(84, CLASSES),
        ]  # fmt: skip
    elif name == "encoder":
        layer = nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu", batch_first=True)
        layers = [nn.Embedding(WORDS, 256), nn.TransformerEncoder(layer, 4), Mean(1), nn.Dense(256, CLASSES)]
    elif name == "lstm":
        recurrent = Last(nn.LSTM(128, 256, batch_first=True))
        layers = [nn.Embedding(WORDS, 128), recurrent, nn.Dense(256, CLASSES)]
    else:
        layers = [nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU()]
        channels = 64
        for wide, stride in STAGES:
            layers += [Block(channels, wide, stride), Block(wide, wide, 1)]
            channels = wide
        layers += [Mean(2, 3), nn.Dense(channels, CLASSES)]
    return nn.WithLossCell(nn.SequentialCell(layers), nn.CrossEntropyLoss())


def mindspore_optimizer(name: str, parameters: Any) -> Any:
    """The optimizer in MindSpore."""
    from mindspore import nn

    if name == "encoder":
        return nn.AdamWeightDecay(parameters, 1e-4, weight_decay=1e-2)
    if name == "lstm":
        return nn.Adam(parameters, 1e-4)
    return nn.Momentum(parameters, 0.01, 0.9)
