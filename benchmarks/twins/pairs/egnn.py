"""EGNN as published, against one that transforms nodes before it gathers them, and adds messages by index."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

FEATURES, HIDDEN, LAYERS, NODES = 4, 6, 2, 5
EDGES = [(i, j) for i in range(NODES) for j in range(NODES) if (i + 2 * j) % 5 and i != j]


def unsorted_segment_sum(data: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    result = data.new_full((num_segments, data.size(1)), 0)
    segment_ids = segment_ids.unsqueeze(-1).expand(-1, data.size(1))
    result.scatter_add_(0, segment_ids, data)
    return result


def unsorted_segment_mean(data: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    segment_ids = segment_ids.unsqueeze(-1).expand(-1, data.size(1))
    result = data.new_full((num_segments, data.size(1)), 0)
    count = data.new_full((num_segments, data.size(1)), 0)
    result.scatter_add_(0, segment_ids, data)
    count.scatter_add_(0, segment_ids, torch.ones_like(data))
    return result / count.clamp(min=1)


class E_GCL(nn.Module):  # noqa: N801
    def __init__(self, input_nf: int, output_nf: int, hidden_nf: int) -> None:
        super().__init__()
        self.edge_mlp = nn.Sequential(
            nn.Linear(2 * input_nf + 1, hidden_nf), nn.SiLU(), nn.Linear(hidden_nf, hidden_nf), nn.SiLU()
        )
        self.node_mlp = nn.Sequential(
            nn.Linear(hidden_nf + input_nf, hidden_nf), nn.SiLU(), nn.Linear(hidden_nf, output_nf)
        )
        layer = nn.Linear(hidden_nf, 1, bias=False)
        self.coord_mlp = nn.Sequential(nn.Linear(hidden_nf, hidden_nf), nn.SiLU(), layer)
        self.att_mlp = nn.Sequential(nn.Linear(hidden_nf, 1), nn.Sigmoid())

    def edge_model(self, source: Tensor, target: Tensor, radial: Tensor) -> Tensor:
        out = self.edge_mlp(torch.cat([source, target, radial], dim=1))
        return out * self.att_mlp(out)

    def node_model(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        agg = unsorted_segment_sum(edge_attr, edge_index[0], num_segments=x.size(0))
        return x + self.node_mlp(torch.cat([x, agg], dim=1))

    def coord_model(self, coord: Tensor, edge_index: Tensor, coord_diff: Tensor, edge_feat: Tensor) -> Tensor:
        trans = coord_diff * self.coord_mlp(edge_feat)
        return coord + unsorted_segment_mean(trans, edge_index[0], num_segments=coord.size(0))

    def forward(self, h: Tensor, edge_index: Tensor, coord: Tensor) -> tuple[Tensor, Tensor]:
        row, col = edge_index
        coord_diff = coord[row] - coord[col]
        radial = torch.sum(coord_diff**2, 1).unsqueeze(1)
        edge_feat = self.edge_model(h[row], h[col], radial)
        coord = self.coord_model(coord, edge_index, coord_diff, edge_feat)
        return self.node_model(h, edge_index, edge_feat), coord


class EGNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n_layers = LAYERS
        self.embedding_in, self.embedding_out = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, 3)
        for i in range(LAYERS):
            self.add_module(f"gcl_{i}", E_GCL(HIDDEN, HIDDEN, HIDDEN))

    def forward(self, h: Tensor, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        h = self.embedding_in(h)
        for i in range(self.n_layers):
            h, x = self._modules[f"gcl_{i}"](h, edges, x)
        return self.embedding_out(h), x


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(NODES, FEATURES), torch.randn(NODES, 3), torch.tensor(EDGES).T


class MessageLayer(nn.Module):
    """The first layer of the messages is applied to nodes, which are fewer than edges."""

    def __init__(self) -> None:
        super().__init__()
        self.receiver, self.sender = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.distance = nn.Parameter(torch.zeros(HIDDEN))
        self.message, self.gate = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        self.move = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 1, bias=False))
        self.own, self.received = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.update = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, nodes: Tensor, places: Tensor, to: Tensor, of: Tensor) -> tuple[Tensor, Tensor]:
        away = places.index_select(0, to) - places.index_select(0, of)
        squared = (away * away).sum(-1, keepdim=True)
        m = self.receiver(nodes).index_select(0, to) + self.sender(nodes).index_select(0, of) + squared * self.distance
        m = nn.functional.silu(self.message(nn.functional.silu(m)))
        m = m * self.gate(m).sigmoid()
        sums = torch.zeros_like(nodes).index_add(0, to, m)
        degree = torch.zeros_like(places[:, 0]).index_add(0, to, torch.ones_like(squared[:, 0]))
        moves = torch.zeros_like(places).index_add(0, to, self.move(m) * away) / degree.clamp(min=1)[:, None]
        nodes = nodes + self.update(nn.functional.silu(self.own(nodes) + self.received(sums)))
        return nodes, places + moves


class MessagePassing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, 3)
        self.layers = nn.ModuleList(MessageLayer() for _ in range(LAYERS))

    def forward(self, features: Tensor, places: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        to, of = edges.unbind(0)
        nodes = self.encode(features)
        for layer in self.layers:
            nodes, places = layer(nodes, places, to, of)
        return self.decode(nodes), places


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def linear(to: str, of: str) -> None:
        state.update({f"{to}.{part}": w[f"{of}.{part}"] for part in ("weight", "bias") if f"{of}.{part}" in w})

    linear("encode", "embedding_in")
    linear("decode", "embedding_out")
    for i in range(LAYERS):
        to, of = f"layers.{i}", f"gcl_{i}"
        receiver, sender, distance = w[f"{of}.edge_mlp.0.weight"].split((HIDDEN, HIDDEN, 1), dim=1)
        state[f"{to}.receiver.weight"], state[f"{to}.receiver.bias"] = receiver, w[f"{of}.edge_mlp.0.bias"]
        state[f"{to}.sender.weight"], state[f"{to}.distance"] = sender, distance[:, 0]
        linear(f"{to}.message", f"{of}.edge_mlp.2")
        linear(f"{to}.gate", f"{of}.att_mlp.0")
        linear(f"{to}.move.0", f"{of}.coord_mlp.0")
        linear(f"{to}.move.2", f"{of}.coord_mlp.2")
        state[f"{to}.own.weight"], state[f"{to}.received.weight"] = w[f"{of}.node_mlp.0.weight"].chunk(2, dim=1)
        state[f"{to}.own.bias"] = w[f"{of}.node_mlp.0.bias"]
        linear(f"{to}.update", f"{of}.node_mlp.2")
    module = MessagePassing()
    module.load_state_dict(state)
    return module


TWINS = [Twin("egnn/by index", EGNN, port, inputs)]
