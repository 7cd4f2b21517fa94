"""RAFT's update block as published, against one whose gates are one convolution of the state and one of the rest."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

HIDDEN, CONTEXT, CORRELATIONS = 6, 5, 9


class FlowHead(nn.Module):
    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(input_dim, hidden_dim, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden_dim, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.relu(self.conv1(x)))


class SepConvGRU(nn.Module):
    def __init__(self, hidden_dim: int, input_dim: int) -> None:
        super().__init__()
        size = hidden_dim + input_dim
        self.convz1 = nn.Conv2d(size, hidden_dim, (1, 5), padding=(0, 2))
        self.convr1 = nn.Conv2d(size, hidden_dim, (1, 5), padding=(0, 2))
        self.convq1 = nn.Conv2d(size, hidden_dim, (1, 5), padding=(0, 2))
        self.convz2 = nn.Conv2d(size, hidden_dim, (5, 1), padding=(2, 0))
        self.convr2 = nn.Conv2d(size, hidden_dim, (5, 1), padding=(2, 0))
        self.convq2 = nn.Conv2d(size, hidden_dim, (5, 1), padding=(2, 0))

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        hx = torch.cat([h, x], dim=1)
        z = torch.sigmoid(self.convz1(hx))
        r = torch.sigmoid(self.convr1(hx))
        q = torch.tanh(self.convq1(torch.cat([r * h, x], dim=1)))
        h = (1 - z) * h + z * q
        hx = torch.cat([h, x], dim=1)
        z = torch.sigmoid(self.convz2(hx))
        r = torch.sigmoid(self.convr2(hx))
        q = torch.tanh(self.convq2(torch.cat([r * h, x], dim=1)))
        return (1 - z) * h + z * q


class BasicMotionEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convc1 = nn.Conv2d(CORRELATIONS, 8, 1, padding=0)
        self.convc2 = nn.Conv2d(8, 6, 3, padding=1)
        self.convf1 = nn.Conv2d(2, 7, 7, padding=3)
        self.convf2 = nn.Conv2d(7, 4, 3, padding=1)
        self.conv = nn.Conv2d(4 + 6, 8 - 2, 3, padding=1)

    def forward(self, flow: Tensor, corr: Tensor) -> Tensor:
        cor = F.relu(self.convc1(corr))
        cor = F.relu(self.convc2(cor))
        flo = F.relu(self.convf1(flow))
        flo = F.relu(self.convf2(flo))
        out = F.relu(self.conv(torch.cat([cor, flo], dim=1)))
        return torch.cat([out, flow], dim=1)


class BasicUpdateBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = BasicMotionEncoder()
        self.gru = SepConvGRU(hidden_dim=HIDDEN, input_dim=8 + CONTEXT)
        self.flow_head = FlowHead(HIDDEN, hidden_dim=10)
        self.mask = nn.Sequential(
            nn.Conv2d(HIDDEN, 10, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(10, 4 * 9, 1, padding=0)
        )

    def forward(self, net: Tensor, inp: Tensor, corr: Tensor, flow: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        motion_features = self.encoder(flow, corr)
        net = self.gru(net, torch.cat([inp, motion_features], dim=1))
        delta_flow = self.flow_head(net)
        mask = 0.25 * self.mask(net)  # scale mask to balance gradients
        return net, mask, delta_flow


def inputs() -> tuple[Tensor, ...]:
    sizes = (HIDDEN, CONTEXT, CORRELATIONS, 2)
    net, inp, corr, flow = (torch.randn(2, size, 6, 7) for size in sizes)
    return torch.tanh(net), torch.relu(inp), corr, flow


class Gated(nn.Module):
    """A GRU along one axis: what is seen is convolved for the three gates together, the state for two and for one."""

    def __init__(self, kernel: tuple[int, int]) -> None:
        super().__init__()
        self.seen = nn.Conv2d(CONTEXT + 8, 3 * HIDDEN, kernel, padding="same")
        self.state = nn.Conv2d(HIDDEN, 2 * HIDDEN, kernel, padding="same", bias=False)
        self.kept = nn.Conv2d(HIDDEN, HIDDEN, kernel, padding="same", bias=False)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        reset, update, new = self.seen(x).split(HIDDEN, dim=1)
        of_reset, of_update = self.state(h).chunk(2, dim=1)
        reset, update = torch.sigmoid(reset + of_reset), torch.sigmoid(update + of_update)
        new = torch.tanh(new + self.kept(reset * h))
        return torch.lerp(h, new, update)


def conv_relu(size_in: int, size: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(size_in, size, kernel, padding=kernel // 2), nn.ReLU())


class Update(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of_costs = nn.Sequential(conv_relu(CORRELATIONS, 8, 1), conv_relu(8, 6, 3))
        self.of_flow = nn.Sequential(conv_relu(2, 7, 7), conv_relu(7, 4, 3))
        self.join = conv_relu(10, 6, 3)
        self.across, self.down = Gated((1, 5)), Gated((5, 1))
        self.heads = conv_relu(HIDDEN, 20, 3)
        self.to_flow, self.to_mask = nn.Conv2d(10, 2, 3, padding=1), nn.Conv2d(10, 36, 1)

    def forward(self, state: Tensor, context: Tensor, costs: Tensor, flow: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        motion = self.join(torch.cat((self.of_flow(flow), self.of_costs(costs)), dim=1))
        seen = torch.cat((flow, motion, context), dim=1)
        state = self.down(self.across(state, seen), seen)
        for_flow, for_mask = self.heads(state).chunk(2, dim=1)
        return state, self.to_mask(for_mask), self.to_flow(for_flow)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}
    parts = ("weight", "bias")

    def conv(to: str, of: str) -> None:
        for part in parts:
            state[f"{to}.{part}"] = w[f"{of}.{part}"]

    for to, of in (
        ("of_costs.0", "convc1"),
        ("of_costs.1", "convc2"),
        ("of_flow.0", "convf1"),
        ("of_flow.1", "convf2"),
    ):
        conv(f"{to}.0", f"encoder.{of}")
    conv("join.0", "encoder.conv")
    state["join.0.weight"] = torch.cat((state["join.0.weight"][:, 6:], state["join.0.weight"][:, :6]), dim=1)
    for number, to in ((1, "across"), (2, "down")):
        z, r, q = (w[f"gru.conv{letter}{number}.weight"] for letter in "zrq")
        of_state = slice(HIDDEN)
        seen = torch.cat((r, z, q))[:, HIDDEN:]
        context, motion, flow = seen.split((CONTEXT, 6, 2), dim=1)
        state[f"{to}.seen.weight"] = torch.cat((flow, motion, context), dim=1)
        state[f"{to}.seen.bias"] = torch.cat([w[f"gru.conv{letter}{number}.bias"] for letter in "rzq"])
        state[f"{to}.state.weight"] = torch.cat((r, z))[:, of_state]
        state[f"{to}.kept.weight"] = q[:, of_state]
    for part in parts:
        state[f"heads.0.{part}"] = torch.cat((w[f"flow_head.conv1.{part}"], w[f"mask.0.{part}"]))
        state[f"to_mask.{part}"] = 0.25 * w[f"mask.2.{part}"]
    conv("to_flow", "flow_head.conv2")
    module = Update()
    module.load_state_dict(state)
    return module


TWINS = [Twin("raft/fused gates", BasicUpdateBlock, port, inputs)]
