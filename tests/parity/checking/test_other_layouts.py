"""Ports whose tensors lie otherwise: channels last, heads apart, rows of weights in another order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report


class ChannelsFirstNorm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(channels) + 0.5), nn.Parameter(torch.randn(channels) / 10)

    def forward(self, x: Tensor) -> Tensor:
        y = F.layer_norm(x.permute(0, 2, 3, 1), self.weight.shape, self.weight, self.bias, 1e-6)
        return y.permute(0, 3, 1, 2)


class ChannelsFirstBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(6, 6, 3, padding=1, groups=6), ChannelsFirstNorm(6)
        self.up, self.act, self.down = nn.Conv2d(6, 12, 1), nn.GELU(), nn.Conv2d(12, 6, 1)
        self.scale = nn.Parameter(torch.randn(6, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.down(self.act(self.up(self.norm(self.depthwise(x)))))  # type: ignore[no-any-return]


class ChannelsFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 6, 2, 2), ChannelsFirstNorm(6)
        self.blocks, self.head = nn.Sequential(*(ChannelsFirstBlock() for _ in range(2))), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem_norm(self.stem(x))).mean((2, 3)))  # type: ignore[no-any-return]


class ChannelsLastBlock(nn.Module):
    def __init__(self, like: ChannelsFirstBlock, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.a, self.b = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.LayerNorm(6, 1e-6)
        self.c, self.d, self.e = nn.Linear(6, 12), nn.Linear(12, 6), nn.Parameter(like.scale.detach().flatten())
        self.a.load_state_dict(like.depthwise.state_dict())
        self.b.load_state_dict(like.norm.state_dict())
        for linear, convolution in ((self.c, like.up), (self.d, like.down)):
            state = convolution.state_dict()
            linear.load_state_dict({"weight": state["weight"].flatten(1), "bias": state["bias"]})

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        y = F.gelu(self.c(y), approximate="tanh" if self.fault == "gelu" else "none")
        return x + self.e * self.d(y.detach() if self.fault == "detached" else y)  # type: ignore[no-any-return]


class ChannelsLast(nn.Module):
    def __init__(self, like: ChannelsFirst, fault: str) -> None:
        super().__init__()
        self.patch, self.n = nn.Conv2d(3, 6, 2, 2), nn.LayerNorm(6, 1e-3 if fault == "eps" else 1e-6)
        self.patch.load_state_dict(like.stem.state_dict())
        self.n.load_state_dict(like.stem_norm.state_dict())
        blocks = [block for block in like.blocks if isinstance(block, ChannelsFirstBlock)]
        self.stages = nn.ModuleList(ChannelsLastBlock(block, fault if i else "") for i, block in enumerate(blocks))
        self.out = nn.Linear(6, 4)
        self.out.load_state_dict(like.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        x = self.n(self.patch(x).permute(0, 2, 3, 1))
        for stage in self.stages:
            x = stage(x)
        return self.out(x.mean((1, 2)))  # type: ignore[no-any-return]


def channels_last(fault: str = "") -> Report:
    torch.manual_seed(0)
    reference = ChannelsFirst().eval()
    return parity.compare(reference, ChannelsLast(reference, fault).eval(), torch.randn(2, 3, 8, 10))


def test_a_sound_port_with_channels_last_is_compared_cell_by_cell() -> None:
    report = channels_last()
    assert report.ok, str(report)
    assert {cell.status for cell in report.cells.values()} == {"pass"}
    assert "parameters" not in report.conditions_in_words


@pytest.mark.parametrize(
    ("fault", "path"), [("gelu", "blocks.1.act"), ("eps", "stem_norm"), ("detached", "blocks.1.down")]
)
def test_faults_of_a_port_with_channels_last_are_placed(fault: str, path: str) -> None:
    report = channels_last(fault)
    assert not report.ok
    assert path in report.failing


class Patches(nn.Module):
    """The linear layer is given the channels of each patch, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 2, 2), nn.LayerNorm(6, 1e-6)
        self.places, self.head = nn.Linear(12, 12), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).mT
        return self.head(x + self.places(self.norm(x).mT).mT)  # type: ignore[no-any-return]


class CutPatches(nn.Module):
    """Patches are cut out by reshapes, and a bias is added to the residual."""

    def __init__(self, like: Patches, *, wrong: bool) -> None:
        super().__init__()
        order = (1, 2, 3, 0) if wrong else (2, 3, 1, 0)
        self.cut = nn.Parameter(like.stem.weight.detach().permute(order).reshape(-1, 6))
        self.shift, self.w, self.b = (
            nn.Parameter(p.detach().clone()) for p in (like.stem.bias, *like.places.parameters())
        )
        self.n, self.out = nn.LayerNorm(6, 1e-6), nn.Linear(6, 4)
        self.n.load_state_dict(like.norm.state_dict())
        self.out.load_state_dict(like.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
        x = x @ self.cut + self.shift
        return self.out(x + self.w @ self.n(x) + self.b[:, None])  # type: ignore[no-any-return]


@pytest.mark.causes
@pytest.mark.parametrize("wrong", [False, True])
def test_patches_that_are_cut_out_by_reshapes(*, wrong: bool) -> None:
    torch.manual_seed(0)
    reference = Patches()
    with torch.no_grad():
        for parameter in reference.norm.parameters():
            parameter += 0.3 * torch.rand_like(parameter)
    report = parity.compare(reference, CutPatches(reference, wrong=wrong), torch.randn(2, 3, 6, 8))
    assert report.failing == (["stem"] if wrong else []), str(report)
    assert "unpaired" not in {cell.presence for cell in report.cells.values()}
    assert "parameters" not in report.conditions_in_words
    if wrong:
        summary = report.cells["stem"].causes[0].summary
        assert (
            summary == "stem.weight has the reference's numbers in the order of its axes (0, 2, 3, 1) in the candidate"
        )


HEADS, GROUPS, WIDTH = 4, 2, 16
SIZE = WIDTH // HEADS


def rotated(x: Tensor, *, interleaved: bool) -> Tensor:
    """Turn pairs of features by their position; x has shape [batch, heads, length, size]."""
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 0.3 ** torch.arange(SIZE // 2, dtype=x.dtype)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def attended(q: Tensor, k: Tensor, v: Tensor, *, interleaved: bool) -> Tensor:
    q, k = (rotated(part, interleaved=interleaved) for part in (q, k))
    k, v = (part.repeat_interleave(HEADS // GROUPS, 1) for part in (k, v))
    mixed = (q @ k.mT / SIZE**0.5).softmax(-1) @ v
    return mixed.transpose(1, 2).flatten(-2)


class SeparateAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.q, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * SIZE) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (layer(y).unflatten(-1, (-1, SIZE)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return x + self.out(attended(q, k, v, interleaved=False))  # type: ignore[no-any-return]


class Attentions(nn.Module):
    """Two blocks, so that a layer is trained before the second."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SeparateAttention(), SeparateAttention()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))  # type: ignore[no-any-return]


class GroupedAttention(nn.Module):
    """One product, group by group, in another order of features: those that rotate together lie side by side."""

    def __init__(self, like: SeparateAttention, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.n, self.qkv, self.o = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, WIDTH + 2 * GROUPS * SIZE),
            nn.Linear(WIDTH, WIDTH),
        )
        self.n.load_state_dict(like.norm.state_dict())
        self.o.load_state_dict(like.out.state_dict())
        order = torch.arange(SIZE).view(2, -1).T.flatten()
        for name in ("weight", "bias"):
            q, k, v = (
                getattr(layer, name).detach().unflatten(0, (GROUPS, -1, SIZE)) for layer in (like.q, like.k, like.v)
            )
            if fault != "rows" or name == "bias":
                q, k = q[:, :, order], k[:, :, order]
            getattr(self.qkv, name).data = torch.cat([q, k, v], 1).flatten(0, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.qkv(self.n(x)).unflatten(-1, (GROUPS, -1, SIZE))
        q, k, v = y.split([HEADS // GROUPS, 1, 1], -2)
        if self.fault == "detached":
            k = k.detach()
        q, k, v = (part.flatten(2, 3).transpose(1, 2) for part in (q, k, v))
        return x + self.o(attended(q, k, v, interleaved=True))  # type: ignore[no-any-return]


class GroupedAttentions(nn.Module):
    def __init__(self, like: Attentions, fault: str) -> None:
        super().__init__()
        self.layers = nn.Sequential(GroupedAttention(like.first, ""), GroupedAttention(like.second, fault))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def grouped(fault: str = "", *, zero_biases: bool = False) -> Report:
    torch.manual_seed(0)
    reference = Attentions().eval()
    if zero_biases:
        for part in (reference.first, reference.second):
            for layer in (part.q, part.k, part.v):
                nn.init.zeros_(layer.bias)
    return parity.compare(reference, GroupedAttentions(reference, fault).eval(), torch.randn(2, 5, WIDTH))


@pytest.mark.parametrize("zero_biases", [False, True])
def test_gradients_of_one_product_in_another_order_are_those_of_its_parts(zero_biases: bool) -> None:
    report = grouped(zero_biases=zero_biases)
    assert report.ok, str(report)
    assert "parameters" not in report.conditions_in_words
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert {f"second.{layer}.{name}" for layer in "qkv" for name in ("weight", "bias")} <= compared


@pytest.mark.parametrize("fault", ["detached", "rows"])
def test_a_fault_inside_one_product_in_another_order_is_placed(fault: str) -> None:
    report = grouped(fault)
    assert set(report.failing) == {"second"}, str(report)
