"""Networks with their initial weights, of which many are 1 or 0: gains and biases change nothing, and are alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity

WIDTH, SIZE = 8, 5


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)  # whose biases are all 0 at first

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(x, x, x, need_weights=False)[0]


class Linears(nn.Module):
    """The same with a layer for each of queries, keys and values."""

    def __init__(self, reference: Attention) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        weights = [*reference.attention.in_proj_weight.chunk(3), reference.attention.out_proj.weight]
        biases = [*reference.attention.in_proj_bias.chunk(3), reference.attention.out_proj.bias]
        with torch.no_grad():
            for layer, weight, bias in zip(self.layers, weights, biases, strict=True):
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (2, -1)).transpose(1, 2) for layer in self.layers[:3])
        return x + self.layers[3](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.ln, self.head = nn.LayerNorm(4), nn.Linear(4, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        return self.head(self.ln(x.permute(0, 2, 3, 1)).mean((1, 2)))


class Folded(nn.Module):
    """The same with its batch norm in the convolution, and a norm with channels first."""

    def __init__(self, reference: Convolutions) -> None:
        super().__init__()
        norm, ln = reference.norm, reference.ln
        gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        self.stem = nn.Conv2d(3, 4, 3)
        self.gain, self.offset = (nn.Parameter(p.detach().view(-1, 1, 1).clone()) for p in (ln.weight, ln.bias))
        self.out = nn.Linear(4, SIZE)
        with torch.no_grad():
            self.stem.weight.copy_(reference.conv.weight * gain.view(-1, 1, 1, 1))
            self.stem.bias.copy_(norm.bias - norm.running_mean * gain)
            self.out.load_state_dict(reference.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        return self.out((x * self.gain + self.offset).mean((2, 3)))


def require_all_gradients(reference: nn.Module, port: nn.Module, x: Tensor) -> None:
    report = parity.compare(reference.eval(), port.eval(), (x,))
    assert report.ok, str(report)
    gradients = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert gradients == dict(reference.named_parameters()).keys(), str(report)


def test_biases_of_zeros_are_paired_as_their_weights() -> None:
    torch.manual_seed(0)
    reference = Attention()
    require_all_gradients(reference, Linears(reference), torch.randn(2, SIZE, WIDTH))


@pytest.mark.slow
def test_new_norms_are_found_folded_and_in_another_layout() -> None:
    torch.manual_seed(0)
    reference = Convolutions()
    require_all_gradients(reference, Folded(reference), torch.randn(2, 3, 6, 6))


class ChannelsLast(nn.Module):
    """The convolution and its batch norm as a factor and a summand, which is 0 at first, for channels that lie last."""

    def __init__(self, reference: nn.Sequential) -> None:
        super().__init__()
        norm = reference[1]
        self.kernel = nn.Parameter(reference[0].weight.detach().permute(2, 3, 1, 0).clone())
        self.gamma, self.beta = (nn.Parameter(p.detach().clone()) for p in (norm.weight, norm.bias))
        self.register_buffer("mean", norm.running_mean.clone())  # type: ignore[union-attr, operator]
        self.register_buffer("variance", norm.running_var.clone())  # type: ignore[union-attr, operator]

    def forward(self, x: Tensor) -> Tensor:
        x = F.conv2d(x, self.kernel.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)
        scale = self.gamma * torch.rsqrt(self.variance + 1e-5)
        return F.relu(x * scale + (self.beta - self.mean * scale)).permute(0, 3, 1, 2)


def test_a_summand_of_zeros_that_is_computed_belongs_to_its_norm() -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    require_all_gradients(reference, ChannelsLast(reference), torch.randn(2, 3, 6, 5))


class Reordered(nn.Module):
    """Two convolutions around a norm, whose channels lie in another order."""

    def __init__(self, reference: nn.Sequential, order: list[int]) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3)
        self.first.weight.data = reference[0].weight.data[order]  # type: ignore[index, assignment]
        self.last.weight.data = reference[3].weight.data[:, order]  # type: ignore[index, assignment]
        self.last.bias = reference[3].bias  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).flatten(2).movedim(1, 2).relu()
        return self.last(x.movedim(2, 1).unflatten(2, (6, 5)))  # type: ignore[no-any-return]


@pytest.mark.slow
def test_gradients_of_equal_numbers_aren_t_compared_where_channels_have_another_order() -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3)).eval()
    report = parity.compare(reference, Reordered(reference, [2, 0, 3, 1]).eval(), (torch.randn(2, 3, 8, 7),))
    assert report.ok, str(report)
    assert not [c for c in report.cells["1"].comparisons if c.kind == "parameter gradient"], str(report)
