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
    "mobilenet": "MobileNetV3-like blocks, batch 16, 3x56x56, SGD with momentum",
    "gpt": "GPT-2-like decoder, 4 layers, d=256, sequence 128, batch 4, AdamW",
    "gru": "GRU tagger, 2 layers, both directions, hidden 128, sequence 64, batch 16, Adam",
    "volumes": "3-D convolutional net, batch 4, 1x16x32x32, Adam",
}
IN_MINDSPORE = frozenset({"lenet", "encoder", "lstm", "resnet"})
ADAM = frozenset({"lstm", "gru", "volumes"})
ADAMW = frozenset({"encoder", "gpt"})
CLASSES = 10
WORDS = 1000
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def batch(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels."""
    rng = np.random.default_rng(0)
    shapes = {
        "lenet": (32, 1, 28, 28), "encoder": (8, 128), "lstm": (16, 64), "resnet": (16, 3, 32, 32),
        "mobilenet": (16, 3, 56, 56), "gpt": (4, 128), "gru": (16, 64), "volumes": (4, 1, 16, 32, 32),
    }  # fmt: skip
    shape = shapes[name]
    words = len(shape) == 2
    x = rng.integers(0, WORDS, shape) if words else rng.standard_normal(shape, dtype=np.float32)
    if name == "gpt":
        return x, np.roll(x, -1, 1).reshape(-1)
    return x, rng.integers(0, CLASSES, x.size if name == "gru" else shape[0])


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

    class First(nn.Module):
        """The output of a recurrent layer at all steps."""

        def forward(self, outputs: Any) -> Any:
            return outputs[0]

    class Inverted(nn.Module):
        """MobileNetV3's block (Howard et al., 2019): expand, filter each channel, squeeze and excite, project."""

        def __init__(self, channels: int, wide: int, out: int, kernel: int, stride: int, *, squeeze: bool) -> None:
            super().__init__()
            self.before = nn.Sequential(
                nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
                nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide),
                nn.Hardswish(),
            )  # fmt: skip
            gate = (nn.Conv2d(wide, wide // 4, 1), nn.ReLU(), nn.Conv2d(wide // 4, wide, 1), nn.Hardsigmoid())
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), *gate) if squeeze else None
            self.after = nn.Sequential(nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
            self.adds = stride == 1 and channels == out

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.before(x)
            y = self.after(y if self.gate is None else y * self.gate(y))
            return x + y if self.adds else y

    class Attending(nn.Module):
        """A block of GPT-2 (Radford et al., 2019): causal attention and a feed-forward network, each after a norm."""

        def __init__(self, size: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
            self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.feed = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(approximate="tanh"), nn.Linear(4 * size, size))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.feed(self.norms[1](x))

    class Decoder(nn.Module):
        """Scores of the next word at each position, by the embedding's own weights."""

        def __init__(self, blocks: nn.ModuleList, words: nn.Embedding) -> None:
            super().__init__()
            self.words, self.blocks = words, blocks
            self.places, self.norm = nn.Embedding(128, words.embedding_dim), nn.LayerNorm(words.embedding_dim)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            return (self.norm(h) @ self.words.weight.T).flatten(0, 1)

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
    elif name == "mobilenet":
        network = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
            Inverted(16, 64, 24, 3, 2, squeeze=False), Inverted(24, 72, 24, 3, 1, squeeze=False),
            Inverted(24, 96, 40, 5, 2, squeeze=True), *(Inverted(40, 240, 40, 5, 1, squeeze=True) for _ in range(2)),
            Inverted(40, 120, 48, 5, 1, squeeze=True), Mean(2, 3), nn.Linear(48, CLASSES),
        )  # fmt: skip
    elif name == "gpt":
        network = Decoder(nn.ModuleList(Attending(256, 4) for _ in range(4)), nn.Embedding(WORDS, 256))
    elif name == "gru":
        recurrent = nn.GRU(64, 128, 2, batch_first=True, bidirectional=True)
        network = nn.Sequential(nn.Embedding(WORDS, 64), recurrent, First(), nn.Linear(256, CLASSES), nn.Flatten(0, 1))
    elif name == "volumes":
        network = nn.Sequential(
            nn.Conv3d(1, 16, 3, padding=1, bias=False), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(16, 32, 3, padding=1, bias=False), nn.BatchNorm3d(32), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(32, 64, 3, padding=1), nn.ReLU(), Mean(2, 3, 4), nn.Linear(64, CLASSES),
        )  # fmt: skip
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

    if name in ADAMW:
        return torch.optim.AdamW(parameters, 1e-4)
    if name in ADAM:
        return torch.optim.Adam(parameters, 1e-4)
    return torch.optim.SGD(parameters, 0.01, momentum=0.9)


def our_optimizer(name: str, parameters: Any) -> Any:
    """The same optimizer in `runtime.optim`, which uses torch's formulas."""
    from cellbridge.runtime import optim

    if name in ADAMW:
        return optim.AdamW(parameters, 1e-4)
    if name in ADAM:
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
