"""GAT on a dense matrix of edges, a head for each module, against all heads at once with split attention vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

FEATURES, HIDDEN, CLASSES, HEADS, NODES = 9, 6, 4, 3, 8


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, dropout, alpha, concat=True):
        super().__init__()
        self.dropout = dropout
        self.out_features = out_features
        self.concat = concat
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        wh = torch.mm(h, self.W)
        e = self._prepare_attentional_mechanism_input(wh)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        attention = F.dropout(attention, self.dropout, training=self.training)
        h_prime = torch.matmul(attention, wh)
        return F.elu(h_prime) if self.concat else h_prime

    def _prepare_attentional_mechanism_input(self, wh):
        wh1 = torch.matmul(wh, self.a[: self.out_features, :])
        wh2 = torch.matmul(wh, self.a[self.out_features :, :])
        return self.leakyrelu(wh1 + wh2.T)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = 0.6
        self.attentions = [GraphAttentionLayer(FEATURES, HIDDEN, 0.6, 0.2, concat=True) for _ in range(HEADS)]
        for i, attention in enumerate(self.attentions):
            self.add_module(f"attention_{i}", attention)
        self.out_att = GraphAttentionLayer(HIDDEN * HEADS, CLASSES, 0.6, 0.2, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, training=self.training)
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        x = F.dropout(x, self.dropout, training=self.training)
        x = F.elu(self.out_att(x, adj))
        return F.log_softmax(x, dim=1)


def inputs() -> tuple[Tensor, ...]:
    edges = (torch.rand(NODES, NODES) < 0.4).float()
    return torch.randn(NODES, FEATURES), torch.maximum(edges, torch.eye(NODES))


class Attend(nn.Module):
    """All heads of a layer: [nodes, size] to [nodes, heads, out]."""

    def __init__(self, size: int, heads: int, out: int) -> None:
        super().__init__()
        self.project = nn.Parameter(torch.zeros(size, heads, out))
        self.target = nn.Parameter(torch.zeros(heads, out))
        self.source = nn.Parameter(torch.zeros(heads, out))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        y = torch.einsum("ni,iho->nho", x, self.project)
        to, source = (torch.einsum("nho,ho->nh", y, vector) for vector in (self.target, self.source))
        scores = F.leaky_relu(to[:, None] + source[None], 0.2)
        scores = scores.masked_fill(edges[..., None] == 0, float("-inf"))
        return torch.einsum("nmh,mho->nho", scores.softmax(dim=1), y)


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Attend(FEATURES, HEADS, HIDDEN), Attend(HEADS * HIDDEN, 1, CLASSES)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        x = F.elu(self.first(nodes, edges)).flatten(1)
        return F.elu(self.second(x, edges)[:, 0]).log_softmax(-1)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {}
    for to, sources in (("first", [f"attention_{i}" for i in range(HEADS)]), ("second", ["out_att"])):
        state[f"{to}.project"] = torch.stack([w[f"{name}.W"] for name in sources], 1)
        vectors = torch.stack([w[f"{name}.a"][:, 0] for name in sources])
        state[f"{to}.target"], state[f"{to}.source"] = vectors.chunk(2, 1)
    module = Graph()
    module.load_state_dict(state)
    return module


TWINS = [Twin("gat/heads at once", GAT, port, inputs)]
