"""Translators of torch's recurrent layers and cells with attention, against those of TensorFlow's and Keras's gates."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HIDDEN, WORDS, TARGETS = 6, 5, 17, 19


class LuongTranslator(nn.Module):
    """Attends to the encoder's states by products; feeds the attentional state back."""

    def __init__(self) -> None:
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(WORDS, WIDTH), nn.Embedding(TARGETS, WIDTH)
        self.encoder = nn.LSTM(WIDTH, HIDDEN, batch_first=True)
        self.decoder = nn.LSTMCell(WIDTH + HIDDEN, HIDDEN)
        self.attn = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.combine = nn.Linear(2 * HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, TARGETS)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, (h, c) = self.encoder(self.src_embed(src))
        h, c, keys = h[0], c[0], self.attn(memory)
        attentional = torch.zeros_like(h)
        results = []
        for word in self.tgt_embed(tgt).unbind(1):
            h, c = self.decoder(torch.cat((word, attentional), dim=-1), (h, c))
            weights = torch.softmax((keys @ h[:, :, None])[..., 0], dim=-1)
            context = (weights[:, None] @ memory)[:, 0]
            attentional = torch.tanh(self.combine(torch.cat((context, h), dim=-1)))
            results.append(attentional)
        return self.out(torch.stack(results, dim=1))


def texts() -> tuple[Tensor, ...]:
    return torch.randint(0, WORDS, (2, 5)), torch.randint(0, TARGETS, (2, 4))


class BasicLSTMCell(nn.Module):
    """As in TensorFlow 1: one kernel for the input and the state, gates i, j, f and o, and a bias of 1 for f."""

    def __init__(self, size: int, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(size + HIDDEN, 4 * HIDDEN))
        self.bias = nn.Parameter(torch.zeros(4 * HIDDEN))
        self.forget_bias = forget_bias

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        c, h = state
        i, j, f, o = (torch.cat([inputs, h], 1) @ self.kernel + self.bias).split(HIDDEN, 1)
        new_c = c * torch.sigmoid(f + self.forget_bias) + torch.sigmoid(i) * torch.tanh(j)
        return new_c, torch.tanh(new_c) * torch.sigmoid(o)


class TensorFlowTranslator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Parameter(torch.empty(WORDS, WIDTH))
        self.target = nn.Parameter(torch.empty(TARGETS, WIDTH))
        self.read, self.write = BasicLSTMCell(WIDTH), BasicLSTMCell(WIDTH + HIDDEN)
        self.memory_layer = nn.Parameter(torch.empty(HIDDEN, HIDDEN))
        self.attention_layer = nn.Linear(2 * HIDDEN, HIDDEN)
        self.projection = nn.Linear(HIDDEN, TARGETS)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        c = h = torch.zeros(len(src), HIDDEN, dtype=self.source.dtype)
        states = []
        for t in range(src.shape[1]):
            c, h = self.read(self.source[src[:, t]], (c, h))
            states.append(h)
        memory = torch.stack(states, 1)
        keys = memory @ self.memory_layer
        attention, logits = torch.zeros_like(h), []
        for t in range(tgt.shape[1]):
            c, h = self.write(torch.cat([self.target[tgt[:, t]], attention], 1), (c, h))
            alignments = F.softmax(torch.einsum("bth,bh->bt", keys, h), -1)
            context = torch.einsum("bt,bth->bh", alignments, memory)
            attention = self.attention_layer(torch.cat([h, context], 1)).tanh()
            logits.append(self.projection(attention))
        return torch.stack(logits, 1)


def port_tensorflow(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    order = torch.cat([torch.arange(HIDDEN) + HIDDEN * gate for gate in (0, 2, 1, 3)])  # torch's are i, f, g, o
    out = {"source": w["src_embed.weight"], "target": w["tgt_embed.weight"], "memory_layer": w["attn.weight"].T}
    for to, of, suffix in (("read", "encoder", "_l0"), ("write", "decoder", "")):
        kernel = torch.cat([w[f"{of}.weight_ih{suffix}"], w[f"{of}.weight_hh{suffix}"]], dim=1)
        bias = w[f"{of}.bias_ih{suffix}"] + w[f"{of}.bias_hh{suffix}"]
        bias[HIDDEN : 2 * HIDDEN] -= 1
        out |= {f"{to}.kernel": kernel[order].T, f"{to}.bias": bias[order]}
    context, state = w["combine.weight"].chunk(2, dim=1)
    out |= {"attention_layer.weight": torch.cat([state, context], 1), "attention_layer.bias": w["combine.bias"]}
    out |= {"projection.weight": w["out.weight"], "projection.bias": w["out.bias"]}
    model = TensorFlowTranslator()
    model.load_state_dict(out)
    return model


class BahdanauTranslator(nn.Module):
    """Attends by a small network before each step of the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(WORDS, WIDTH), nn.Embedding(TARGETS, WIDTH)
        self.encoder = nn.GRU(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(HIDDEN, HIDDEN)
        self.key_layer = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.query_layer = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.energy_layer = nn.Linear(HIDDEN, 1, bias=False)
        self.decoder = nn.GRUCell(WIDTH + 2 * HIDDEN, HIDDEN)
        self.pre_output = nn.Linear(WIDTH + 3 * HIDDEN, TARGETS, bias=False)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, last = self.encoder(self.src_embed(src))
        h, keys = torch.tanh(self.bridge(last[1])), self.key_layer(memory)
        results = []
        for word in self.tgt_embed(tgt).unbind(1):
            energy = self.energy_layer(torch.tanh(self.query_layer(h)[:, None] + keys))
            context = (torch.softmax(energy, dim=1) * memory).sum(1)
            h = self.decoder(torch.cat((word, context), dim=-1), h)
            results.append(self.pre_output(torch.cat((word, h, context), dim=-1)))
        return torch.stack(results, dim=1)


class KerasGRU(nn.Module):
    """A step of Keras's GRU: kernels of the input and of the state, gates z, r and h, and two biases."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(size, 3 * HIDDEN))
        self.recurrent_kernel = nn.Parameter(torch.empty(HIDDEN, 3 * HIDDEN))
        self.bias = nn.Parameter(torch.zeros(2, 3 * HIDDEN))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        x_z, x_r, x_h = (x @ self.kernel + self.bias[0]).chunk(3, dim=-1)
        h_z, h_r, h_h = (h @ self.recurrent_kernel + self.bias[1]).chunk(3, dim=-1)
        z = torch.sigmoid(x_z + h_z)
        candidate = torch.tanh(x_h + torch.sigmoid(x_r + h_r) * h_h)
        return z * h + (1 - z) * candidate


class KerasTranslator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(TARGETS, WIDTH)
        self.forwards, self.backwards = KerasGRU(WIDTH), KerasGRU(WIDTH)
        self.start = nn.Linear(HIDDEN, HIDDEN)
        self.w1 = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.v = nn.Parameter(torch.empty(HIDDEN))
        self.gru = KerasGRU(WIDTH + 2 * HIDDEN)
        self.of_word, self.of_state = (nn.Linear(n, TARGETS, bias=False) for n in (WIDTH, HIDDEN))
        self.of_context = nn.Linear(2 * HIDDEN, TARGETS, bias=False)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ahead, back = x.new_zeros(2, len(x), HIDDEN)
        left, right = [], []
        for t in range(x.shape[1]):
            ahead, back = self.forwards(x[:, t], ahead), self.backwards(x[:, -1 - t], back)
            left, right = [*left, ahead], [back, *right]
        return torch.cat((torch.stack(left, 1), torch.stack(right, 1)), 2), back

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, last = self.encode(self.source(src))
        state, logits = self.start(last).tanh(), []
        for t in range(tgt.shape[1]):
            word = self.target(tgt[:, t])
            score = torch.tanh(self.w1(memory) + self.w2(state).unsqueeze(1)) @ self.v
            context = torch.bmm(score.softmax(-1).unsqueeze(1), memory).squeeze(1)
            state = self.gru(torch.cat((context, word), -1), state)
            logits.append(self.of_word(word) + self.of_state(state) + self.of_context(context))
        return torch.stack(logits, 1)


def port_keras(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    order = torch.cat([torch.arange(HIDDEN) + HIDDEN * gate for gate in (1, 0, 2)])  # torch's gates are r, z, n
    out = {"source.weight": w["src_embed.weight"], "target.weight": w["tgt_embed.weight"]}
    out |= {"w1.weight": w["key_layer.weight"], "w2.weight": w["query_layer.weight"], "v": w["energy_layer.weight"][0]}
    out |= {"start.weight": w["bridge.weight"], "start.bias": w["bridge.bias"]}
    for to, of, suffix in (
        ("forwards", "encoder", "_l0"),
        ("backwards", "encoder", "_l0_reverse"),
        ("gru", "decoder", ""),
    ):
        kernel = w[f"{of}.weight_ih{suffix}"][order]
        if to == "gru":
            kernel = kernel.roll(2 * HIDDEN, dims=1)  # the context comes first
        out[f"{to}.kernel"] = kernel.T
        out[f"{to}.recurrent_kernel"] = w[f"{of}.weight_hh{suffix}"][order].T
        out[f"{to}.bias"] = torch.stack([w[f"{of}.bias_{kind}{suffix}"][order] for kind in ("ih", "hh")])
    parts = w["pre_output.weight"].split((WIDTH, HIDDEN, 2 * HIDDEN), dim=1)
    out |= {f"of_{name}.weight": part for name, part in zip(("word", "state", "context"), parts, strict=True)}
    model = KerasTranslator()
    model.load_state_dict(out)
    return model


TWINS = [
    Twin("seq2seq/tensorflow cells", LuongTranslator, port_tensorflow, texts),
    Twin("seq2seq/keras gru", BahdanauTranslator, port_keras, texts),
]
