"""Faults of the U-Net."""

from __future__ import annotations

import torch
from torch import nn

from ..kinds_of_fault import LAYOUT, attribute, planted, weight, written
from ..planting import one_element, thirds_exchanged

ATTENTION_CALL = "F.scaled_dot_product_attention(q, k, v)"

FAULTS = [
    attribute("eps", "down1.norm1", "eps", 1e-5, 1e-6),
    attribute("eps of the attention", "attention.norm", "eps", 1e-6, 1e-5),
    attribute("groups of a norm", "up1.norm2", "num_groups", 4, 2),
    attribute("corners aligned", "upsample", "align_corners", False, True),
    planted("nearest", "upsample", lambda m: setattr(m, "upsample", nn.Upsample(scale_factor=2.0, mode="nearest")),
            "mode", "mode", "attribute"),
    attribute("period", "time", "max_period", 10000.0, 1000.0),
    attribute("dropout rate", "down2.dropout", "p", 0.1, 0.3, train=True),
    written("cosine first", "time", "[angles.sin(), angles.cos()]", "[angles.cos(), angles.sin()]", "order",
            "sin|cos|cat"),
    written("frequencies end at the period", "time", "dtype=self.fc1.weight.dtype) / half",
            "dtype=self.fc1.weight.dtype) / (half - 1)", "frequency", "div|3"),
    written("time in thousandths", "time", "t[:, None] *", "t[:, None] / 1000 *", "scale", "1000|div"),
    written("activation left out of the time", "time", "F.silu(self.fc1(x))", "self.fc1(x)", "activation", "silu"),
    written("scale and shift exchanged", "down1", "scale, shift =", "shift, scale =", "exchanged",
            "chunk|split|order|exchange"),
    written("one left out of the scale", "down2", "(1 + scale)", "scale", "offset", "1|add"),
    written("shift before the norm", "up1", "y = self.norm2(y) * (1 + scale) + shift",
            "y = self.norm2(y + shift) * (1 + scale)", "order", "norm2|order|add"),
    written("time not activated", "up1", "self.time(F.silu(time))", "self.time(time)", "activation", "silu"),
    written("activation before the norm", "down1", "F.silu(self.norm1(x))", "self.norm1(F.silu(x))", "order",
            "silu norm1"),
    written("sum not divided", "down2", " / math.sqrt(2)", "", "scale", "sqrt|div|1.414"),
    written("skip left out", "up1", "self.skip(x) + y", "y", "residual", "skip"),
    written("relu instead of silu", "down1", "self.dropout(F.silu(y))", "self.dropout(F.relu(y))", "activation",
            "relu silu"),
    written("scale of the attention left out", "attention", "(q, k, v)", "(q, k, v, scale=1.0)", "scale", "scale",
            name="scale", reference=None, candidate=1.0),
    written("causal attention", "attention", "(q, k, v)", "(q, k, v, is_causal=True)", "mask", "causal",
            name="is_causal|causal", reference=False, candidate=True),
    written("q and k exchanged", "attention", "q, k, v =", "k, q, v =", "q/k exchanged", "query|key|order|q and k"),
    written("residual left out", "attention", "return x + self", "return self", "residual", "add"),
    written("residual of the norm", "attention", "return x + self", "return self.norm(x) + self", "residual", "norm"),
    written("norm left out", "attention", "self.norm(x).flatten(2)", "x.flatten(2)", "Cell left out", "norm"),
    written("height and width exchanged", "attention", "self.proj(y).view(batch, channels, height, width)",
            "self.proj(y).view(batch, channels, height, width).transpose(2, 3)", "layout", "transpose",
            kind=LAYOUT),
    written("concatenated in another order", "", "[x, skip]", "[skip, x]", "order", "cat"),
    written("skip from before the block", "", "torch.cat([x, skip], dim=1)", "torch.cat([x, self.conv_in(images)], "
            "dim=1)", "other value", "conv"),
    written("sampled up after the convolution", "", "self.up_conv(self.upsample(x))", "self.upsample(self.up_conv(x))",
            "order", "upsample|up_conv"),
    written("last activation left out", "", "F.silu(self.norm_out(x))", "self.norm_out(x)", "activation", "silu"),
    written("time of one image", "", "time = self.time(t)", "time = self.time(t[:1].expand_as(t))", "broadcast",
            "slice|expand|t"),
    weight("thirds exchanged", "attention.qkv.weight", thirds_exchanged, "q/k exchanged", "permut|exchange|order"),
    weight("square kernel transposed", "conv_out.weight", lambda w: w.transpose(2, 3), "transposed", "transpose"),
    weight("gain and bias of a norm", "norm_out.weight", lambda w: w - 1, "offset", "1|offset"),
    weight("projection transposed", "attention.proj.weight", lambda w: w.transpose(0, 1), "transposed", "transpose"),
    weight("element of a weight", "down2.time.weight", one_element, "element", "element"),
    weight("halves exchanged", "up1.time.weight", lambda w: torch.cat(w.chunk(2)[::-1]), "permuted",
           "permut|exchange|order"),
    written("times in half precision", "time", "angles = t[:, None]", "angles = t.half().to(t.dtype)[:, None] * "
            "torch.tensor(1 / 3).half().to(t.dtype) * 3", "precision", "half|float16", kind="precision"),
    written("skip detached", "", "torch.cat([x, skip], dim=1)", "torch.cat([x, skip.detach()], dim=1)", "detached",
            "detach|gradient", kind=("gradient", "structure")),
]  # fmt: skip
