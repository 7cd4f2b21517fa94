"""Faults of the ConvNeXt."""

from __future__ import annotations

from torch import nn

from ..kinds_of_fault import LAYOUT, attribute, planted, replaced, weight, written
from ..planting import one_element


def _padding(network: nn.Module) -> None:
    conv = network.get_submodule("stage2.0.dwconv")
    conv.padding_mode = "circular"


FAULTS = [
    attribute("eps", "stage1.0.norm", "eps", 1e-6, 1e-5),
    attribute("eps of the stem", "stem_norm", "eps", 1e-6, 1e-3),
    attribute("gelu approximated", "stage2.1.act", "approximate", "none", "tanh"),
    planted("padding mode", "stage2.0.dwconv", _padding, "padding_mode", "padding_mode|circular", "attribute"),
    written("channels first in the norm", "stem_norm", "y = x.permute(0, 2, 3, 1)",
            "y = x.reshape(x.shape[0], x.shape[2], x.shape[3], x.shape[1])", "layout", "reshape permute|transpose",
            kind=LAYOUT),
    written("height and width exchanged", "down_norm", "y.permute(0, 3, 1, 2)", "y.permute(0, 3, 2, 1)", "layout",
            "permut|transpose|order", kind=LAYOUT),
    written("norm over the batch", "stage1.0.grn", "dim=(1, 2)", "dim=(0, 1)", "axis", "axis|dim|norm"),
    written("first norm", "stage1.1.grn", "p=2", "p=1", "norm", "norm|p"),
    written("eps of the response", "stage2.0.grn", "1e-6", "1e-2", "eps", "eps|0.01|add", name="value", reference=1e-6,
            candidate=1e-2),
    written("input not added to the response", "stage2.1.grn", " + self.beta + x", " + self.beta", "residual", "add"),
    written("mean of the wrong axis", "stage1.0.grn", "size.mean(dim=-1", "size.mean(dim=0", "axis", "mean|axis"),
    written("offset scaled", "stage1.1.grn", "self.gamma * (x * share) + self.beta", "self.gamma * (x * share + "
            "self.beta)", "order", "beta|mul add"),
    written("residual left out", "stage1.0", "return x + y", "return y", "residual", "add"),
    written("residual of the convolution", "stage1.1", "return x + y", "return self.dwconv(x) + y", "residual",
            "dwconv|add"),
    written("layer scale left out", "stage2.0", "(self.gamma * y)", "y", "factor", "gamma|mul"),
    written("norm after the activation", "stage2.1", "self.pwconv1(self.norm(y))", "self.pwconv1(y)", "Cell left out",
            "norm"),
    written("response before activation", "stage1.0", "self.grn(self.act(y))", "self.act(self.grn(y))", "order",
            "grn act"),
    written("response left out", "stage2.0", "self.grn(self.act(y))", "self.act(y)", "Cell left out", "grn"),
    written("height and width exchanged in the block", "stage1.1", ".permute(0, 3, 1, 2)", ".permute(0, 3, 2, 1)",
            "layout", "permut|transpose|order", kind=LAYOUT),
    written("norm after downsampling", "", "self.down(self.down_norm(x))", "self.down_norm(self.down(x)[:, :8]).repeat("
            "1, 2, 1, 1)[:, :12]", "order", "down_norm|order"),
    written("blocks exchanged", "", "self.stage1(self.stem_norm(self.stem(images)))",
            "self.stage1[0](self.stage1[1](self.stem_norm(self.stem(images))))", "order", "order|stage1"),
    written("mean after the norm", "", "self.norm(x.mean((-2, -1)))",
            "self.norm(x.permute(0, 2, 3, 1)).mean((1, 2))", "order", "mean"),
    written("one position", "", "x.mean((-2, -1))", "x[..., 0, 0]", "reduction", "mean"),
    replaced("activation without smoothness", "stage1.0.act", lambda _: nn.ReLU(), "activation", "ReLU"),
    replaced("RMS norm", "stage2.0.norm", lambda old: _rms_norm(old), "normalization", "norm"),
    weight("square kernel transposed", "stage1.0.dwconv.weight", lambda w: w.transpose(-1, -2), "transposed",
           "transpose"),
    weight("kernel shifted", "stage2.1.dwconv.weight", lambda w: w.roll(1, -1), "shifted", "roll|shift"),
    weight("channels in another order", "stem.weight", lambda w: w.flip(1), "permuted", "revers|flip|permut|order"),
    weight("layer scale is one", "stage1.1.gamma", lambda w: w * 0 + 1, "not loaded", "1|initial"),
    weight("element of a weight", "stage2.0.pwconv2.weight", one_element, "element", "element"),
    weight("a bias is zero", "stage2.1.pwconv1.bias", lambda w: w * 0, "not loaded", "0|zero"),
    written("squares in half precision", "stage1.0.grn", "size = x.norm", "size = x.half().to(x.dtype).norm",
            "precision", "half|float16", kind="precision"),
    written("share without gradient", "stage2.0.grn", "x * share", "x * share.detach()", "detached", "detach|gradient",
            kind=("gradient", "structure")),
]  # fmt: skip


def _rms_norm(old: nn.LayerNorm) -> nn.Module:
    norm = nn.RMSNorm(12, eps=1e-6)
    norm.weight = old.weight
    return norm
