"""The faults of the ports, two for each pair: one in the code of the port, one in how it gets its weights.

What is written differently is a text that occurs once in the file of the family. The Cells are those of the reference.
"""

from __future__ import annotations

from typing import Any

from fixtures.planted_faults.cases import ANY_NAME
from fixtures.planted_faults.port_edits import PortFault, fault, inside

BOTH = ("structure", "attribute")
ANY_KIND = ("weight", "structure", "attribute", "layout")
H = "transformer.h.0 transformer.h.1"
BERT = "encoder.layer.0 encoder.layer.1"
BERT_NORMS = f"{inside(BERT, 'attention.output.LayerNorm')} {inside(BERT, 'output.LayerNorm')}"
LLAMA = "model.layers.0 model.layers.1"
RESNET_LAYERS = [f"resnet.encoder.stages.{layer}" for layer in ("0.layers.0", "1.layers.0", "1.layers.1")]
RESNET_UNITS = [
    "resnet.embedder.embedder", "resnet.encoder.stages.1.layers.0.shortcut",
    *(f"{layer}.layer.{number}" for layer in RESNET_LAYERS for number in (0, 1)),
]  # fmt: skip
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
VIT = "vit.layers.0 vit.layers.1"
SWIN = " ".join(f"encoder.layers.{stage}.blocks.{i}" for stage in (0, 1) for i in (0, 1))
DECODER_LAYERS = "transformer.decoder.layers.0 transformer.decoder.layers.1"
SQUEEZES = "features.1.block.1 features.2.block.2 features.3.block.2"
TCN, TCN0 = "network.1 network.2", "network.0 network.1 network.2"
CLIP_ACTS = " ".join(
    f"{side}_model.encoder.layers.{i}.mlp.activation_fn" for side in ("text", "vision") for i in (0, 1)
)
LORA = "layers.0 layers.1"
NEOX = "gpt_neox.layers.0 gpt_neox.layers.1"
OPT = "model.decoder.layers.0 model.decoder.layers.1"
MIXER = "blocks.0 blocks.1"
CONVNEXT = "encoder.stages.0.layers.0 encoder.stages.1.layers.0 encoder.stages.1.layers.1"

PERCEIVER_GATES = " ".join(f"layers.{i}.{n}.fn.net.1" for i in (0, 1) for n in (1, 3))


def weight(
    network: str, label: str, cells: str, old: str, new: str, words: str | tuple[str, ...], **more: Any
) -> PortFault:
    """Return a fault in how a port gets its weights."""
    return fault(network, label, cells, old, new, label, words, kind=more.pop("kind", ANY_KIND), **more)


ALSO_RIGHT = {
    ("gpt2/split", "q and k exchanged"): inside(H, "attn"),
    ("cells/vit fused", "q and k exchanged"): inside(VIT, "attention"),
    ("llama/complex rotary", "rows of the keys not permuted"): inside(LLAMA, "self_attn"),
    ("llama/fused", "gate and up exchanged"): inside(LLAMA, "mlp"),
    ("t5/fused", "gate and up exchanged"): T5_FEEDS,
    ("decoders/neox split", "q, k and v one after the other"): inside(NEOX, "attention"),
    ("swin/microsoft", "distances the other way"): inside(SWIN, "attention"),
    ("translator/annotated", "scale of the embeddings left out"): "tgt_embed",
    ("perceiver/torch attention", "gate and value exchanged"): PERCEIVER_GATES,
}
"""By pair and fault, other Cells that are right: rows in another order are also code that reads them wrongly."""


_FAULTS = [
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
    fault("resnet/functional", "largest instead of mean", "resnet.pooler", "x.mean(dim=(2, 3))", "x.amax(dim=(2, 3))",
          "pooling", "max|mean", kind=BOTH),
    weight("resnet/functional", "stale mean", "resnet.encoder.stages.1.layers.0.shortcut.normalization",
           "    copies = (", "    statistics[\"s1b0_skip_mean\"] = torch.zeros(SIZES[1])\n    copies = (",
           "running_mean|mean", kind=("weight", "state", "structure", "attribute")),
    fault("resnet/folded", "pooling of two", "resnet.embedder.pooler", "nn.MaxPool2d(3, 2, padding=1)",
          "nn.MaxPool2d(2, 2)", "kernel size", "kernel|padding|pads", kind=BOTH),
    weight("resnet/folded", "eps of the fold", " ".join(RESNET_UNITS), "eps: float = 1e-5", "eps: float = 1e-3",
           "eps|running_var|variance"),
    fault("convnext/channels first", "gelu approximated", inside(CONVNEXT, "act"), "nn.GELU()",
          "nn.GELU(approximate=\"tanh\")", "gelu", "gelu|tanh", kind=BOTH),
    weight("convnext/channels first", "depthwise kernel transposed", inside(CONVNEXT, "dwconv"),
           "conv(f\"{target}.body.0\", f\"{source}.dwconv\")", "conv(f\"{target}.body.0\", f\"{source}.dwconv\")\n"
           "            state[f\"{target}.body.0.weight\"] = state[f\"{target}.body.0.weight\"].mT", "transposed|axes"),
    fault("unet/skip last", "average instead of largest", "down1.maxpool_conv.0 down2.maxpool_conv.0",
          "F.max_pool2d(x, 2)", "F.avg_pool2d(x, 2)", "pooling", "avg|average|max", kind=BOTH),
    weight("unet/skip last", "kernel flipped", "up1.up up2.up", "w[f\"{source}.up.weight\"], w",
           "w[f\"{source}.up.weight\"].flip(3), w", "flip|reversed"),
    fault("tagger/lstm in a loop", "state not reversed back", "lstm", "states[::-1] if self.backward else states",
          "states", "order", "order|reversed|flip", kind=(*BOTH, "layout")),
    weight("tagger/lstm in a loop", "gates in torch's order", "lstm", "for gate in (0, 1, 3, 2)",
           "for gate in (0, 1, 2, 3)", "order|exchange|permut"),
    fault("tagger/gru gate by gate", "reset before the product", "gru", "r * self.hn(h))", "self.hn(r * h))",
          "reset gate", "reset", kind=BOTH),
    weight("tagger/gru gate by gate", "gates in another order", "gru", "zip((\"r\", \"z\", \"n\")",
           "zip((\"z\", \"r\", \"n\")", "order|exchange|permut"),
    fault("t5/fused", "scale of other transformers", T5_ATTENTIONS, "attn_mask=bias, scale=1.0)", "attn_mask=bias)",
          "scale", ("scale is|the scale|mul ",), kind=BOTH),
    weight("t5/fused", "gate and up exchanged", inside(T5_FEEDS, "wi_0") + " " + inside(T5_FEEDS, "wi_1"),
           "torch.cat((gate, wide))", "torch.cat((wide, gate))", ("exchange|has the values|order|permut",)),
    fault("moe/dense", "shares don't add up to 1", MOE, "best.values.softmax(-1)",
          "scores.softmax(-1).gather(-1, best.indices)", "normalization", "div|sum|softmax", kind=BOTH),
    weight("moe/dense", "experts in another order", MOE_DOWN, "f\"{target}.experts.narrow\": down",
           "f\"{target}.experts.narrow\": down.roll(1, 0)", ("order|exchange|has the values|permut|roll",)),
    fault("mamba/short", "skip left out", inside(MAMBA, "mixer"), "dim=1) + u * self.d", "dim=1)", "skip", "add|mul",
          kind=BOTH),
    weight("mamba/short", "A taken for its logarithm", inside(MAMBA, "mixer"), "        x, z = w[f\"layers",
           "        state[f\"layers.{i}.a_log\"] = state[f\"layers.{i}.a_log\"].exp()\n        x, z = w[f\"layers",
           "a_log"),
    fault("vit/timm", "scale of the whole width", inside(VIT, "attention"), "(q * (c // HEADS) ** -0.5)",
          "(q * c**-0.5)", "scale", ("scale is|the scale|mul ",), kind=BOTH),
    weight("vit/timm", "patches with channels last", "vit.embeddings.patch_embeddings.projection",
           "projection.weight\"].flatten(1)", "projection.weight\"].permute(0, 2, 3, 1).flatten(1)",
           "permut|transposed|axes|order"),
    fault("vit/flax", "gelu approximated by default", inside(VIT, "mlp.activation_fn"), ", approximate=False)", ")",
          "gelu", "gelu|tanh", kind=BOTH),
    weight("vit/flax", "square kernel not transposed", inside(VIT, "attention.o_proj"), "out[\"kernel\"].reshape",
           "out[\"kernel\"].T.reshape", "transposed"),
    fault("swin/microsoft", "rolled the wrong way", "encoder.layers.0.blocks.1",
          "torch.roll(y, (self.shift, self.shift)", "torch.roll(y, (-self.shift, self.shift)", "shift",
          "roll|shift|slice|concat", kind=(*BOTH, "layout")),
    weight("swin/microsoft", "distances the other way", inside(SWIN, "attention.relative_position_bias"),
           "attn.bias_table\"] = table", "attn.bias_table\"] = table.flip(0)", "flip|reversed|transposed|permut"),
    fault("translator/annotated", "mask off by one", inside(DECODER_LAYERS, "self_attn"),
          "mask = torch.tril(torch.ones(tgt.shape[1], tgt.shape[1]))",
          "mask = torch.tril(torch.ones(tgt.shape[1], tgt.shape[1]), 1)", "mask", "mask|tril|diagonal", kind=BOTH),
    weight("translator/annotated", "scale of the embeddings left out", ".",
           "\"target.weight\": w[\"tgt_embed.weight\"] * scale", "\"target.weight\": w[\"tgt_embed.weight\"]",
           ("the scale|mul |times",)),
    fault("efficientnet/paper", "padding as in TensorFlow", "features.2.block.1.0",
          "F.pad(y, (side, side, side, side))",
          "F.pad(y, (side - self.stride // 2, side, side - self.stride // 2, side))", "padding", "padding|pads|pad",
          kind=BOTH),
    weight("efficientnet/paper", "bias of the gate left out", inside(SQUEEZES, "fc2"), "    module = PaperNet()\n",
           "    module = PaperNet()\n"
           "    state |= {name: torch.zeros_like(b) for name, b in state.items() if name.endswith(\"excite.bias\")}\n",
           "bias"),
    fault("wave/weight norm merged", "dilation left out", inside(TCN, "conv1") + " " + inside(TCN, "conv2"),
          "super().__init__(size, CHANNELS, 3, dilation=dilation)",
          "super().__init__(size, CHANNELS, 3, dilation=max(1, dilation // 2))", "dilation", "dilation|pad", kind=BOTH),
    weight("wave/weight norm merged", "gain left out", inside(TCN0, "conv1") + " " + inside(TCN0, "conv2"),
           "return gain * direction /", "return direction /", ("original0|gain|the scale|mul ",)),
    fault("autoencoder/sequential", "slope of the default", "decoder.act",
          "nn.Linear(LATENT, 8 * 16),\n        nn.LeakyReLU(0.2)", "nn.Linear(LATENT, 8 * 16),\n        nn.LeakyReLU()",
          "slope", "slope|alpha", kind=BOTH),
    weight("autoencoder/sequential", "kernel transposed", "decoder.deconv2", "    module = layers()",
           "    state[\"15.weight\"] = state[\"15.weight\"].mT\n    module = layers()", "transposed|axes"),
    fault("clip/openai", "gelu instead of quick gelu", CLIP_ACTS, "return x * torch.sigmoid(1.702 * x)",
          "return nn.functional.gelu(x)", "gelu", "gelu|sigmoid|1.702", kind=BOTH),
    weight("clip/openai", "positions of the text moved by one", "text_model.embeddings.position_embedding",
           "\"positional_embedding\": w[f\"{text}.embeddings.position_embedding.weight\"]",
           "\"positional_embedding\": w[f\"{text}.embeddings.position_embedding.weight\"].roll(1, 0)",
           "roll|order|shift|permut|rows"),
    fault("lora/merged", "softmax over queries", inside(LORA, "attention"), "float(\"-inf\")).softmax(-1)",
          "float(\"-inf\")).softmax(-2)", "softmax", "softmax axis", kind=BOTH),
    weight("lora/merged", "scale by the rank left out",
           inside(LORA, "attention.q_proj") + " " + inside(LORA, "attention.v_proj"), " * (ALPHA / RANK)", "",
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
    fault("mixer/flax", "gelu approximated by default", inside(MIXER, "mlp_tokens.act"),
          "y = nnx.gelu(y, approximate=False)", "y = nnx.gelu(y)", "gelu", "gelu|tanh", kind=BOTH),
    weight("mixer/flax", "patches with channels first", "stem", "w[\"stem.weight\"].transpose(2, 3, 1, 0)",
           "w[\"stem.weight\"].transpose(1, 2, 3, 0)", "permut|transposed|axes|order"),
    fault("cells/gpt2 split", "scale of the whole width", inside(H, "attn"), "math.sqrt(q.shape[-1])",
          "math.sqrt(x.shape[-1])", "scale", ("scale is|the scale|mul |div ",), kind=BOTH),
    weight("cells/gpt2 split", "norms exchanged", f"{inside(H, 'ln_1')} {inside(H, 'ln_2')}",
           "((\"norm_a\", \"ln_1\"), (\"norm_b\", \"ln_2\"))", "((\"norm_a\", \"ln_2\"), (\"norm_b\", \"ln_1\"))",
           ("exchange|has the values",)),
    fault("cells/vit fused", "gelu of the other kind", inside(VIT, "mlp.activation_fn"), "approximate=\"none\"",
          "approximate=\"tanh\"", "gelu", "gelu|tanh", kind=BOTH),
    weight("cells/vit fused", "q and k exchanged",
           f"{inside(VIT, 'attention.q_proj')} {inside(VIT, 'attention.k_proj')}", "for letter in \"qkv\"",
           "for letter in \"kqv\"", ("exchange|has the values|order",)),
    fault("pointnet/points last", "mean instead of largest", "stn", ".relu().amax(dim=1))", ".relu().mean(dim=1))",
          "pooling", "max|mean", kind=BOTH),
    weight("pointnet/points last", "variance taken for its root", "bn1 bn2 stn.bn1", "w[f\"{norm}.running_var\"]",
           "w[f\"{norm}.running_var\"].sqrt()", "running_var|sqrt|variance", kind=("weight", "state")),
    fault("qwen/lists", "heads of a group in turn", inside(LLAMA, "self_attn"), "group = head // (HEADS // KV_HEADS)",
          "group = head % KV_HEADS", "grouping", "repeat|group|order|element|head|index|merged",
          kind=(*BOTH, "layout")),
    weight("qwen/lists", "gains of q and k exchanged",
           inside(LLAMA, "self_attn.q_norm") + " " + inside(LLAMA, "self_attn.k_norm"), "    return ListQwen(",
           "    lists[\"q_gain\"], lists[\"k_gain\"] = lists[\"k_gain\"], lists[\"q_gain\"]\n    return ListQwen(",
           ("exchange|has the values",)),
    fault("densenet/channels last", "largest of the window", "features.transition1.pool", "c).mean(dim=(2, 4))",
          "c).amax(dim=(2, 4))", "pooling", "max|mean|avg", kind=BOTH),
    weight("densenet/channels last", "channels of the last norm not turned", "features.norm5",
           "put(\"last\", \"features.norm5\", None, LAYERS[-1])", "put(\"last\", \"features.norm5\", None, 0)",
           "order|permut|roll|rows|revers|shift", kind=(*ANY_KIND, "state")),
    fault("perceiver/torch attention", "silu instead of gelu", PERCEIVER_GATES, "F.gelu(self.gate(y)) * self.value(y)",
          "F.silu(self.gate(y)) * self.value(y)", "activation", "gelu silu", kind=BOTH),
    weight("perceiver/torch attention", "gate and value exchanged",
           " ".join(f"layers.{i}.{n}.fn.net.0" for i in (0, 1) for n in (1, 3)),
           "state |= {f\"{name}.value.{part}\": first, f\"{name}.gate.{part}\": second}",
           "state |= {f\"{name}.value.{part}\": second, f\"{name}.gate.{part}\": first}",
           ("exchange|has the values|order",)),
]  # fmt: skip

FAULTS: dict[str, list[PortFault]] = {}
for _fault in _FAULTS:
    FAULTS.setdefault(_fault.network, []).append(_fault)
