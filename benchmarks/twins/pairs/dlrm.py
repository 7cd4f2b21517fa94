"""DLRM as in its authors' code, with bags of embeddings, against one table and products of all pairs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

DENSE, SIZE, TABLES, BATCH = 7, 6, (11, 8, 13), 5


class Dlrm(nn.Module):
    def create_mlp(self, ln, sigmoid_layer):
        layers = nn.ModuleList()
        for i in range(len(ln) - 1):
            layers.append(nn.Linear(ln[i], ln[i + 1], bias=True))
            layers.append(nn.Sigmoid() if i == sigmoid_layer else nn.ReLU())
        return nn.Sequential(*layers)

    def __init__(self):
        super().__init__()
        self.emb_l = nn.ModuleList([nn.EmbeddingBag(n, SIZE, mode="sum") for n in TABLES])
        self.bot_l = self.create_mlp([DENSE, 10, SIZE], -1)
        features = len(TABLES) + 1
        self.top_l = self.create_mlp([features * (features - 1) // 2 + SIZE, 9, 1], 1)

    def apply_emb(self, offsets, indices, emb_l):
        return [table(i, o) for table, i, o in zip(emb_l, indices, offsets, strict=True)]

    def interact_features(self, x, ly):
        (batch_size, d) = x.shape
        t = torch.cat([x, *ly], dim=1).view((batch_size, -1, d))
        z = torch.bmm(t, torch.transpose(t, 1, 2))
        _, ni, nj = z.shape
        li = torch.tensor([i for i in range(ni) for j in range(i)])
        lj = torch.tensor([j for i in range(nj) for j in range(i)])
        flat = z[:, li, lj]
        return torch.cat([x, flat], dim=1)

    def forward(self, dense_x, offsets, indices):
        x = self.bot_l(dense_x)
        ly = self.apply_emb(offsets, indices, self.emb_l)
        z = self.interact_features(x, ly)
        return self.top_l(z)


def inputs() -> tuple[Tensor, ...]:
    offsets = torch.stack([torch.arange(0, 2 * BATCH, 2) for _ in TABLES])
    indices = torch.stack([torch.randint(0, n, (2 * BATCH,)) for n in TABLES])
    return torch.randn(BATCH, DENSE), offsets, indices


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(sum(TABLES), SIZE))
        self.starts = [sum(TABLES[:n]) for n in range(len(TABLES))]
        self.bottom1, self.bottom2 = nn.Linear(DENSE, 10), nn.Linear(10, SIZE)
        pairs = (len(TABLES) + 1) * len(TABLES) // 2
        self.top1, self.top2 = nn.Linear(SIZE + pairs, 9), nn.Linear(9, 1)

    def forward(self, dense: Tensor, offsets: Tensor, indices: Tensor) -> Tensor:
        x = self.bottom2(self.bottom1(dense).relu()).relu()
        place = torch.arange(indices.shape[1])
        bag = (place[None, :, None] >= offsets[:, None]).sum(-1) - 1
        rows = self.table[indices + torch.tensor(self.starts)[:, None]]
        bags = torch.zeros(len(TABLES), BATCH, SIZE, dtype=rows.dtype)
        bags = bags.scatter_add(1, bag[..., None].expand_as(rows), rows)
        vectors = torch.cat([x[:, None], bags.transpose(0, 1)], 1)
        products = torch.einsum("bif,bjf->bij", vectors, vectors)
        i, j = torch.tril_indices(len(TABLES) + 1, len(TABLES) + 1, -1)
        joined = torch.cat([products[:, i, j], x], -1)
        return torch.sigmoid(self.top2(self.top1(joined).relu()))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"table": torch.cat([w[f"emb_l.{i}.weight"] for i in range(len(TABLES))])}
    for to, of in (("bottom1", "bot_l.0"), ("bottom2", "bot_l.2"), ("top1", "top_l.0"), ("top2", "top_l.2")):
        state |= {f"{to}.{part}": w[f"{of}.{part}"] for part in ("weight", "bias")}
    state["top1.weight"] = torch.cat([w["top_l.0.weight"][:, SIZE:], w["top_l.0.weight"][:, :SIZE]], 1)
    module = Ranker()
    module.load_state_dict(state)
    return module


TWINS = [Twin("dlrm/one table", Dlrm, port, inputs)]
