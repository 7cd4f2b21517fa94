"""A radiance field that joins positions at the skip against one that adds products and has all sines first."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, SKIP, POINTS, VIEWS = 16, 6, 3, 4, 2


class Embedder:
    def __init__(self, num_freqs):
        self.freq_bands = [2.0**i for i in range(num_freqs)]

    def __call__(self, x):
        out = [x]
        for freq in self.freq_bands:
            out.append(torch.sin(x * freq))
            out.append(torch.cos(x * freq))
        return torch.cat(out, -1)


class NeRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_points, self.embed_views = Embedder(POINTS), Embedder(VIEWS)
        n_pts, n_views = 3 * (1 + 2 * POINTS), 3 * (1 + 2 * VIEWS)
        self.pts_linears = nn.ModuleList(
            [nn.Linear(n_pts, WIDTH)]
            + [nn.Linear(WIDTH + n_pts if i == SKIP else WIDTH, WIDTH) for i in range(DEPTH - 1)]
        )
        self.views_linears = nn.ModuleList([nn.Linear(n_views + WIDTH, WIDTH // 2)])
        self.feature_linear = nn.Linear(WIDTH, WIDTH)
        self.alpha_linear = nn.Linear(WIDTH, 1)
        self.rgb_linear = nn.Linear(WIDTH // 2, 3)

    def forward(self, x, d):
        input_pts, input_views = self.embed_points(x), self.embed_views(d)
        h = input_pts
        for i, _ in enumerate(self.pts_linears):
            h = self.pts_linears[i](h)
            h = F.relu(h)
            if i == SKIP:
                h = torch.cat([input_pts, h], -1)
        alpha = self.alpha_linear(h)
        feature = self.feature_linear(h)
        h = torch.cat([feature, input_views], -1)
        for layer in self.views_linears:
            h = F.relu(layer(h))
        rgb = self.rgb_linear(h)
        return torch.cat([rgb, alpha], -1)


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(12, 3), F.normalize(torch.randn(12, 3), dim=-1)


class Encoding(nn.Module):
    """x, then all sines, then all cosines."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(count), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        angles = (x[..., None] * self.bands).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n, v = 3 * (1 + 2 * POINTS), 3 * (1 + 2 * VIEWS)
        self.enc_x, self.enc_d = Encoding(POINTS), Encoding(VIEWS)
        self.base = nn.Sequential(
            nn.Linear(n, WIDTH), nn.ReLU(), *(m for _ in range(SKIP) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU()))
        )
        self.again = nn.Linear(n, WIDTH, bias=False)
        self.join = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH)
        self.heads = nn.Linear(WIDTH, WIDTH + 1)
        self.colour = nn.Sequential(nn.Linear(WIDTH + v, WIDTH // 2), nn.ReLU(), nn.Linear(WIDTH // 2, 3))

    def forward(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        e = self.enc_x(x)
        h = F.relu(self.join(self.base(e)) + self.again(e))
        h = F.relu(self.last(h))
        sigma, feature = self.heads(h).split([1, WIDTH], -1)
        rgb = self.colour(torch.cat([self.enc_d(d), feature], -1))
        return torch.cat([rgb, sigma], -1)


def order(count: int) -> Tensor:
    """Of the reference's columns, those that stand in each of ours."""
    own = torch.arange(3)
    sines = [3 + 6 * band + axis for axis in range(3) for band in range(count)]
    return torch.cat([own, torch.tensor(sines), torch.tensor(sines) + 3])


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    points, views = order(POINTS), order(VIEWS)
    n = len(points)
    out = {"base.0.weight": w["pts_linears.0.weight"][:, points], "base.0.bias": w["pts_linears.0.bias"]}
    for i in range(1, SKIP + 1):
        out[f"base.{2 * i}.weight"], out[f"base.{2 * i}.bias"] = (
            w[f"pts_linears.{i}.weight"],
            w[f"pts_linears.{i}.bias"],
        )
    joined = w[f"pts_linears.{SKIP + 1}.weight"]
    out["again.weight"], out["join.weight"] = joined[:, :n][:, points], joined[:, n:]
    out["join.bias"] = w[f"pts_linears.{SKIP + 1}.bias"]
    out["last.weight"], out["last.bias"] = w["pts_linears.5.weight"], w["pts_linears.5.bias"]
    for kind in ("weight", "bias"):
        out[f"heads.{kind}"] = torch.cat([w[f"alpha_linear.{kind}"], w[f"feature_linear.{kind}"]])
        out[f"colour.2.{kind}"] = w[f"rgb_linear.{kind}"]
    first = w["views_linears.0.weight"]
    out["colour.0.weight"] = torch.cat([first[:, WIDTH:][:, views], first[:, :WIDTH]], 1)
    out["colour.0.bias"] = w["views_linears.0.bias"]
    model = Field()
    model.load_state_dict(out)
    return model


TWINS = [Twin("nerf/added", NeRF, port, inputs)]
