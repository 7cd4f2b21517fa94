"""RegNetY of transformers against one that has its convolutions with norms folded in, and gates as linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

SIZES, CLASSES = (8, 16), 4


def build() -> nn.Module:
    from transformers import RegNetConfig, RegNetForImageClassification

    return RegNetForImageClassification(
        RegNetConfig(
            embedding_size=8,
            hidden_sizes=list(SIZES),
            depths=[1, 2],
            groups_width=4,
            layer_type="y",
            num_labels=CLASSES,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 24, 24),)


class Gate(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(size, inner), nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        s = self.fc2(F.relu(self.fc1(x.mean((2, 3)))))
        return x * torch.sigmoid(s)[..., None, None]


class YBlock(nn.Module):
    def __init__(self, fan_in: int, size: int, stride: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(fan_in, size, 1)
        self.b = nn.Conv2d(size, size, 3, stride, 1, groups=size // 4)
        self.gate = Gate(size, round(fan_in / 4))
        self.c = nn.Conv2d(size, size, 1)
        self.skip = nn.Conv2d(fan_in, size, 1, stride) if stride > 1 or fan_in != size else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.c(self.gate(F.relu(self.b(F.relu(self.a(x))))))
        return F.relu(y + (x if self.skip is None else self.skip(x)))


class Deployed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.trunk = nn.Sequential(YBlock(8, 8, 2), YBlock(8, 16, 2), YBlock(16, 16, 1))
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.trunk(F.relu(self.stem(x)))
        return {"logits": self.fc(x.mean((2, 3)))}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {}

    def fold(target: str, source: str) -> None:
        norm = f"{source}.normalization"
        scale = w[f"{norm}.weight"] / torch.sqrt(w[f"{norm}.running_var"] + 1e-5)
        out[f"{target}.weight"] = w[f"{source}.convolution.weight"] * scale[:, None, None, None]
        out[f"{target}.bias"] = w[f"{norm}.bias"] - w[f"{norm}.running_mean"] * scale

    fold("stem", "regnet.embedder.embedder")
    for n, (s, i) in enumerate(((0, 0), (1, 0), (1, 1))):
        source, target = f"regnet.encoder.stages.{s}.layers.{i}", f"trunk.{n}"
        for part, index in (("a", 0), ("b", 1), ("c", 3)):
            fold(f"{target}.{part}", f"{source}.layer.{index}")
        if i == 0:
            fold(f"{target}.skip", f"{source}.shortcut")
        for fc, index in (("fc1", 0), ("fc2", 2)):
            out[f"{target}.gate.{fc}.weight"] = w[f"{source}.layer.2.attention.{index}.weight"][:, :, 0, 0]
            out[f"{target}.gate.{fc}.bias"] = w[f"{source}.layer.2.attention.{index}.bias"]
    out["fc.weight"], out["fc.bias"] = w["classifier.1.weight"], w["classifier.1.bias"]
    model = Deployed()
    model.load_state_dict(out)
    return model


TWINS = [Twin("regnet/folded", build, port, inputs)]
