"""Faults of the Mamba."""

from __future__ import annotations

from ..kinds_of_fault import attribute, planted, weight, written
from ..planting import one_element

SCAN = "layers.0.mixer.scan"

FAULTS = [
    attribute("eps", "layers.0.norm", "eps", 1e-5, 1e-6),
    attribute("default eps", "norm_f", "eps", 1e-5, None),
    written("sign of the decay", SCAN, "a = -torch.exp(self.log_a)", "a = -self.log_a", "exp", "exp"),
    written("relu instead of softplus", SCAN, "F.softplus(self.dt_proj(dt))", "F.relu(self.dt_proj(dt))", "activation",
            "relu softplus"),
    written("step size not in the input", "layers.1.mixer.scan", "drive = dt[..., None] * b", "drive = b", "factor",
            "mul|dt"),
    written("skip left out", SCAN, " + self.d * x", "", "residual", "add|d"),
    written("skip not scaled", "layers.1.mixer.scan", "self.d * x", "x", "factor", "d|mul"),
    written("b and c exchanged", SCAN, "dt, b, c =", "dt, c, b =", "exchanged", "split|order|exchange"),
    written("output before the step", "layers.1.mixer.scan", "state = decay[:, t] * state + drive[:, t]\n"
            "        outputs.append((state * c[:, t, None, :]).sum(-1))", "outputs.append((state * c[:, t, None, :])."
            "sum(-1))\n        state = decay[:, t] * state + drive[:, t]", "order", "order|previous|state"),
    written("scan from the right", SCAN, "range(x.shape[1])", "reversed(range(x.shape[1]))", "order",
            "order|revers|flip|element 6"),
    written("zero-order hold", "layers.1.mixer.scan", "drive = dt[..., None] * b[:, :, None, :]",
            "drive = (decay - 1) / a * b[:, :, None, :]", "discretization", "div|sub"),
    written("mean over states", SCAN, ".sum(-1)", ".mean(-1)", "reduction", "mean sum"),
    written("halves exchanged", "layers.0.mixer", "x, z = self", "z, x = self", "gate/up exchanged",
            "chunk|split|order|exchange"),
    written("convolution sees later steps", "layers.0.mixer", "[..., :length]", "[..., -length:]", "causal", "slice"),
    written("convolution off by one", "layers.1.mixer", "[..., :length]", "[..., 1 : length + 1]", "causal", "slice"),
    written("not activated", "layers.1.mixer", "self.scan(F.silu(x))", "self.scan(x)", "activation", "silu"),
    written("gate is sigmoid", "layers.0.mixer", "F.silu(z)", "F.sigmoid(z)", "activation", "sigmoid silu"),
    written("gate after projection", "layers.1.mixer", "y * F.silu(z)", "y", "gate", "mul|silu"),
    written("residual left out", "layers.0", "x + self.mixer", "self.mixer", "residual", "add"),
    written("norm left out", "layers.1", "self.mixer(self.norm(x))", "self.mixer(x)", "Cell left out", "norm"),
    written("layers in another order", "", "in self.layers:", "in reversed(self.layers):", "order", "order|layers"),
    written("last norm left out", "", "self.lm_head(self.norm_f(x))", "self.lm_head(x)", "Cell left out", "norm_f"),
    weight("decay of the states reversed", "layers.1.mixer.scan.log_a", lambda w: w.flip(-1), "permuted",
           "revers|flip|permut|order"),
    weight("kernels reversed in time", "layers.0.mixer.conv.weight", lambda w: w.flip(-1), "flipped", "flip|revers"),
    weight("halves of a weight exchanged", "layers.1.mixer.in_proj.weight", lambda w: w.roll(16, 0), "permuted",
           "permut|exchange|order|roll"),
    weight("element of a weight", "layers.0.mixer.out_proj.weight", one_element, "element", "element"),
    planted("padding mode", "layers.1.mixer.conv", lambda m: _replicate(m.layers[1].mixer.conv), "padding_mode",
            "padding_mode|replicate", "attribute"),
    written("state detached", SCAN, "decay[:, t] * state +", "decay[:, t] * state.detach() +", "detached",
            "detach|gradient", kind=("gradient", "structure")),
    written("state in half precision", "layers.1.mixer.scan", "(state * c[:, t, None, :])",
            "(state.half().to(x.dtype) * c[:, t, None, :])", "precision", "half|float16", kind="precision"),
]  # fmt: skip


def _replicate(conv: object) -> None:
    conv.padding_mode, conv._reversed_padding_repeated_twice = "replicate", [3, 3]  # type: ignore[attr-defined]
