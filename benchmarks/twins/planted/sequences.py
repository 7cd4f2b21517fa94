"""Faults of ports of networks for other data: speech, sound, tags, several modalities, tables and graphs."""

from __future__ import annotations

from fixtures.planted_faults.port_edits import fault, inside

from .kinds import ANY_KIND, BOTH, weight

TCN, TCN0 = "network.1 network.2", "network.0 network.1 network.2"
CLIP_ACTS = " ".join(
    f"{side}_model.encoder.layers.{i}.mlp.activation_fn" for side in ("text", "vision") for i in (0, 1)
)
PERCEIVER_GATES = " ".join(f"layers.{i}.{n}.fn.net.1" for i in (0, 1) for n in (1, 3))
WHISPER_ENCODER = "whisper.model.encoder.layers.0 whisper.model.encoder.layers.1"
WHISPER_DECODER = "whisper.model.decoder.layers.0 whisper.model.decoder.layers.1"
WHISPER_SELF = inside(f"{WHISPER_ENCODER} {WHISPER_DECODER}", "self_attn")
CONFORMER = "conformer_layers.0 conformer_layers.1"
GAT = "attention_0 attention_1 attention_2 out_att"

ALSO_RIGHT = {
    ("perceiver/torch attention", "gate and value exchanged"): PERCEIVER_GATES,
    ("seq2seq/keras gru", "columns of word and context exchanged"): ".",
    ("dlrm/one table", "pairs above the diagonal"): "top_l.0",
    ("dlrm/one table", "columns not brought in order"): ".",
    ("sage/adjacency", "neighbours first"): "convs.0 convs.1 convs.2",
    ("nerf/added", "columns of the points not brought in order"): ".",
}

FAULTS = [
    fault("tagger/lstm in a loop", "state not reversed back", "lstm", "states[::-1] if self.backward else states",
          "states", "order", "order|reversed|flip", kind=(*BOTH, "layout")),
    weight("tagger/lstm in a loop", "gates in torch's order", "lstm", "for gate in (0, 1, 3, 2)",
           "for gate in (0, 1, 2, 3)", "order|exchange|permut"),
    fault("tagger/gru gate by gate", "reset before the product", "gru", "r * self.hn(h))", "self.hn(r * h))",
          "reset gate", "reset", kind=BOTH),
    weight("tagger/gru gate by gate", "gates in another order", "gru", "zip((\"r\", \"z\", \"n\")",
           "zip((\"z\", \"r\", \"n\")", "order|exchange|permut"),
    fault("wave/weight norm merged", "dilation left out", inside(TCN, "conv1") + " " + inside(TCN, "conv2"),
          "super().__init__(size, CHANNELS, 3, dilation=dilation)",
          "super().__init__(size, CHANNELS, 3, dilation=max(1, dilation // 2))", "dilation", "dilation|pad", kind=BOTH),
    weight("wave/weight norm merged", "gain left out", inside(TCN0, "conv1") + " " + inside(TCN0, "conv2"),
           "return gain * direction /", "return direction /", ("original0|gain|the scale|mul ",)),
    fault("clip/openai", "gelu instead of quick gelu", CLIP_ACTS, "return x * torch.sigmoid(1.702 * x)",
          "return nn.functional.gelu(x)", "gelu", "gelu|sigmoid|1.702", kind=BOTH),
    weight("clip/openai", "positions of the text moved by one", "text_model.embeddings.position_embedding",
           "\"positional_embedding\": w[f\"{text}.embeddings.position_embedding.weight\"]",
           "\"positional_embedding\": w[f\"{text}.embeddings.position_embedding.weight\"].roll(1, 0)",
           "roll|order|shift|permut|rows"),
    fault("perceiver/torch attention", "silu instead of gelu", PERCEIVER_GATES, "F.gelu(self.gate(y)) * self.value(y)",
          "F.silu(self.gate(y)) * self.value(y)", "activation", "gelu silu", kind=BOTH),
    weight("perceiver/torch attention", "gate and value exchanged",
           " ".join(f"layers.{i}.{n}.fn.net.0" for i in (0, 1) for n in (1, 3)),
           "state |= {f\"{name}.value.{part}\": first, f\"{name}.gate.{part}\": second}",
           "state |= {f\"{name}.value.{part}\": second, f\"{name}.gate.{part}\": first}",
           ("exchange|has the values|order",)),
    fault("hifigan/plain weights", "slope of the last activation", ".", "nn.LeakyReLU(), nn.Conv1d",
          "nn.LeakyReLU(0.1), nn.Conv1d", "negative slope", "slope|alpha", ("negative_slope|alpha|value", 0.01, 0.1)),
    weight("hifigan/plain weights", "norm over outputs of transposed convolutions", "ups.0 ups.1",
           "folded(w, f\"ups.{i}\", (1, 2))", "folded(w, f\"ups.{i}\", (0, 2))", "norm|weight|scale|axes",
           kind=("weight", *BOTH)),
    fault("whisper/engine", "whole scale on q and on k",
          f"{WHISPER_SELF} {inside(WHISPER_DECODER, 'encoder_attn')}", "** -0.25", "** -0.5", "scale",
          "scale|mul|number", kind=BOTH),
    # A softmax over keys can't see a bias of the keys, so that the rows with one too many are as good as right.
    weight("whisper/engine", "bias of the values in the keys' rows", inside(WHISPER_SELF, "v_proj"),
           "torch.cat([q_bias, torch.zeros_like(q_bias), v_bias])",
           "torch.cat([q_bias, v_bias, torch.zeros_like(q_bias)])", "bias", kind=("weight", *BOTH)),
    fault("seq2seq/tensorflow cells", "bias of the forget gate left out", "encoder decoder",
          "torch.sigmoid(f + self.forget_bias)", "torch.sigmoid(f)", "bias", "bias", kind=ANY_KIND),
    weight("seq2seq/tensorflow cells", "gates in torch's order", "encoder decoder", "for gate in (0, 2, 1, 3)",
           "for gate in (0, 1, 2, 3)", "order|exchange|permut"),
    fault("seq2seq/keras gru", "new and old state exchanged", "encoder decoder", "z * h + (1 - z) * candidate",
          "(1 - z) * h + z * candidate", "update gate", "update|neg|sign|sub|exchange", kind=(*BOTH, "layout")),
    weight("seq2seq/keras gru", "columns of word and context exchanged", "decoder", "if to == \"gru\":",
           "if to == \"\":", "order|roll|shift|exchange|permut|column"),
    fault("conformer/folded", "half of the last step left out", CONFORMER, "x = x + 0.5 * self.ff_out(x)",
          "x = x + self.ff_out(x)", "half", "mul|0.5|scale", kind=BOTH),
    weight("conformer/folded", "gate and value exchanged", inside(CONFORMER, "conv_module.sequential.0"),
           "value, gate = w[", "gate, value = w[", "order|exchange|permut|rows"),
    fault("gat/heads at once", "softmax over the other end", GAT, "scores.softmax(dim=1)", "scores.softmax(dim=0)",
          "axis", "softmax|axis|dim|transpos", kind=(*BOTH, "layout")),
    weight("gat/heads at once", "halves of the vectors exchanged", GAT,
           "state[f\"{to}.target\"], state[f\"{to}.source\"] =",
           "state[f\"{to}.source\"], state[f\"{to}.target\"] =", ("exchange|has the values|order",)),
    fault("dlrm/one table", "pairs above the diagonal", ".",
          "torch.tril_indices(len(TABLES) + 1, len(TABLES) + 1, -1)",
          "torch.triu_indices(len(TABLES) + 1, len(TABLES) + 1, 1)", "order",
          "order|index|tril|triu|slice|gather|exchange|permut", kind=("weight", *BOTH, "layout")),
    weight("dlrm/one table", "columns not brought in order", "top_l.0",
           "    state[\"top1.weight\"] = "
           "torch.cat([w[\"top_l.0.weight\"][:, SIZE:], w[\"top_l.0.weight\"][:, :SIZE]], 1)\n", "",
           "order|permut|roll|shift|exchange|columns|concat"),
    fault("wav2vec2/fused", "padding at the other end", "encoder.pos_conv_embed", "(2, 1)", "(1, 2)", "padding",
          "pad|slice|shift", kind=ANY_KIND),
    weight("wav2vec2/fused", "norm over other axes", "encoder.pos_conv_embed", "v.norm(dim=(0, 1), keepdim=True)",
           "v.norm(dim=(1, 2), keepdim=True)", "norm|scale|axes"),
    fault("sage/adjacency", "sum instead of mean", "convs.0 convs.1 convs.2",
          "mean = count / count.sum(1, keepdim=True).clamp(min=1)", "mean = count", "mean", "mean|div|sum|count",
          kind=BOTH),
    weight("sage/adjacency", "neighbours first", " ".join(f"convs.{i}.lin_{side}" for i in range(3) for side in "lr"),
           "torch.cat([w[f\"convs.{i}.lin_r.weight\"], w[f\"convs.{i}.lin_l.weight\"]], 1)",
           "torch.cat([w[f\"convs.{i}.lin_l.weight\"], w[f\"convs.{i}.lin_r.weight\"]], 1)",
           ("order|permut|column|exchange|has the values",)),
    fault("nerf/added", "bands times pi", ".", "2.0 ** torch.arange(count)", "2.0 ** torch.arange(count) * torch.pi",
          "frequencies", "mul|number|pi|constant|value|band", kind=ANY_KIND),
    weight("nerf/added", "columns of the points not brought in order", "pts_linears.4", "joined[:, :n][:, points]",
           "joined[:, :n]", "order|permut|column|exchange|layout"),
]  # fmt: skip
