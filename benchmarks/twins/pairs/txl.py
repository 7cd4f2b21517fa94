"""Transformer-XL as in its authors' code, with the shift trick, against relative positions that are gathered."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, SIZE, DEPTH, WORDS, FEED, TEXT, PAST = 24, 3, 8, 2, 37, 40, 6, 4


class PositionalEmbedding(nn.Module):
    def __init__(self, demb: int) -> None:
        super().__init__()
        self.demb = demb
        inv_freq = 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, pos_seq: Tensor) -> Tensor:
        sinusoid_inp = torch.outer(pos_seq, self.inv_freq)
        pos_emb = torch.cat([sinusoid_inp.sin(), sinusoid_inp.cos()], dim=-1)
        return pos_emb[:, None, :]


class PositionwiseFF(nn.Module):
    def __init__(self, d_model: int, d_inner: int, dropout: float) -> None:
        super().__init__()
        self.CoreNet = nn.Sequential(
            nn.Linear(d_model, d_inner),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(d_inner, d_model),
            nn.Dropout(dropout),
        )
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, inp: Tensor) -> Tensor:
        core_out = self.CoreNet(inp)
        return self.layer_norm(inp + core_out)


class RelativeAttention(nn.Module):
    def __init__(self, n_head: int, d_model: int, d_head: int, dropout: float) -> None:
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.drop = nn.Dropout(dropout)
        self.dropatt = nn.Dropout(dropout)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model)
        self.scale = 1 / (d_head**0.5)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)

    def _rel_shift(self, x: Tensor) -> Tensor:
        zero_pad = torch.zeros((x.size(0), 1, *x.size()[2:]), device=x.device, dtype=x.dtype)
        x_padded = torch.cat([zero_pad, x], dim=1)
        x_padded = x_padded.view(x.size(1) + 1, x.size(0), *x.size()[2:])
        return x_padded[1:].view_as(x)

    def forward(
        self, w: Tensor, r: Tensor, r_w_bias: Tensor, r_r_bias: Tensor, attn_mask: Tensor, mems: Tensor
    ) -> Tensor:
        qlen, rlen, bsz = w.size(0), r.size(0), w.size(1)
        cat = torch.cat([mems, w], 0)
        w_heads = self.qkv_net(cat)
        r_head_k = self.r_net(r)
        w_head_q, w_head_k, w_head_v = torch.chunk(w_heads, 3, dim=-1)
        w_head_q = w_head_q[-qlen:]
        klen = w_head_k.size(0)
        w_head_q = w_head_q.view(qlen, bsz, self.n_head, self.d_head)
        w_head_k = w_head_k.view(klen, bsz, self.n_head, self.d_head)
        w_head_v = w_head_v.view(klen, bsz, self.n_head, self.d_head)
        r_head_k = r_head_k.view(rlen, self.n_head, self.d_head)
        rw_head_q = w_head_q + r_w_bias
        ac = torch.einsum("ibnd,jbnd->ijbn", (rw_head_q, w_head_k))
        rr_head_q = w_head_q + r_r_bias
        bd = torch.einsum("ibnd,jnd->ijbn", (rr_head_q, r_head_k))
        bd = self._rel_shift(bd)
        attn_score = ac + bd
        attn_score.mul_(self.scale)
        attn_score = attn_score.masked_fill(attn_mask[:, :, :, None].bool(), -float("inf"))
        attn_prob = F.softmax(attn_score, dim=1)
        attn_prob = self.dropatt(attn_prob)
        attn_vec = torch.einsum("ijbn,jbnd->ibnd", (attn_prob, w_head_v))
        attn_vec = attn_vec.contiguous().view(attn_vec.size(0), attn_vec.size(1), self.n_head * self.d_head)
        attn_out = self.drop(self.o_net(attn_vec))
        return self.layer_norm(w + attn_out)


class DecoderLayer(nn.Module):
    def __init__(self, n_head: int, d_model: int, d_head: int, d_inner: int, dropout: float) -> None:
        super().__init__()
        self.dec_attn = RelativeAttention(n_head, d_model, d_head, dropout)
        self.pos_ff = PositionwiseFF(d_model, d_inner, dropout)

    def forward(
        self, dec_inp: Tensor, r: Tensor, r_w_bias: Tensor, r_r_bias: Tensor, dec_attn_mask: Tensor, mems: Tensor
    ) -> Tensor:
        output = self.dec_attn(dec_inp, r, r_w_bias, r_r_bias, attn_mask=dec_attn_mask, mems=mems)
        return self.pos_ff(output)


class MemTransformerLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_emb = nn.Embedding(WORDS, WIDTH)
        self.emb_scale = WIDTH**0.5
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList([DecoderLayer(HEADS, WIDTH, SIZE, FEED, 0.1) for _ in range(DEPTH)])
        self.pos_emb = PositionalEmbedding(WIDTH)
        self.r_w_bias = nn.Parameter(torch.zeros(HEADS, SIZE))
        self.r_r_bias = nn.Parameter(torch.zeros(HEADS, SIZE))
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, dec_inp: Tensor, mems: Tensor) -> tuple[Tensor, Tensor]:
        """Words [length, batch]; what was before [layers, past, batch, width]."""
        qlen, _ = dec_inp.size()
        word_emb = self.word_emb(dec_inp) * self.emb_scale
        mlen = mems[0].size(0)
        klen = mlen + qlen
        dec_attn_mask = torch.triu(word_emb.new_ones(qlen, klen), diagonal=1 + mlen).byte()[:, :, None]
        pos_seq = torch.arange(klen - 1, -1, -1.0, device=word_emb.device, dtype=word_emb.dtype)
        pos_emb = self.drop(self.pos_emb(pos_seq))
        core_out = self.drop(word_emb)
        hids = [core_out]
        for i, layer in enumerate(self.layers):
            core_out = layer(core_out, pos_emb, self.r_w_bias, self.r_r_bias, dec_attn_mask=dec_attn_mask, mems=mems[i])
            hids.append(core_out)
        new_mems = torch.stack([torch.cat([mems[i], hids[i]], 0)[-PAST:] for i in range(DEPTH)])
        return F.log_softmax(self.out(self.drop(core_out)), -1), new_mems


def inputs() -> tuple[Tensor, ...]:
    return torch.randint(0, WORDS, (TEXT, 2)), torch.randn(DEPTH, PAST, 2, WIDTH)


class Heads(nn.Module):
    """Attention with relative positions: x [batch, words, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.kv = nn.Linear(WIDTH, 2 * HEADS * SIZE, bias=False)
        self.pos = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.merge = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.u = nn.Parameter(torch.zeros(HEADS, 1, SIZE))
        self.v = nn.Parameter(torch.zeros(HEADS, 1, SIZE))

    def forward(self, x: Tensor, before: Tensor, waves: Tensor) -> Tensor:
        all_words = torch.cat([before, x], 1)
        n, m = x.shape[1], all_words.shape[1]
        q = self.q(x).unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
        k, v = self.kv(all_words).unflatten(-1, (2, HEADS, SIZE)).permute(2, 0, 3, 1, 4)
        r = self.pos(waves).unflatten(-1, (HEADS, SIZE)).transpose(0, 1)
        distance = torch.arange(m - n, m)[:, None] - torch.arange(m)
        by_distance = (q + self.v) @ r.mT
        index = distance.clamp(min=0).expand(q.shape[0], HEADS, n, m)
        scores = ((q + self.u) @ k.mT + by_distance.gather(-1, index)) / math.sqrt(SIZE)
        scores = torch.where(distance >= 0, scores, torch.tensor(float("-inf")))
        return self.merge((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm1 = Heads(), nn.LayerNorm(WIDTH)
        self.up, self.down, self.norm2 = nn.Linear(WIDTH, FEED), nn.Linear(FEED, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, before: Tensor, waves: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, before, waves))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class LongText(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.steps = nn.ModuleList(Step() for _ in range(DEPTH))
        self.to_words = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        x = self.words(ids.T) * math.sqrt(WIDTH)
        memory = memory.transpose(1, 2)
        rate = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        angle = torch.arange(x.shape[1] + memory.shape[2])[:, None] * rate
        waves = torch.cat([angle.sin(), angle.cos()], -1)
        kept = []
        for step, before in zip(self.steps, memory, strict=True):
            kept.append(torch.cat([before, x], 1)[:, -PAST:])
            x = step(x, before, waves)
        return self.to_words(x).log_softmax(-1).transpose(0, 1), torch.stack(kept).transpose(1, 2)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {f"to_words.{p}": w[f"out.{p}"] for p in ("weight", "bias")}
    state["words.weight"] = w["word_emb.weight"]
    for i in range(DEPTH):
        source, target = f"layers.{i}", f"steps.{i}"
        q, k, v = w[f"{source}.dec_attn.qkv_net.weight"].chunk(3)
        state |= {
            f"{target}.attention.q.weight": q,
            f"{target}.attention.kv.weight": torch.cat([k, v]),
            f"{target}.attention.pos.weight": w[f"{source}.dec_attn.r_net.weight"],
            f"{target}.attention.merge.weight": w[f"{source}.dec_attn.o_net.weight"],
            f"{target}.attention.u": w["r_w_bias"][:, None],
            f"{target}.attention.v": w["r_r_bias"][:, None],
        }
        for to, of in (
            ("norm1", "dec_attn.layer_norm"),
            ("up", "pos_ff.CoreNet.0"),
            ("down", "pos_ff.CoreNet.3"),
            ("norm2", "pos_ff.layer_norm"),
        ):
            state |= {f"{target}.{to}.{p}": w[f"{source}.{of}.{p}"] for p in ("weight", "bias")}
    module = LongText()
    module.load_state_dict(state)
    return module


TWINS = [Twin("txl/gathered positions", MemTransformerLM, port, inputs)]
