"""A variational autoencoder of encoder and decoder classes, against one flat Sequential that returns more."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

LATENT, SIDE = 4, 16


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 4, stride=2, padding=1)
        self.norm1 = nn.GroupNorm(2, 6)
        self.conv2 = nn.Conv2d(6, 8, 4, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(2, 8)
        self.act = nn.LeakyReLU(0.2)
        self.mean = nn.Linear(8 * 16, LATENT)
        self.log_variance = nn.Linear(8 * 16, LATENT)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.act(self.norm1(self.conv1(x)))
        x = self.act(self.norm2(self.conv2(x))).flatten(1)
        return self.mean(x), self.log_variance(x)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(LATENT, 8 * 16)
        self.deconv1 = nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 6)
        self.deconv2 = nn.ConvTranspose2d(6, 1, 4, stride=2, padding=1)
        self.act = nn.LeakyReLU(0.2)

    def forward(self, z: Tensor) -> Tensor:
        x = self.act(self.fc(z)).view(-1, 8, 4, 4)
        return torch.sigmoid(self.deconv2(self.act(self.norm(self.deconv1(x)))))


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x)
        z = mean if not self.training else mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance


def inputs() -> tuple[Tensor, ...]:
    return (torch.rand(2, 1, SIDE, SIDE),)


class FirstHalf(nn.Module):
    """The mean of what is mean and logarithm of the variance."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :LATENT]


def layers() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 6, 4, 2, 1),
        nn.GroupNorm(2, 6),
        nn.LeakyReLU(0.2),
        nn.Conv2d(6, 8, 4, 2, 1),
        nn.GroupNorm(2, 8),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(8 * 16, 2 * LATENT),
        FirstHalf(),
        nn.Linear(LATENT, 8 * 16),
        nn.LeakyReLU(0.2),
        nn.Unflatten(1, (8, 4, 4)),
        nn.ConvTranspose2d(8, 6, 4, 2, 1),
        nn.GroupNorm(2, 6),
        nn.LeakyReLU(0.2),
        nn.ConvTranspose2d(6, 1, 4, 2, 1),
        nn.Sigmoid(),
    )


NUMBERS = {
    "encoder.conv1": 0, "encoder.norm1": 1, "encoder.conv2": 3, "encoder.norm2": 4, "decoder.fc": 9,
    "decoder.deconv1": 12, "decoder.norm": 13, "decoder.deconv2": 15,
}  # fmt: skip


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {}
    for part in ("weight", "bias"):
        state |= {f"{number}.{part}": w[f"{source}.{part}"] for source, number in NUMBERS.items()}
        state[f"7.{part}"] = torch.cat([w[f"encoder.mean.{part}"], w[f"encoder.log_variance.{part}"]])
    module = layers()
    module.load_state_dict(state)
    return module


TWINS = [Twin("autoencoder/sequential", Autoencoder, port, inputs)]
