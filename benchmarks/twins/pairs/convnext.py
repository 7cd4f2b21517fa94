"""ConvNeXt of transformers, with Linear layers on channels last, against one of convolutions throughout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

SIZES, DEPTHS = (8, 12), (1, 2)


def build() -> nn.Module:
    from transformers import ConvNextConfig, ConvNextModel

    config = ConvNextConfig(hidden_sizes=list(SIZES), depths=list(DEPTHS), num_stages=2, layer_norm_eps=1e-6)
    return ConvNextModel(config)


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 32, 32),)


class LayerNorm2d(nn.Module):
    """A norm over the channels, which come first."""

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.offset = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        var = (x - mean).pow(2).mean(1, keepdim=True)
        return (x - mean) / torch.sqrt(var + self.eps) * self.gain + self.offset


class ConvBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
            LayerNorm2d(dim),
            nn.Conv2d(dim, 4 * dim, 1),
            nn.GELU(),
            nn.Conv2d(4 * dim, dim, 1),
        )
        self.gamma = nn.Parameter(torch.ones(1, dim, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.body(x)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, SIZES[0], 4, 4), LayerNorm2d(SIZES[0]))
        self.stage1 = nn.Sequential(*(ConvBlock(SIZES[0]) for _ in range(DEPTHS[0])))
        self.down = nn.Sequential(LayerNorm2d(SIZES[0]), nn.Conv2d(*SIZES, 2, 2))
        self.stage2 = nn.Sequential(*(ConvBlock(SIZES[1]) for _ in range(DEPTHS[1])))
        self.norm = LayerNorm2d(SIZES[1])

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stage2(self.down(self.stage1(self.stem(image))))
        return x, self.norm(x.mean((2, 3), keepdim=True)).flatten(1)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def conv(target: str, source: str) -> None:
        weight = w[f"{source}.weight"]
        state[f"{target}.weight"] = weight if weight.dim() == 4 else weight[:, :, None, None]
        state[f"{target}.bias"] = w[f"{source}.bias"]

    def norm(target: str, source: str) -> None:
        state[f"{target}.gain"] = w[f"{source}.weight"].view(1, -1, 1, 1)
        state[f"{target}.offset"] = w[f"{source}.bias"].view(1, -1, 1, 1)

    conv("stem.0", "embeddings.patch_embeddings")
    norm("stem.1", "embeddings.layernorm")
    norm("down.0", "encoder.stages.1.downsampling_layer.0")
    conv("down.1", "encoder.stages.1.downsampling_layer.1")
    norm("norm", "layernorm")
    for stage, depth in enumerate(DEPTHS):
        for layer in range(depth):
            target, source = f"stage{stage + 1}.{layer}", f"encoder.stages.{stage}.layers.{layer}"
            conv(f"{target}.body.0", f"{source}.dwconv")
            norm(f"{target}.body.1", f"{source}.layernorm")
            conv(f"{target}.body.2", f"{source}.pwconv1")
            conv(f"{target}.body.4", f"{source}.pwconv2")
            state[f"{target}.gamma"] = w[f"{source}.layer_scale_parameter"].view(1, -1, 1, 1)
    module = ConvNet()
    module.load_state_dict(state)
    return module


TWINS = [Twin("convnext/channels first", build, port, inputs)]
