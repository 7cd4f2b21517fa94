"""Faults of ports of language models."""

from __future__ import annotations

from fixtures.planted_faults.cases import ANY_NAME
from fixtures.planted_faults.port_edits import fault, inside

from .kinds import ANY_KIND, BOTH, weight

H = "transformer.h.0 transformer.h.1"
BERT = "encoder.layer.0 encoder.layer.1"
BERT_NORMS = f"{inside(BERT, 'attention.output.LayerNorm')} {inside(BERT, 'output.LayerNorm')}"
LLAMA = "model.layers.0 model.layers.1"
T5_FEEDS = (
    "encoder.block.0.layer.1.DenseReluDense encoder.block.1.layer.1.DenseReluDense "
    "decoder.block.0.layer.2.DenseReluDense decoder.block.1.layer.2.DenseReluDense"
)
T5_ATTENTIONS = " ".join(
    [f"{side}.block.{i}.layer.0.SelfAttention" for side in ("encoder", "decoder") for i in (0, 1)]
    + [f"decoder.block.{i}.layer.1.EncDecAttention" for i in (0, 1)]
)
MOE = "layers.0.block_sparse_moe layers.1.block_sparse_moe"
MOE_DOWN = " ".join(inside(MOE, f"experts.{number}.w2") for number in range(4))
MAMBA = "backbone.layers.0 backbone.layers.1"
DECODER_LAYERS = "transformer.decoder.layers.0 transformer.decoder.layers.1"
LAYERS = "layers.0 layers.1"
NEOX = "gpt_neox.layers.0 gpt_neox.layers.1"
OPT = "model.decoder.layers.0 model.decoder.layers.1"
CHAT = inside("h.0 h.1", "attn")
ALBERT = "encoder.albert_layer_groups.0.albert_layers.0"
BLOOM = "transformer.h.0 transformer.h.1"
PHI = "model.layers.0 model.layers.1"

ALSO_RIGHT = {
    ("gpt2/split", "q and k exchanged"): inside(H, "attn"),
    ("llama/complex rotary", "rows of the keys not permuted"): inside(LLAMA, "self_attn"),
    ("llama/fused", "gate and up exchanged"): inside(LLAMA, "mlp"),
    ("t5/fused", "gate and up exchanged"): T5_FEEDS,
    ("decoders/neox split", "q, k and v one after the other"): inside(NEOX, "attention"),
    ("translator/annotated", "scale of the embeddings left out"): "tgt_embed",
    ("falcon/grouped", "q, k and v one after the other"): inside(H, "self_attention"),
    ("mixtral/dense", "softmax over all experts, not renormalized"): inside(LLAMA, "mlp"),
    ("retnet/recurrent", "q and k exchanged"): inside(LAYERS, "retention"),
    ("nanochat/norm first", "rows in pairs as if turned forwards"): CHAT,
    ("txl/gathered positions", "biases of content and position exchanged"): inside(LAYERS, "dec_attn"),
    ("bloom/distances", "slopes one step too large"): "transformer",
    ("bloom/distances", "q, k and v as three blocks"): inside(BLOOM, "self_attention"),
    ("phi/fused", "k and v exchanged"): inside(PHI, "self_attn"),
}

FAULTS = [
    fault("gpt2/linear", "gelu of the other kind", inside(H, "mlp.act"), ", approximate=\"tanh\"", "", "gelu",
          "gelu|erf", kind=BOTH),
    weight("gpt2/linear", "square matrix not transposed", inside(H, "attn.c_proj"),
           "state[f\"blocks.{i}.{target}.weight\"] = w[f\"transformer.h.{i}.{source}.weight\"].T",
           "matrix = w[f\"transformer.h.{i}.{source}.weight\"]\n"
           "            state[f\"blocks.{i}.{target}.weight\"] = "
           "matrix if matrix.shape[0] == matrix.shape[1] else matrix.T",
           "transposed"),
    fault("gpt2/split", "mask left out", inside(H, "attn"), ", is_causal=True", "", "mask", "mask|causal", kind=BOTH),
    weight("gpt2/split", "q and k exchanged", inside(H, "attn.c_attn"), "q, k, v = w[f\"h.{i}.attn.c_attn.weight\"]",
           "k, q, v = w[f\"h.{i}.attn.c_attn.weight\"]", "exchange|permut|order"),
    fault("bert/torch layers", "norm before attention", BERT, "layer_norm_eps=EPS, batch_first=True",
          "layer_norm_eps=EPS, batch_first=True, norm_first=True", "norm", "norm"),
    weight("bert/torch layers", "bias of the values left out", inside(BERT, "attention.self.value"),
           "[w[f\"{source}.attention.self.{name}.{part}\"] for name in (\"query\", \"key\", \"value\")]",
           "[w[f\"{source}.attention.self.{name}.{part}\"] * (part == \"weight\" or name != \"value\") "
           "for name in (\"query\", \"key\", \"value\")]", "bias"),
    fault("bert/flat functions", "default eps", f"embeddings.LayerNorm {BERT_NORMS}", ".mean(-1, keepdim=True) + EPS)",
          ".mean(-1, keepdim=True) + 1e-5)", "eps", "eps", (ANY_NAME, 1e-12, 1e-5)),
    weight("bert/flat functions", "norms of a layer exchanged", BERT_NORMS, "a, b = (f\"l{i}_a\", f\"l{i}_b\")",
           "b, a = (f\"l{i}_a\", f\"l{i}_b\")", ("exchange|has the values",)),
    fault("llama/complex rotary", "mask off by one", inside(LLAMA, "self_attn"), "diagonal=1)", "diagonal=2)", "mask",
          "mask|triu|diagonal", kind=BOTH),
    weight("llama/complex rotary", "rows of the keys not permuted", inside(LLAMA, "self_attn.k_proj"),
           "interleaved(w[f\"{source}.self_attn.k_proj.weight\"], KV_HEADS)",
           "w[f\"{source}.self_attn.k_proj.weight\"]",
           "permut|order|row|interleav"),
    fault("llama/fused", "scale left out", inside(LLAMA, "self_attn"), "is_causal=True, enable_gqa=True",
          "is_causal=True, enable_gqa=True, scale=1.0", "scale", ("scale is|the scale|mul ",), kind=BOTH),
    weight("llama/fused", "gate and up exchanged", inside(LLAMA, "mlp.gate_proj") + " " + inside(LLAMA, "mlp.up_proj"),
           "torch.cat([gate, up])", "torch.cat([up, gate])", ("exchange|has the values|order|permut",)),
    fault("t5/fused", "scale of other transformers", T5_ATTENTIONS, "attn_mask=bias, scale=1.0)", "attn_mask=bias)",
          "scale", ("scale is|the scale|mul ",), kind=BOTH),
    weight("t5/fused", "gate and up exchanged", inside(T5_FEEDS, "wi_0") + " " + inside(T5_FEEDS, "wi_1"),
           "torch.cat((gate, wide))", "torch.cat((wide, gate))", ("exchange|has the values|order|permut",)),
    fault("moe/dense", "shares don't add up to 1", inside(MOE, "router"), "best.values.softmax(-1)",
          "scores.softmax(-1).gather(-1, best.indices)", "normalization", "div|sum|softmax", kind=BOTH),
    weight("moe/dense", "experts in another order", MOE_DOWN, "f\"{target}.experts.narrow\": down",
           "f\"{target}.experts.narrow\": down.roll(1, 0)", ("order|exchange|has the values|permut|roll",)),
    fault("mamba/short", "skip left out", inside(MAMBA, "mixer"), "dim=1) + u * self.d", "dim=1)", "skip", "add|mul",
          kind=BOTH),
    weight("mamba/short", "A taken for its logarithm", inside(MAMBA, "mixer"), "        x, z = w[f\"layers",
           "        state[f\"layers.{i}.a_log\"] = state[f\"layers.{i}.a_log\"].exp()\n        x, z = w[f\"layers",
           "a_log"),
    fault("translator/annotated", "mask off by one", inside(DECODER_LAYERS, "self_attn"),
          "mask = torch.tril(torch.ones(tgt.shape[1], tgt.shape[1]))",
          "mask = torch.tril(torch.ones(tgt.shape[1], tgt.shape[1]), 1)", "mask", "mask|tril|diagonal", kind=BOTH),
    weight("translator/annotated", "scale of the embeddings left out", ".",
           "\"target.weight\": w[\"tgt_embed.weight\"] * scale", "\"target.weight\": w[\"tgt_embed.weight\"]",
           ("the scale|mul |times",)),
    fault("lora/merged", "softmax over queries", inside(LAYERS, "attention"), "float(\"-inf\")).softmax(-1)",
          "float(\"-inf\")).softmax(-2)", "softmax", "softmax axis", kind=BOTH),
    weight("lora/merged", "scale by the rank left out",
           inside(LAYERS, "attention.q_proj") + " " + inside(LAYERS, "attention.v_proj"), " * (ALPHA / RANK)", "",
           ("the scale|mul ",)),
    fault("decoders/neox split", "one after the other", NEOX, "return x + self.attention(self.ln_attention(x)) + ",
          "x = x + self.attention(self.ln_attention(x))\n        return x + ", "residual", "add|residual"),
    weight("decoders/neox split", "q, k and v one after the other", inside(NEOX, "attention.query_key_value"),
           ".unflatten(0, (HEADS, 3, SIZE))", ".unflatten(0, (3, HEADS, SIZE)).transpose(0, 1)",
           "order|exchange|permut|row|interleav|blocks"),
    fault("decoders/gemma plain", "gelu of the other kind", inside(LLAMA, "mlp.act_fn"),
          "F.gelu(self.gate(y), approximate=\"tanh\")", "F.gelu(self.gate(y))", "gelu", "gelu|tanh", kind=BOTH),
    weight("decoders/gemma plain", "1 of the gain left out", inside(LLAMA, "post_attention_layernorm"),
           "1 + w[f\"{source}.post_attention_layernorm.weight\"]", "w[f\"{source}.post_attention_layernorm.weight\"]",
           ("1 + |add is|number 1|offset|gain",)),
    fault("decoders/opt torch layers", "norm afterwards", OPT, "batch_first=True, norm_first=True",
          "batch_first=True, norm_first=False", "norm", "norm"),
    weight("decoders/opt torch layers", "offset of the positions left out", "model.decoder.embed_positions",
           "w[\"embed_positions.weight\"][2:]", "w[\"embed_positions.weight\"][:-2]",
           "offset|shift|roll|elements|rows|slice"),
    fault("cells/gpt2 split", "scale of the whole width", inside(H, "attn"), "math.sqrt(q.shape[-1])",
          "math.sqrt(x.shape[-1])", "scale", ("scale is|the scale|mul |div ",), kind=BOTH),
    weight("cells/gpt2 split", "norms exchanged", f"{inside(H, 'ln_1')} {inside(H, 'ln_2')}",
           "((\"norm_a\", \"ln_1\"), (\"norm_b\", \"ln_2\"))", "((\"norm_a\", \"ln_2\"), (\"norm_b\", \"ln_1\"))",
           ("exchange|has the values",)),
    fault("qwen/lists", "heads of a group in turn", inside(LLAMA, "self_attn"), "group = head // (HEADS // KV_HEADS)",
          "group = head % KV_HEADS", "grouping", "repeat|group|order|element|head|index|merged",
          kind=(*BOTH, "layout")),
    weight("qwen/lists", "gains of q and k exchanged",
           inside(LLAMA, "self_attn.q_norm") + " " + inside(LLAMA, "self_attn.k_norm"), "    return ListQwen(",
           "    lists[\"q_gain\"], lists[\"k_gain\"] = lists[\"k_gain\"], lists[\"q_gain\"]\n    return ListQwen(",
           ("exchange|has the values",)),
    fault("deberta/plain", "distances of the keys the wrong way", inside(BERT, "attention.self"),
          "k, table_q[:, rows])", "k, table_q[:, rows.T])", "distances",
          "neg|sign|transpose|distance|index|gather|element|axes", kind=(*BOTH, "layout")),
    weight("deberta/plain", "norm of the words for the distances", "encoder.LayerNorm",
           "w[f\"encoder.LayerNorm.{part}\"]", "w[f\"embeddings.LayerNorm.{part}\"]", ("has the values",)),
    fault("falcon/grouped", "groups in turn", inside(H, "self_attention"), "y.repeat_interleave(GROUP, 1)",
          "y.repeat(1, GROUP, 1, 1)", "grouping", "repeat|tile|head|order|axis|expand", kind=(*BOTH, "layout")),
    weight("falcon/grouped", "q, k and v one after the other", inside(H, "self_attention.query_key_value"),
           "parts = grouped[:, :-2], grouped[:, -2], grouped[:, -1]",
           "parts = qkv.split([HEADS * SIZE, KV * SIZE, KV * SIZE])", "order|permut|row|block"),
    fault("gemma2/google", "window in the odd layers", inside(LLAMA, "self_attn"), "index % 2 == 0", "index % 2 == 1",
          "mask", "mask|window|tril|element", kind=BOTH),
    weight("gemma2/google", "norm after attention taken for the one before the mlp",
           f"{inside(LLAMA, 'post_attention_layernorm')} {inside(LLAMA, 'pre_feedforward_layernorm')}",
           "post, pre = \"post", "pre, post = \"post", ("exchange|has the values",)),
    fault("mixtral/dense", "softmax over all experts, not renormalized", inside(LLAMA, "mlp.gate"),
          "        scores, chosen = self.router(x).topk(TOP, dim=-1)\n        scores = scores.softmax(-1)\n",
          "        scores, chosen = self.router(x).softmax(-1).topk(TOP, dim=-1)\n", "renormalized",
          "div|sum|normal|softmax", kind=BOTH),
    weight("mixtral/dense", "gate and up exchanged", inside(LLAMA, "mlp.experts"),
           "w1, w3 = w[f\"{source}.mlp.experts.gate_up_proj\"]", "w3, w1 = w[f\"{source}.mlp.experts.gate_up_proj\"]",
           ("exchange|order|has the values|row|block",)),
    fault("retnet/recurrent", "new value decays, too", inside(LAYERS, "retention"),
          "state = gamma * state + torch.einsum(\"bhk,bhv->bhkv\", k * KEY**-0.5, v)",
          "state = gamma * (state + torch.einsum(\"bhk,bhv->bhkv\", k * KEY**-0.5, v))", "decay",
          "mul|decay|exp|gamma|factor", kind=BOTH),
    weight("retnet/recurrent", "q and k exchanged",
           f"{inside(LAYERS, 'retention.q_proj')} {inside(LAYERS, 'retention.k_proj')}",
           "torch.cat([source.q_proj.weight, source.k_proj.weight])",
           "torch.cat([source.k_proj.weight, source.q_proj.weight])", ("exchange|has the values|order",)),
    fault("gemma3/pairs", "turned backwards", inside(LLAMA, "self_attn"),
          "even * cos - odd * sin, odd * cos + even * sin", "even * cos + odd * sin, odd * cos - even * sin",
          "rotation", "neg|sign|sub|add|sin|rotat", kind=BOTH),
    weight("gemma3/pairs", "gain of the queries in halves", inside(LLAMA, "self_attn.q_norm"),
           "paired(w[f\"{source}.self_attn.q_norm.weight\"])", "w[f\"{source}.self_attn.q_norm.weight\"]",
           "order|permut|interleav"),
    fault("nanochat/norm first", "keys not normed", CHAT,
          "q, k = self.scale(self.qk(x).unflatten(-1, (-1, SIZE))).split((HEADS, KV), dim=2)",
          "q, k = self.qk(x).unflatten(-1, (-1, SIZE)).split((HEADS, KV), dim=2)\n        q = self.scale(q)", "norm",
          "norm", kind=BOTH),
    weight("nanochat/norm first", "rows in pairs as if turned forwards",
           inside(CHAT, "c_q") + " " + inside(CHAT, "c_k"),
           "torch.stack((second, first), dim=2)", "torch.stack((first, second), dim=2)",
           "order|permut|exchange|row|rotated the other way"),
    fault("rwkv/sum over the past", "square left out", inside("blocks.0 blocks.1", "ffn"),
          "F.relu(self.wk(xk)).pow(2)", "F.relu(self.wk(xk))", "square", "square|pow|mul", kind=BOTH),
    weight("rwkv/sum over the past", "decay not exponentiated", inside("blocks.0 blocks.1", "att"),
           "w[f\"{att}.time_decay\"].exp()", "w[f\"{att}.time_decay\"]", "exp", kind=("weight", *BOTH)),
    fault("txl/gathered positions", "distances one too large", inside("layers.0 layers.1", "dec_attn"),
          "distance.clamp(min=0).expand", "(distance + 1).clamp(min=0, max=m - 1).expand", "distance",
          "add|shift|gather|slice|index|concat|clamp|position|roll", kind=(*BOTH, "layout")),
    weight("txl/gathered positions", "biases of content and position exchanged", ".",
           "f\"{target}.attention.u\": w[\"r_w_bias\"][:, None],\n"
           "            f\"{target}.attention.v\": w[\"r_r_bias\"]",
           "f\"{target}.attention.u\": w[\"r_r_bias\"][:, None],\n"
           "            f\"{target}.attention.v\": w[\"r_w_bias\"]",
           ("exchange|has the values",)),
    fault("albert/one layer", "eps of torch", "embeddings.LayerNorm", "self.ln = nn.LayerNorm(SMALL, eps=1e-12)",
          "self.ln = nn.LayerNorm(SMALL)", "eps", "eps", ("eps|epsilon", 1e-12, 1e-5)),
    weight("albert/one layer", "square matrix transposed", f"{ALBERT}.attention.dense",
           "    module = LiteBert()\n",
           "    state[\"layer.out_proj.weight\"] = state[\"layer.out_proj.weight\"].T\n    module = LiteBert()\n",
           "transposed"),
    fault("mla/absorbed", "scale of the part without positions", inside(LLAMA, "self_attn"),
          "self.softmax_scale = (NOPE + ROPE) ** -0.5", "self.softmax_scale = NOPE**-0.5", "scale",
          "scale|mul|number", kind=BOTH),
    weight("mla/absorbed", "rotary rows of keys as halves", inside(LLAMA, "self_attn.kv_a_proj_with_mqa"),
           "down[KV_RANK:],", "down[KV_RANK:].unflatten(0, (-1, 2)).transpose(0, 1).flatten(0, 1),",
           "order|permut|row|interleav|exchange"),
    fault("bloom/distances", "slopes one step too large", inside(BLOOM, "self_attention"),
          "2.0 ** (-8.0 / HEADS * torch.arange(1, HEADS + 1))", "2.0 ** (-8.0 / HEADS * torch.arange(HEADS))", "slopes",
          "slope|constant|table|buffer|pow|alibi|mul|number|value|add", kind=ANY_KIND),
    weight("bloom/distances", "q, k and v as three blocks", inside(BLOOM, "self_attention.query_key_value"),
           ".unflatten(0, (HEADS, 3, SIZE)).unbind(1)", ".unflatten(0, (3, HEADS, SIZE)).unbind(0)",
           "order|permut|row|interleav|exchange|block|split"),
    fault("phi/fused", "exact gelu", inside(PHI, "mlp.activation_fn"), "self.fc2(new_gelu(self.fc1(x)))",
          "self.fc2(nn.functional.gelu(self.fc1(x)))", "gelu", "gelu|erf|tanh", kind=ANY_KIND),
    weight("phi/fused", "k and v exchanged", f"{inside(PHI, 'self_attn.k_proj')} {inside(PHI, 'self_attn.v_proj')}",
           "for n in \"qkv\"])", "for n in \"qvk\"])", ("order|permut|row|exchange|has the values",)),
]  # fmt: skip
