"""Ports that have multiplied a scale into the weights of a product, which the reference computes elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import SKIPPED

WIDTH, HEADS = 12, 2
SCALE = (WIDTH // HEADS) ** -0.5


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.query, self.key, self.value))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = Attention(), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attention(x).relu())  # type: ignore[no-any-return]


class Port(nn.Module):
    """Doesn't scale the product of queries and keys: the weights of the queries are scaled."""

    def __init__(self, like: Network) -> None:
        super().__init__()
        self.q, self.k, self.v, self.last = *(nn.Linear(WIDTH, WIDTH) for _ in range(3)), nn.Linear(WIDTH, 5)
        own, attention = (self.q, self.k, self.v, self.last), like.attention
        for layer, truth in zip(own, (attention.query, attention.key, attention.value, like.out), strict=True):
            layer.load_state_dict(truth.state_dict())
        self.q.weight.data *= SCALE
        self.q.bias.data *= SCALE
        self.dim = -1

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = (q @ k.mT).softmax(self.dim) @ v
        return self.last(F.relu(y.transpose(1, 2).reshape(x.shape)))  # type: ignore[no-any-return]


def compared(change: Callable[[Port], None] = lambda port: None) -> Report:
    torch.manual_seed(0)
    reference = Network()
    port = Port(reference)
    change(port)
    return parity.compare(reference, port, torch.randn(2, 4, WIDTH, requires_grad=True))


def test_a_factor_in_weights_has_its_cell_and_gradients() -> None:
    report = compared()
    assert report.ok, str(report)
    assert "parameters" not in report.conditions_in_words  # the gradients of all were compared
    assert report.cells["attention.query"].comparisons
    (note,) = [note for note in report.notes if "factor" in note]
    assert "attention.query.weight * 0.4082" in note


def doubled(port: Port) -> None:
    port.v.weight.data *= 2
    port.v.bias.data *= 2


def doubled_without_bias(port: Port) -> None:
    port.v.weight.data *= 2


def scaled_without_bias(port: Port) -> None:
    port.q.bias.data /= SCALE


def over_keys(port: Port) -> None:
    port.dim = -2


def frozen(port: Port) -> None:
    port.q.requires_grad_(False)


def half_frozen(port: Port) -> None:
    port.q.weight.requires_grad_(False)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (doubled, "attention.value"),
        (doubled_without_bias, "attention.value"),
        (scaled_without_bias, "attention.query"),
        (over_keys, "attention"),
        (frozen, "attention.query"),
    ],
)
def test_faults_aren_t_taken_for_a_factor(change: Callable[[Port], None], failing: str) -> None:
    report = compared(change)
    assert set(report.failing) == {failing}, str(report)


def test_gradients_of_weights_trained_in_part_aren_t_said_to_agree() -> None:
    report = compared(half_frozen)
    assert not report.cells["attention.query"].comparisons
    assert report.conditions_in_words == ["with the gradients of 6 of 8 parameters"]


class Words(nn.Module):
    """Scales what an embedding returns; its port has the scale in the table."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.embed, self.last, self.scale = nn.Embedding(7, 5), nn.Linear(5, 3), scale

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.embed(x) * self.scale)  # type: ignore[no-any-return]


class TableOfWords(nn.Module):
    def __init__(self, like: Words, factor: float) -> None:
        super().__init__()
        self.table, self.out = nn.Parameter(like.embed.weight.detach() * factor), nn.Linear(5, 3)
        self.out.load_state_dict(like.last.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.embedding(x, self.table))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("factor", "failing"), [(5**0.5, set()), (1.5, {""})])
def test_a_factor_in_a_table(factor: float, failing: set[str]) -> None:
    torch.manual_seed(0)
    reference = Words(5**0.5)
    report = parity.compare(reference, TableOfWords(reference, factor), torch.arange(6).view(2, 3), probe=False)
    assert set(report.failing) == failing, str(report)
    assert report.cells["embed"].comparisons
    assert failing or "parameters" not in report.conditions_in_words


class Equalised(nn.Module):
    """Layers that scale their weights, and their results; the last has its filters behind an axis of one place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.filters = nn.Parameter(torch.randn(1, 3, WIDTH, 1))

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.first, self.second):
            x = F.leaky_relu(F.linear(x, layer.weight * SCALE, layer.bias * 0.5), 0.2) * 2**0.5
        return F.conv1d(x[:, :, None], (self.filters * SCALE)[0]).sin()


class Plain(nn.Module):
    """Has the scales in its weights, and in the biases those of the results, too."""

    def __init__(self, like: Equalised) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2)
        )
        for own, layer in zip((self.layers[0], self.layers[2]), (like.first, like.second), strict=True):
            own.weight.data, own.bias.data = layer.weight.detach() * SCALE * 2**0.5, layer.bias.detach() * 0.5 * 2**0.5
        self.last = nn.Conv1d(WIDTH, 3, 1, bias=False)
        self.last.weight.data = like.filters.detach()[0] * SCALE

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x).unsqueeze(-1)).sin()  # type: ignore[no-any-return]


def test_scales_of_weights_and_of_results_may_be_in_the_weights() -> None:
    torch.manual_seed(0)
    reference = Equalised()
    report = parity.compare(reference, Plain(reference), torch.randn(4, WIDTH), probe=False)
    assert report.ok, str(report)
    comparisons = [c for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"]
    judged = {c.tensor for c in comparisons if c.status != SKIPPED}
    assert judged == {name for name, _ in reference.named_parameters()}
