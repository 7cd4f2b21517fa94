"""Faults of the BERT."""

from __future__ import annotations

import torch
from torch import nn

from ..cases import Either
from ..kinds_of_fault import LAYOUT, attribute, planted, replaced, weight, written
from ..planting import changing, heads_exchanged, one_element


def _untie(network: nn.Module) -> None:
    network.decoder.weight = nn.Parameter(network.decoder.weight.detach().clone())


def _untie_and_train(network: nn.Module) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network.decoder.weight = nn.Parameter(torch.randn(40, 16))


FAULTS = [
    attribute("eps", "layers.0.output.norm", "eps", 1e-12, 1e-5),
    attribute("eps of the embeddings", "embeddings.norm", "eps", 1e-12, 1e-6),
    attribute("gelu approximated", "layers.1.activation", "approximate", "none", "tanh"),
    attribute("padding row trained", "embeddings.word", "padding_idx", 0, None),
    attribute("other row not trained", "embeddings.word", "padding_idx", 0, 1),
    attribute("dropout rate", "embeddings.dropout", "p", 0.1, 0.5, train=True),
    written("scale left out", "layers.0.attention", " / q.shape[-1] ** 0.5", "", "scale", "scale|div"),
    written("scale of the whole width", "layers.1.attention", "/ q.shape[-1] ** 0.5", "/ x.shape[-1] ** 0.5", "scale",
            "scale|div"),
    written("scale without root", "layers.0.attention", "/ q.shape[-1] ** 0.5", "/ q.shape[-1]", "scale", "scale|div"),
    written("mask left out", "layers.0.attention", "scores = scores + mask", "scores = scores", "mask", "mask"),
    written("mask subtracted", "layers.1.attention", "scores + mask", "scores - mask", "mask", "mask|sub"),
    written("mask inverted", "", "(1.0 - attention_mask[:, None, None, :])", "attention_mask[:, None, None, :]", "mask",
            "mask"),
    written("mask too weak", "", "-1e4", "-5.0", "mask", "mask|-5", name="value", reference=-1e4, candidate=-5.0),
    written("mask of the wrong axis", "", "[:, None, None, :]", "[:, None, :, None]", "mask", "mask|reshape"),
    written("softmax axis", "layers.1.attention", "dim=-1", "dim=1", "axis", "softmax", name="axis|dim",
            reference=Either((-1, 3)),
            candidate=1),
    written("q and k exchanged", "layers.1.attention", "self.split(self.query(x)), self.split(self.key(x))",
            "self.split(self.key(x)), self.split(self.query(x))", "q/k exchanged", "query|key"),
    written("heads interleaved", "layers.0.attention", "x.unflatten(-1, (self.heads, -1)).transpose(1, 2)",
            "x.unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)", "layout", "reshape|permute|heads",
            kind=LAYOUT),
    written("heads flattened in another order", "layers.1.attention", "context.transpose(1, 2).flatten(2)",
            "context.permute(0, 2, 3, 1).flatten(2)", "layout", "permute|transpose", kind=LAYOUT),
    written("residual left out", "layers.0.output", "self.dense(y) + x", "self.dense(y)", "residual", "add"),
    written("norm before adding", "layers.1.attention_output", "self.norm(self.dense(y) + x)",
            "self.norm(self.dense(y)) + x", "order", "norm add|order|place"),
    written("activation left out", "layers.0", "self.activation(self.intermediate(x))", "self.intermediate(x)",
            "activation", "activation|gelu"),
    written("wrong residual", "layers.1", "return self.output(self.activation(self.intermediate(x)), x)",
            "y = self.intermediate(x)\n    return self.output(self.activation(y), y[..., :16])", "residual",
            "residual|input|slice"),
    written("types left out", "embeddings", " + self.token_type(types)", "", "Cell left out", "token_type"),
    written("positions from one", "embeddings", "torch.arange(ids.shape[1])", "torch.arange(ids.shape[1]) + 1",
            "position", "position|1"),
    written("positions reversed", "embeddings", "torch.arange(ids.shape[1])", "torch.arange(ids.shape[1]).flip(0)",
            "position", "position|flip"),
    written("last token pooled", "", "x[:, 0]", "x[:, -1]", "index", "index|-1|select|element"),
    written("sigmoid in pooling", "", "torch.tanh(self.pooler", "torch.sigmoid(self.pooler", "activation",
            "tanh sigmoid"),
    written("relu before the decoder", "", "F.gelu(self.transform(x))", "F.relu(self.transform(x))", "activation",
            "gelu relu"),
    written("layer left out", "", "in self.layers:", "in self.layers[:1]:", "Cell left out", "layers.1"),
    written("layers exchanged", "", "in self.layers:", "in reversed(self.layers):", "order", "order|layers.1"),
    written("outputs exchanged in cast", "", "return self.decoder(F.gelu(self.transform(x))), pooled",
            "return self.decoder(F.gelu(self.transform(x)).bfloat16().to(x.dtype)), pooled", "precision", "bfloat16",
            kind="precision"),
    written("gradient to the scores stopped", "layers.0.attention", "F.softmax(scores, dim=-1) @ v",
            "F.softmax(scores, dim=-1).detach() @ v", "detached", "detach|gradient", kind=("gradient", "structure")),
    replaced("other activation", "layers.0.activation", lambda _: nn.ReLU(), "activation", "ReLU"),
    replaced("RMS norm", "layers.1.output.norm", lambda old: _rms(old), "normalization", "RMSNorm|mean"),
    weight("query transposed", "layers.0.attention.query.weight", lambda w: w.T, "transposed", "transpose"),
    weight("heads permuted", "layers.1.attention.value.weight", heads_exchanged(2), "permuted",
           "permut|exchange|order|rows"),
    weight("gain is one", "layers.1.attention_output.norm.weight", lambda w: w * 0 + 1, "not loaded", "1|initial"),
    planted("rows shifted", ("embeddings.word", "decoder"), changing("embeddings.word.weight", lambda w: w.roll(1, 0)),
            "shifted", "weight roll|shift|permut", ("weight", "layout")),
    weight("element of a weight", "layers.1.intermediate.weight", one_element, "element", "element"),
    planted("weights untied", "decoder", _untie, "untied", "tied|shared", ("weight", "state", "gradient", "structure")),
    planted("decoder not loaded", "decoder", _untie_and_train, "untied", "weight", ("weight", "state", "structure")),
]  # fmt: skip


def _rms(old: nn.LayerNorm) -> nn.Module:
    norm = nn.RMSNorm(16, eps=1e-12)
    norm.weight = old.weight
    return norm
