"""GraphSAGE over a list of edges (mean of messages by index) against products with an adjacency matrix."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

NODES, FEATURES, HIDDEN, CLASSES = 9, 6, 10, 3


class SAGEConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin_l = nn.Linear(in_channels, out_channels, bias=True)
        self.lin_r = nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        messages = x[src]
        out = torch.zeros(x.size(0), x.size(1), dtype=x.dtype).index_add(0, dst, messages)
        count = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, dst, torch.ones(dst.size(0), dtype=x.dtype))
        out = out / count.clamp(min=1).unsqueeze(-1)
        return self.lin_l(out) + self.lin_r(x)


class SAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(FEATURES, HIDDEN), SAGEConv(HIDDEN, HIDDEN), SAGEConv(HIDDEN, CLASSES)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(HIDDEN), nn.BatchNorm1d(HIDDEN)])
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, edge_index):
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = self.norms[i](x)
                x = F.relu(x)
                x = self.dropout(x)
        return F.log_softmax(x, dim=-1)


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(NODES, FEATURES), torch.randint(0, NODES, (2, 20))


class Neighbours(nn.Module):
    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * n_in, n_out)

    def forward(self, h: Tensor, mean: Tensor) -> Tensor:
        return self.both(torch.cat([h, mean @ h], dim=-1))


class DenseSage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = [FEATURES, HIDDEN, HIDDEN, CLASSES]
        self.layers = nn.ModuleList(Neighbours(a, b) for a, b in pairwise(sizes))
        self.bn1, self.bn2 = nn.BatchNorm1d(HIDDEN), nn.BatchNorm1d(HIDDEN)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        count = F.one_hot(edges[1], NODES).T.to(x.dtype) @ F.one_hot(edges[0], NODES).to(x.dtype)
        mean = count / count.sum(1, keepdim=True).clamp(min=1)
        x = F.relu(self.bn1(self.layers[0](x, mean)))
        x = F.relu(self.bn2(self.layers[1](x, mean)))
        x = self.layers[2](x, mean)
        return x - x.logsumexp(-1, keepdim=True)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {}
    for i in range(3):
        out[f"layers.{i}.both.weight"] = torch.cat([w[f"convs.{i}.lin_r.weight"], w[f"convs.{i}.lin_l.weight"]], 1)
        out[f"layers.{i}.both.bias"] = w[f"convs.{i}.lin_l.bias"]
    for i in range(2):
        for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            out[f"bn{i + 1}.{kind}"] = w[f"norms.{i}.{kind}"]
    model = DenseSage()
    model.load_state_dict(out)
    return model


TWINS = [Twin("sage/adjacency", SAGE, port, inputs)]
