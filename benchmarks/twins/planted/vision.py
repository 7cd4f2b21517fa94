"""Faults of ports of networks for images and point clouds."""

from __future__ import annotations

from fixtures.planted_faults.port_edits import fault, inside

from .kinds import ANY_KIND, BOTH, weight

RESNET_LAYERS = [f"resnet.encoder.stages.{layer}" for layer in ("0.layers.0", "1.layers.0", "1.layers.1")]
RESNET_UNITS = [
    "resnet.embedder.embedder", "resnet.encoder.stages.1.layers.0.shortcut",
    *(f"{layer}.layer.{number}" for layer in RESNET_LAYERS for number in (0, 1)),
]  # fmt: skip
VIT = "vit.layers.0 vit.layers.1"
SWIN = " ".join(f"encoder.layers.{stage}.blocks.{i}" for stage in (0, 1) for i in (0, 1))
SQUEEZES = "features.1.block.1 features.2.block.2 features.3.block.2"
CONVNEXT = "encoder.stages.0.layers.0 encoder.stages.1.layers.0 encoder.stages.1.layers.1"
BLOCKS = "blocks.0 blocks.1"
VQ_RESIDUALS = " ".join(f"{s}._residual_stack._layers.{i}" for s in ("_encoder", "_decoder") for i in (0, 1))
ADM_RESIDUALS = (
    "input_blocks.1.0 input_blocks.3.0 middle_block.0 middle_block.2 "
    "output_blocks.0.0 output_blocks.1.0 output_blocks.2.0 output_blocks.3.0"
)
ADM_ATTENTIONS = "input_blocks.3.1 middle_block.1 output_blocks.0.1 output_blocks.1.1"
DETR_ENCODER = "transformer.encoder.layers.0 transformer.encoder.layers.1"
DETR_DECODER = "transformer.decoder.layers.0 transformer.decoder.layers.1"
DETR_ATTENTIONS = f"{inside(f'{DETR_ENCODER} {DETR_DECODER}', 'self_attn')} {inside(DETR_DECODER, 'multihead_attn')}"
ASPP = "classifier.0.convs"
STYLED = "conv1.conv convs.0.conv convs.1.conv"
SEGFORMER = "segformer.stages.0.blocks.0 segformer.stages.1.blocks.0 segformer.stages.1.blocks.1"
SEGFORMER_NORMS = " ".join(
    [f"segformer.stages.{s}.{name}" for s in (0, 1) for name in ("patch_embeddings.layer_norm", "layer_norm")]
    + [inside(SEGFORMER, "layernorm_before"), inside(SEGFORMER, "layernorm_after")]
    + ["segformer.stages.0.blocks.0.attention.sequence_reduction.layer_norm"]
)
REGNET = " ".join(f"regnet.encoder.stages.{place}" for place in ("0.layers.0", "1.layers.0", "1.layers.1"))
REGNET_UNITS = [
    "regnet.embedder.embedder",
    *(f"regnet.encoder.stages.{s}.layers.0.shortcut" for s in (0, 1)),
    *(f"{layer}.layer.{number}" for layer in REGNET.split() for number in (0, 1, 3)),
]  # fmt: skip

ALSO_RIGHT = {
    ("cells/vit fused", "q and k exchanged"): inside(VIT, "attention"),
    ("swin/microsoft", "distances the other way"): inside(SWIN, "attention"),
    ("adm/by name", "q, k and v not by heads"): inside(ADM_ATTENTIONS, "attention"),
    ("segment/maps", "features joined in the other order"): "decode_head",
    ("dino/folded", "bias not scaled"): BLOCKS,
    ("segformer/maps", "values before keys"): inside(SEGFORMER, "attention"),
}

FAULTS = [
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
    fault("efficientnet/paper", "padding as in TensorFlow", "features.2.block.1.0",
          "F.pad(y, (side, side, side, side))",
          "F.pad(y, (side - self.stride // 2, side, side - self.stride // 2, side))", "padding", "padding|pads|pad",
          kind=BOTH),
    weight("efficientnet/paper", "bias of the gate left out", inside(SQUEEZES, "fc2"), "    module = PaperNet()\n",
           "    module = PaperNet()\n"
           "    state |= {name: torch.zeros_like(b) for name, b in state.items() if name.endswith(\"excite.bias\")}\n",
           "bias"),
    fault("autoencoder/sequential", "slope of the default", "decoder.act",
          "nn.Linear(LATENT, 8 * 16),\n        nn.LeakyReLU(0.2)", "nn.Linear(LATENT, 8 * 16),\n        nn.LeakyReLU()",
          "slope", "slope|alpha", kind=BOTH),
    weight("autoencoder/sequential", "kernel transposed", "decoder.deconv2", "    module = layers()",
           "    state[\"15.weight\"] = state[\"15.weight\"].mT\n    module = layers()", "transposed|axes"),
    fault("mixer/flax", "gelu approximated by default", inside(BLOCKS, "mlp_tokens.act"),
          "y = nnx.gelu(y, approximate=False)", "y = nnx.gelu(y)", "gelu", "gelu|tanh", kind=BOTH),
    weight("mixer/flax", "patches with channels first", "stem", "w[\"stem.weight\"].transpose(2, 3, 1, 0)",
           "w[\"stem.weight\"].transpose(1, 2, 3, 0)", "permut|transposed|axes|order"),
    fault("cells/vit fused", "gelu of the other kind", inside(VIT, "mlp.activation_fn"), "approximate=\"none\"",
          "approximate=\"tanh\"", "gelu", "gelu|tanh", kind=BOTH),
    weight("cells/vit fused", "q and k exchanged",
           f"{inside(VIT, 'attention.q_proj')} {inside(VIT, 'attention.k_proj')}", "for letter in \"qkv\"",
           "for letter in \"kqv\"", ("exchange|has the values|order",)),
    fault("pointnet/points last", "mean instead of largest", "stn", ".relu().amax(dim=1))", ".relu().mean(dim=1))",
          "pooling", "max|mean", kind=BOTH),
    weight("pointnet/points last", "variance taken for its root", "bn1 bn2 stn.bn1", "w[f\"{norm}.running_var\"]",
           "w[f\"{norm}.running_var\"].sqrt()", "running_var|sqrt|variance", kind=("weight", "state")),
    fault("densenet/channels last", "largest of the window", "features.transition1.pool", "c).mean(dim=(2, 4))",
          "c).amax(dim=(2, 4))", "pooling", "max|mean|avg", kind=BOTH),
    weight("densenet/channels last", "channels of the last norm not turned", "features.norm5",
           "put(\"last\", \"features.norm5\", None, LAYERS[-1])", "put(\"last\", \"features.norm5\", None, 0)",
           "order|permut|roll|rows|revers|shift", kind=(*ANY_KIND, "state")),
    fault("adm/by name", "1 of the scale left out", ADM_RESIDUALS, "* (scale + 1) + shift", "* scale + shift", "offset",
          "add|1", kind=BOTH),
    weight("adm/by name", "q, k and v not by heads", inside(ADM_ATTENTIONS, "qkv"),
           "rows.unflatten(0, (HEADS, 3, -1)).transpose(0, 1).flatten(1, 2)", "rows.unflatten(0, (3, -1))",
           "order|permut|interleav|row|exchange"),
    fault("beit/engine", "bias of the queries not scaled", inside(BLOCKS, "attn"),
          "q = (x @ w[\"wq\"] + w[\"bq\"]) * scale", "q = x @ w[\"wq\"] * scale + w[\"bq\"]", "order",
          "scale|mul|bias|add", kind=BOTH),
    weight("beit/engine", "patches in another order", "patch_embed.proj",
           "w[\"patch_embed.proj.weight\"].permute(2, 3, 1, 0).flatten(0, 2)",
           "w[\"patch_embed.proj.weight\"].flatten(1).T", "transposed|axes|order|permut"),
    fault("dino/folded", "registers first", ".", "torch.cat([self.first[None], self.registers])",
          "torch.cat([self.registers, self.first[None]])", "order", "order|concat|cat|exchange",
          kind=(*BOTH, "layout", "weight")),
    weight("dino/folded", "bias not scaled", f"{inside(BLOCKS, 'ls1')} {inside(BLOCKS, 'ls2')}",
           "w[gamma] * w[f\"{of}.bias\"]", "w[f\"{of}.bias\"]", "bias|gamma|scale", kind=("weight", *BOTH)),
    fault("mobilenet/channels last", "sigmoid that isn't hard",
          "features.1.block.1.scale_activation features.3.block.2.scale_activation "
          "features.4.block.2.scale_activation",
          "h_sigmoid(gate)[:", "torch.sigmoid(gate)[:", "sigmoid", "sigmoid", kind=BOTH),
    weight("mobilenet/channels last", "gain and offset of projections exchanged",
           "features.1.block.2.1 features.2.block.2.1 features.3.block.3.1 features.4.block.3.1",
           "        norm(f\"{to}.bn_project\", f\"{of}.{number + 1}.1\")\n",
           "        norm(f\"{to}.bn_project\", f\"{of}.{number + 1}.1\")\n"
           "        gain, offset = state[f\"{to}.bn_project.gamma\"], state[f\"{to}.bn_project.beta\"]\n"
           "        state |= {f\"{to}.bn_project.gamma\": offset, f\"{to}.bn_project.beta\": gain}\n",
           ("exchange|has the values",), kind=("weight", "structure")),
    fault("segment/maps", "corners aligned", "decode_head", "align_corners=False", "align_corners=True", "corners",
          "align|corner|size|interpol", kind=BOTH),
    weight("segment/maps", "features joined in the other order", "decode_head.linear_fuse",
           "torch.cat(w[\"decode_head.linear_fuse.weight\"].chunk(2, 1)[::-1], 1)",
           "w[\"decode_head.linear_fuse.weight\"]", "order|exchange|permut|concat|cat"),
    fault("detr/batch first", "positions added to values, too", DETR_ATTENTIONS,
          "self.to_v(context)", "self.to_v(context + context_pos)", "positions", "value|tgt", kind=BOTH),
    weight("detr/batch first", "k and v exchanged", DETR_ATTENTIONS, "zip(\"qkv\", w", "zip(\"qvk\", w",
           ("exchange|order|has the values|row",)),
    fault("deeplab/one norm", "rates one less", f"{ASPP}.1.0 {ASPP}.2.0 {ASPP}.3.0", "3, dilation=rate, padding",
          "3, dilation=rate - 1, padding", "dilation", "dilation|pad", kind=BOTH),
    weight("deeplab/one norm", "norm of the pooled branch last",
           f"{ASPP}.0.1 {ASPP}.1.1 {ASPP}.2.1 {ASPP}.3.1 {ASPP}.4.2",
           "norms = [f\"{aspp}.convs.4.2\", *(f\"{aspp}.convs.{i}.1\" for i in range(4))]",
           "norms = [*(f\"{aspp}.convs.{i}.1\" for i in range(4)), f\"{aspp}.convs.4.2\"]",
           "exchange|order|has the values|row|roll|shift|permut", kind=(*ANY_KIND, "state")),
    fault("raft/fused gates", "reset after the convolution", "gru", "self.kept(reset * h)", "reset * self.kept(h)",
          "order", "mul|order|reset|conv", kind=BOTH),
    weight("raft/fused gates", "rows of the state in the published order",
           "gru.convz1 gru.convr1 gru.convz2 gru.convr2", "torch.cat((r, z))[:, of_state]",
           "torch.cat((z, r))[:, of_state]", ("exchange|order|has the values|row",)),
    fault("egnn/by index", "sum instead of mean", "gcl_0 gcl_1", " / degree.clamp(min=1)[:, None]", "", "mean",
          "div|mean|count|clamp", kind=BOTH),
    weight("egnn/by index", "receiver and sender exchanged", "gcl_0.edge_mlp.0 gcl_1.edge_mlp.0",
           "receiver, sender, distance = w", "sender, receiver, distance = w",
           ("exchange|order|has the values|column|permut|roll",)),
    fault("stylegan/plain weights", "style not squared", STYLED, "style.square() @", "style.abs() @", "square",
          "pow|square|abs", kind=BOTH),
    weight("stylegan/plain weights", "learning rate of the styles left out",
           inside(f"{STYLED} to_rgb1.conv to_rgbs.0.conv", "modulation"), "modulation.weight\"] * rate",
           "modulation.weight\"]", ("scale|times|mul|factor",), kind=("weight", *BOTH)),
    fault("gain/folded", "borders reflected", ".", "module = nn.Conv2d(SIZE_IN, SIZE, 3, padding=1)",
          "module = nn.Conv2d(SIZE_IN, SIZE, 3, padding=1, padding_mode=\"reflect\")", "padding", "pad", kind=BOTH),
    weight("gain/folded", "bias not scaled", ".", "w[\"conv.bias\"] * gain", "w[\"conv.bias\"]", "bias|gain|scale",
           kind=("weight", *BOTH)),
    fault("twoway/segment anything", "positions in the values", "transformer.layers.0 transformer.layers.1",
          "self.cross_attn_token_to_image(queries + query_pe, k, keys)",
          "self.cross_attn_token_to_image(queries + query_pe, k, k)", "value", "add|key|value|argument|input",
          kind=(*BOTH, "layout")),
    weight("twoway/segment anything", "last two norms exchanged",
           " ".join(f"transformer.layers.{i}.layer_norm{n}" for i in (0, 1) for n in (3, 4)),
           "layer_norm{n + 1}\" for n in range(4)", "layer_norm{(1, 2, 4, 3)[n]}\" for n in range(4)",
           ("exchange|has the values",)),
    fault("vqvae/channels last", "activation not in place", VQ_RESIDUALS,
          "            x = F.relu(x)\n            x = x + second(F.relu(first(x)))",
          "            x = x + second(F.relu(first(F.relu(x))))", "relu", "relu|residual|add|inplace", kind=BOTH),
    weight("vqvae/channels last", "kernels of transposed convolutions not flipped",
           "_decoder._conv_trans_1 _decoder._conv_trans_2", ".permute(2, 3, 0, 1).flip(0, 1)", ".permute(2, 3, 0, 1)",
           "flip|reversed"),
    fault("dit/modulated at once", "sine before cosine", "t_embedder", "torch.cat([angles.cos(), angles.sin()], -1)",
          "torch.cat([angles.sin(), angles.cos()], -1)", "order", "order|exchange|cat|concat|cos|sin",
          kind=(*BOTH, "layout")),
    weight("dit/modulated at once", "last shift and scale exchanged", "final_layer.adaLN_modulation.1",
           "shift, scale = w[", "scale, shift = w[", "order|exchange|permut|rows"),
    fault("fno/real parts", "grid with x and y exchanged", ".", "indexing=\"ij\"", "indexing=\"xy\"", "order",
          "order|exchange|transpos|permut|concat|cat", kind=(*BOTH, "layout")),
    weight("fno/real parts", "conjugated", "conv0 conv1",
           "        state[f\"waves.{i}.real\"], state[f\"waves.{i}.imag\"] = torch.cat([low, high], 1)\n",
           "        state[f\"waves.{i}.real\"], state[f\"waves.{i}.imag\"] = torch.cat([low, high], 1)\n"
           "        state[f\"waves.{i}.imag\"] = -state[f\"waves.{i}.imag\"]\n", "sign|neg|conj|-1"),
    fault("segformer/maps", "eps", SEGFORMER_NORMS, "torch.rsqrt(var + 1e-5)", "torch.rsqrt(var + 1e-3)", "eps", "eps",
          ("eps|epsilon", 1e-5, 1e-3)),
    weight("segformer/maps", "values before keys",
           f"{inside(SEGFORMER, 'attention.k_proj')} {inside(SEGFORMER, 'attention.v_proj')}",
           "f\"{source}.attention.k_proj\", f\"{source}.attention.v_proj\"",
           "f\"{source}.attention.v_proj\", f\"{source}.attention.k_proj\"",
           ("order|permut|row|exchange|has the values",)),
    fault("regnet/folded", "hard gate", inside(REGNET, "layer.2.attention.3"), "torch.sigmoid(s)", "F.hardsigmoid(s)",
          "sigmoid", "sigmoid", kind=ANY_KIND),
    weight("regnet/folded", "eps of the fold", " ".join(REGNET_UNITS), "running_var\"] + 1e-5)",
           "running_var\"] + 1e-2)", "eps|scale|running_var|fold"),
    fault("convlstm/all layers step by step", "1 added to the forget gate", "cell_list.0 cell_list.1",
          "torch.sigmoid(forget) *", "torch.sigmoid(forget + 1.0) *", "offset", "add|1", kind=BOTH),
    weight("convlstm/all layers step by step", "gates in the same order", "cell_list.0.conv cell_list.1.conv",
           "gates = [w[f\"cell_list.{i}.conv.weight\"].chunk(4)[n] for n in (0, 1, 3, 2)]",
           "gates = [w[f\"cell_list.{i}.conv.weight\"].chunk(4)[n] for n in (0, 1, 2, 3)]", "order|exchange|permut"),
]  # fmt: skip
