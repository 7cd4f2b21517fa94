"""Recurrent networks of torch's own layers, against loops over cells."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

WORDS, WIDTH, HIDDEN, TAGS = 20, 6, 5, 4


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(ids))
        return self.classifier(self.dropout(hidden)).log_softmax(-1)


def words() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 5)),)


class LSTMCell(nn.Module):
    """One matrix for the input and the state, and one bias; the gates are i, f, o, g."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size + HIDDEN, 4 * HIDDEN)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = self.linear(torch.cat((x, h), dim=-1))
        i, f, o = torch.sigmoid(gates[:, : 3 * HIDDEN]).chunk(3, dim=-1)
        c = f * c + i * torch.tanh(gates[:, 3 * HIDDEN :])
        return o * torch.tanh(c), c


class Reader(nn.Module):
    """Reads from left to right, or from right to left."""

    def __init__(self, size: int, backward: bool) -> None:
        super().__init__()
        self.cell = LSTMCell(size)
        self.backward = backward

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], HIDDEN)
        steps = range(x.shape[1])
        states = []
        for t in reversed(steps) if self.backward else steps:
            h, c = self.cell(x[:, t], h, c)
            states.append(h)
        return torch.stack(states[::-1] if self.backward else states, dim=1)


class LoopTagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.readers = nn.ModuleList(
            nn.ModuleList([Reader(size, False), Reader(size, True)]) for size in (WIDTH, 2 * HIDDEN)
        )
        self.out = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for forward, backward in self.readers:
            x = torch.cat((forward(x), backward(x)), dim=2)
        return torch.log_softmax(self.out(x), dim=2)


def port_loop(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    order = torch.cat([torch.arange(HIDDEN) + HIDDEN * gate for gate in (0, 1, 3, 2)])  # torch's are i, f, g, o
    state = {
        "embed.weight": w["embedding.weight"],
        "out.weight": w["classifier.weight"],
        "out.bias": w["classifier.bias"],
    }
    for layer in range(2):
        for number, suffix in enumerate(("", "_reverse")):
            ih, hh, bih, bhh = (
                w[f"lstm.{kind}_l{layer}{suffix}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            target = f"readers.{layer}.{number}.cell.linear"
            state[f"{target}.weight"] = torch.cat((ih, hh), dim=1)[order]
            state[f"{target}.bias"] = (bih + bhh)[order]
    module = LoopTagger()
    module.load_state_dict(state)
    return module


class Classifier(nn.Module):
    """Reads a series of numbers; returns scores and the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gru = nn.GRU(WIDTH, HIDDEN, batch_first=True)
        self.fc = nn.Linear(HIDDEN, TAGS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        outputs, last = self.gru(self.norm(x))
        return self.fc(torch.relu(outputs[:, -1])), last


def series() -> tuple[Tensor, ...]:
    return (torch.randn(3, 6, WIDTH),)


class Gates(nn.Module):
    """A GRU step with a layer for each gate."""

    def __init__(self) -> None:
        super().__init__()
        self.xr, self.xz, self.xn = (nn.Linear(WIDTH, HIDDEN) for _ in range(3))
        self.hr, self.hz, self.hn = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        r = torch.sigmoid(self.xr(x) + self.hr(h))
        z = torch.sigmoid(self.xz(x) + self.hz(h))
        n = torch.tanh(self.xn(x) + r * self.hn(h))
        return n + z * (h - n)


class GateClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.LayerNorm(WIDTH)
        self.step = Gates()
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(HIDDEN, TAGS))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], HIDDEN, dtype=x.dtype)
        for value in self.scale(x).unbind(1):
            h = self.step(value, h)
        return self.head(h)


def port_gates(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "scale.weight": w["norm.weight"],
        "scale.bias": w["norm.bias"],
        "head.1.weight": w["fc.weight"],
        "head.1.bias": w["fc.bias"],
    }
    for kind, letter in (("ih", "x"), ("hh", "h")):
        for part in ("weight", "bias"):
            for gate, value in zip(("r", "z", "n"), w[f"gru.{part}_{kind}_l0"].chunk(3), strict=True):
                state[f"step.{letter}{gate}.{part}"] = value
    module = GateClassifier()
    module.load_state_dict(state)
    return module


TWINS = [
    Twin("tagger/lstm in a loop", Tagger, port_loop, words),
    Twin("tagger/gru gate by gate", Classifier, port_gates, series),
]
