"""Ports by another hand with wrong weights, an order of Cells that differs, and weights that were computed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH, HEADS = 8, 2


class Attention(nn.Module):
    """Has one product, and an explicit mask."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / (WIDTH // HEADS) ** 0.5).masked_fill(hidden, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and layers of a block are computed from the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm1(x)) + self.down(self.up(self.norm2(x)).relu())  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.pool, self.head = (
            nn.Sequential(Block(), Block()),
            nn.AdaptiveAvgPool1d(1),
            nn.Linear(WIDTH, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(x).mT).flatten(1))  # type: ignore[no-any-return]


class PortedBlock(nn.Module):
    """Has three products, and torch's attention."""

    def __init__(self, like: Block, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.n1, self.n2, self.o = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.a, self.b = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)
        first, second = (like.norm2, like.norm1) if fault == "norms exchanged" else (like.norm1, like.norm2)
        pairs = (
            (self.n1, first),
            (self.n2, second),
            (self.o, like.attention.proj),
            (self.a, like.up),
            (self.b, like.down),
        )
        for ported, original in pairs:
            ported.load_state_dict(original.state_dict())
        if fault == "transposed":
            self.o.weight.data = self.o.weight.data.T.clone()
        layers = (self.k, self.q, self.v) if fault == "q and k exchanged" else (self.q, self.k, self.v)
        for name in ("weight", "bias"):
            rows = getattr(like.attention.qkv, name).detach()
            if fault == "head by head":
                rows = rows.unflatten(0, (HEADS, 3, -1)).transpose(0, 1).flatten(0, 2)
            for layer, part in zip(layers, rows.chunk(3), strict=True):
                getattr(layer, name).data = part.clone()

    def forward(self, x: Tensor) -> Tensor:
        y = self.n1(x)
        q, k, v = (layer(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        shift = 1 + (self.fault == "mask")
        mask = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(shift)
        mixed = self.o(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))
        given = x + mixed if self.fault == "one after the other" else x
        return x + mixed + self.b(F.relu(self.a(self.n2(given))))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, like: Network, fault: str) -> None:
        super().__init__()
        blocks = [block for block in like.blocks if isinstance(block, Block)]
        self.layers = nn.ModuleList(PortedBlock(block, fault if number else "") for number, block in enumerate(blocks))
        self.out = nn.Linear(WIDTH, 3)
        self.out.load_state_dict(like.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(1))  # type: ignore[no-any-return]


def compared(fault: str = "") -> Report:
    torch.manual_seed(0)
    reference = Network().eval()
    for parameter in reference.parameters():
        parameter.data += 0.2 * torch.rand_like(parameter)
    return parity.compare(reference, Port(reference, fault).eval(), torch.randn(2, 5, WIDTH))


def test_a_sound_port_holds_with_all_gradients() -> None:
    report = compared()
    assert report.ok, str(report)
    assert "parameters" not in report.conditions_in_words
    assert {cell.status for path, cell in report.cells.items() if path != "blocks"} <= {"pass"}


@pytest.mark.causes
@pytest.mark.parametrize(
    ("fault", "failing", "words"),
    [
        ("mask", {"blocks.1.attention"}, "diagonal is 2"),
        ("transposed", {"blocks.1.attention.proj"}, "is transposed"),
        ("q and k exchanged", {"blocks.1.attention"}, "in the order 1, 0, 2"),
        ("head by head", {"blocks.1.attention"}, "returns are read head by head, with 3 parts each"),
        ("one after the other", {"blocks.1"}, "blocks.1.norm2"),
    ],
)
def test_faults_are_placed_and_named(fault: str, failing: set[str], words: str) -> None:
    report = compared(fault)
    assert set(report.failing) == failing, str(report)
    summaries = [cause.summary for path in failing for cause in report.cells[path].causes]
    assert any(words in summary for summary in summaries), summaries


class ByHeads(Attention):
    """Has queries, keys and values of a head side by side."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (HEADS, 3, -1)).permute(3, 0, 2, 1, 4)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / (WIDTH // HEADS) ** 0.5).masked_fill(hidden, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


@pytest.mark.causes
@pytest.mark.parametrize("reverse", [False, True])
def test_features_of_a_product_divided_by_heads_in_place_of_thirds(reverse: bool) -> None:
    torch.manual_seed(0)
    by_thirds, by_heads = Attention(), ByHeads()
    by_heads.load_state_dict(by_thirds.state_dict())
    pair = (by_heads, by_thirds) if reverse else (by_thirds, by_heads)
    report = parity.compare(*(nn.Sequential(attention).eval() for attention in pair), torch.randn(2, 5, WIDTH))
    (cause,) = report.cells["0"].causes
    words = (
        "an axis is split into 3 x 2 x 4 in the candidate"
        if reverse
        else "read head by head, with 3 parts each in the candidate, and as thirds with all heads each in the reference"
    )
    assert words in cause.summary


class Scaled(nn.Module):
    """Multiplies what a layer returns; its port has the factors in the weights of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.factors = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x) * self.factors))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("error", "holds"), [(0.0, True), (3e-5, False)])
def test_weights_that_were_computed_may_be_rounded_and_not_wrong(error: float, holds: bool) -> None:
    torch.manual_seed(0)
    reference = Scaled()
    port = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
    factors = reference.factors.detach() * (1 + error)
    port[0].load_state_dict(
        {name: x * (factors[:, None] if x.ndim == 2 else factors) for name, x in reference.first.state_dict().items()}
    )
    port[2].load_state_dict(reference.second.state_dict())
    assert parity.compare(reference.eval(), port.eval(), torch.randn(2, WIDTH)).ok is holds


class Patches(nn.Module):
    """Two convolutions in a Cell, of which the port has one as a product of patches."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Conv2d(3, WIDTH, 2, stride=2))
        self.first_gain, self.second_gain = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.embed(x).flatten(2).mT
        return self.out(self.first_gain(y) * self.second_gain(y.flip(1)))  # type: ignore[no-any-return]


class PortOfPatches(nn.Module):
    def __init__(self, like: Patches, fault: str) -> None:
        super().__init__()
        weight = like.embed[0].weight.detach()
        self.patch = nn.Linear(12, WIDTH)
        self.patch.weight.data = (weight.permute(0, 2, 3, 1) if fault == "axes" else weight).flatten(1).clone()
        self.patch.bias.data = like.embed[0].bias.detach().clone()  # type: ignore[union-attr]
        gains = (like.second_gain, like.first_gain) if fault == "gains" else (like.first_gain, like.second_gain)
        self.gains = nn.ParameterList(gain.weight.detach().clone() for gain in gains)
        self.shifts = nn.ParameterList(gain.bias.detach().clone() for gain in (like.first_gain, like.second_gain))
        self.last = nn.Linear(WIDTH, 3)
        self.last.load_state_dict(like.out.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        patches = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * 4)
        y = self.patch(patches)
        a, z = (F.layer_norm(v, (WIDTH,)) for v in (y, y.flip(1)))
        return self.last((a * self.gains[0] + self.shifts[0]) * (z * self.gains[1] + self.shifts[1]))  # type: ignore[no-any-return]


@pytest.mark.causes
@pytest.mark.parametrize(
    ("fault", "failing", "words"),
    [
        ("", set(), ""),
        ("axes", {"embed.0"}, "flattened with its axes in the order (0, 2, 3, 1)"),
        ("gains", {"first_gain", "second_gain"}, "has the values of second_gain.weight"),
    ],
)
def test_cells_behind_wrong_weights_are_found(fault: str, failing: set[str], words: str) -> None:
    torch.manual_seed(0)
    reference = Patches()
    for parameter in reference.parameters():
        parameter.data += 0.2 * torch.rand_like(parameter)
    report = parity.compare(reference.eval(), PortOfPatches(reference, fault).eval(), torch.randn(2, 3, 4, 4))
    assert set(report.failing) == failing, str(report)
    summaries = [cause.summary for path in failing for cause in report.cells[path].causes]
    assert any(words in summary for summary in summaries) or not failing, summaries


class HeadNorm(nn.Module):
    """Norms all heads at once; its port has them one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.out = nn.Linear(WIDTH, WIDTH), nn.RMSNorm(WIDTH // HEADS), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.layer(x).unflatten(-1, (HEADS, -1))).flatten(-2).tanh())  # type: ignore[no-any-return]


class HeadByHead(nn.Module):
    def __init__(self, like: HeadNorm, eps: float | None) -> None:
        super().__init__()
        self.eps = eps
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.a.load_state_dict(like.layer.state_dict())
        self.b.load_state_dict(like.out.state_dict())
        self.gain = nn.Parameter(like.norm.weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        heads = self.a(x).split(WIDTH // HEADS, -1)
        return self.b(torch.cat([F.rms_norm(head, self.gain.shape, self.gain, self.eps) for head in heads], -1).tanh())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("eps", "failing"), [(None, set()), (1e-3, {"norm"})])
def test_a_cell_for_all_heads_is_found_in_code_for_each(eps: float | None, failing: set[str]) -> None:
    torch.manual_seed(0)
    reference = HeadNorm()
    reference.norm.weight.data += torch.rand(WIDTH // HEADS)
    report = parity.compare(reference.eval(), HeadByHead(reference, eps).eval(), torch.randn(2, 5, WIDTH))
    assert set(report.failing) == failing, str(report)
    assert "norm.weight" in {c.tensor for c in report.cells["norm"].comparisons if c.kind == "parameter gradient"}


class OwnNorm(nn.Module):
    """A batch norm that is written out, with statistics under other names."""

    def __init__(self, like: nn.BatchNorm1d, fault: bool) -> None:
        super().__init__()
        assert like.running_mean is not None
        assert like.running_var is not None
        self.gamma, self.beta = (nn.Parameter(x.detach().clone()) for x in (like.weight, like.bias))
        self.register_buffer("mean", like.running_mean.clone())
        self.register_buffer("variance", like.running_var.sqrt() if fault else like.running_var.clone())

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / torch.sqrt(self.variance + 1e-5) * self.gamma + self.beta  # type: ignore[operator]


@pytest.mark.causes
@pytest.mark.parametrize("fault", [False, True])
def test_a_wrong_buffer_of_another_name_is_named(fault: bool) -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    norm = reference[2]
    assert isinstance(norm, nn.BatchNorm1d)
    norm.running_mean, norm.running_var = torch.randn(WIDTH), torch.rand(WIDTH) + 0.5
    port = nn.Sequential(nn.Sequential(reference[0], nn.Tanh()), OwnNorm(norm, fault), nn.ReLU(), reference[4])
    report = parity.compare(reference.eval(), port.eval(), torch.randn(4, WIDTH))
    assert report.failing == (["2"] if fault else [])
    summaries = [cause.summary for cause in report.cells["2"].causes]
    assert summaries == (["2.running_var has the square roots of the values in the candidate"] if fault else [])
