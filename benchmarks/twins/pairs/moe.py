"""A mixture of experts as in Mixtral, against one that runs all experts at once and weights them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, INNER, EXPERTS, CHOSEN, DEPTH, CLASSES = 12, 16, 4, 2, 2, 5


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, INNER, bias=False)
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, INNER, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(self.act_fn(self.w1(x)) * self.w3(x))


class Router(nn.Module):
    """Returns the logits, the weights of the chosen experts, and which they are."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.gate(x)
        weights, chosen = torch.topk(F.softmax(logits, dim=-1), CHOSEN, dim=-1)
        return logits, weights / weights.sum(dim=-1, keepdim=True), chosen


class SparseMoeBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = Router()
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        flat = hidden.reshape(-1, WIDTH)
        logits, weights, chosen = self.router(flat)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number)).sum(-1, keepdim=True)
            result = result + share * expert(flat)
        return result.reshape(hidden.shape), logits


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.mixer = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH)
        self.post_layernorm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.block_sparse_moe = SparseMoeBlock()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mixed = self.mixer(self.input_layernorm(x).transpose(1, 2))[..., : x.shape[1]]
        x = x + mixed.transpose(1, 2)
        hidden, logits = self.block_sparse_moe(self.post_layernorm(x))
        return x + hidden, logits


class SparseNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        losses = []
        for layer in self.layers:
            x, logits = layer(x)
            losses.append(torch.logsumexp(logits, dim=-1).square().mean())
        return {"logits": self.head(x), "router_loss": torch.stack(losses).sum()}


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 7, WIDTH),)


class DenseExperts(nn.Module):
    """All experts in three tensors; what isn't chosen has the weight 0."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = nn.Parameter(torch.empty(WIDTH, EXPERTS))
        self.wide = nn.Parameter(torch.empty(EXPERTS, WIDTH, 2 * INNER))
        self.narrow = nn.Parameter(torch.empty(EXPERTS, INNER, WIDTH))

    def route(self, x: Tensor) -> Tensor:
        scores = x @ self.choose
        best = scores.topk(CHOSEN, dim=-1)
        return torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        gate, up = torch.einsum("btd,edf->ebtf", x, self.wide).chunk(2, dim=-1)
        each = torch.einsum("ebtf,efd->ebtd", F.silu(gate) * up, self.narrow)
        return torch.einsum("bte,ebtd->btd", self.route(x), each)


class DenseLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(2))
        self.causal = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH)
        self.experts = DenseExperts()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.causal(F.pad(self.norms[0](x).mT, (2, 0))).mT
        return x + self.experts(self.norms[1](x))


class DenseNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*(DenseLayer() for _ in range(DEPTH)))
        self.classify = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"classify.weight": w["head.weight"], "classify.bias": w["head.bias"]}
    for i in range(DEPTH):
        target, source = f"body.{i}", f"layers.{i}"
        moe = f"{source}.block_sparse_moe"
        gate, down, up = (
            torch.stack([w[f"{moe}.experts.{e}.w{n}.weight"].T for e in range(EXPERTS)]) for n in (1, 2, 3)
        )
        state |= {
            f"{target}.norms.0.weight": w[f"{source}.input_layernorm.weight"],
            f"{target}.norms.1.weight": w[f"{source}.post_layernorm.weight"],
            f"{target}.causal.weight": w[f"{source}.mixer.weight"],
            f"{target}.causal.bias": w[f"{source}.mixer.bias"],
            f"{target}.experts.choose": w[f"{moe}.router.gate.weight"].T,
            f"{target}.experts.wide": torch.cat((gate, up), dim=-1),
            f"{target}.experts.narrow": down,
        }
    module = DenseNetwork()
    module.load_state_dict(state)
    return module


TWINS = [Twin("moe/dense", SparseNetwork, port, inputs)]
