"""The faults of ports as data: what is written differently in the file of a port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .cases import ANY_NAME, UNKNOWN, Either


@dataclass(frozen=True)
class PortFault:
    """One mistake in a file of `ports`.

    Attributes:
        network: name of the network.
        label: what is wrong, unique within the network.
        cells: paths of the modules whose Cells are wrong; all Cells of a class that is written wrongly.
        old: text of the file, which occurs once.
        new: what is written instead.
        cause: what is wrong, in a word.
        words: as in `Case`.
        attribute: name, value of the reference and value of the port, if an attribute is wrong.
        kind: kinds of cause.
        train: compare in train mode.
    """

    network: str
    label: str
    cells: tuple[str, ...]
    old: str
    new: str
    cause: str
    words: tuple[str, ...]
    attribute: tuple[str, Any, Any] | None = None
    kind: tuple[str, ...] = ("structure",)
    train: bool = False
    same_in_float64: bool = field(default=False)

    @property
    def expected(self) -> dict[str, Any]:
        """What a tool should say of the cause."""
        if self.attribute is None:
            return {"kind": self.kind, "words": self.words}
        name, reference, candidate = self.attribute
        return {"kind": "attribute", "name": name, "reference": reference, "candidate": candidate}


def fault(
    network: str, label: str, cells: str, old: str, new: str, cause: str, words: str | tuple[str, ...] = "",
    attribute: tuple[str, Any, Any] | None = None, **more: Any,
) -> PortFault:  # fmt: skip
    """Return a fault; paths of Cells, and words in one text, are divided by blanks, and the root is `.`."""
    paths = tuple("" if path == "." else path for path in cells.split())
    all_words = tuple(words.split()) if isinstance(words, str) else words
    return PortFault(network, label, paths, old, new, cause, all_words or (cause,), attribute, **more)


BLOCKS = "blocks.0 blocks.1 blocks.2"
LAYERS = "layers.0 layers.1"


def inside(paths: str, name: str) -> str:
    """The Cell of a name in each of some Cells."""
    return " ".join(f"{path}.{name}" for path in paths.split())


FAULTS = [
    fault("resnet", "padding same by default", "conv1", "nn.Conv2d(3, 8, 3, 1, pad_mode=\"pad\", padding=1, "
          "has_bias=False)", "nn.Conv2d(3, 8, 3, 1, pad_mode=\"valid\", has_bias=False)", "padding", "pad_mode",
          ("pad_mode|padding", UNKNOWN, Either(("valid", ((0, 0), (0, 0)))))),
    fault("resnet", "eps", "bn1", "self.bn1 = nn.BatchNorm2d(8, eps=1e-5", "self.bn1 = nn.BatchNorm2d(8, eps=1e-3",
          "eps", "eps", ("eps", 1e-5, 1e-3)),
    fault("resnet", "momentum from the other end", "bn1", "self.bn1 = nn.BatchNorm2d(8, eps=1e-5, momentum=0.9)",
          "self.bn1 = nn.BatchNorm2d(8, eps=1e-5, momentum=0.1)", "momentum", "momentum",
          ("momentum", 0.1, Either((0.1, 0.9))), train=True),
    fault("resnet", "default slope", "relu", "nn.LeakyReLU(alpha=0.1)", "nn.LeakyReLU()", "negative slope", "alpha",
          ("negative_slope|alpha", 0.1, 0.2)),
    fault("resnet", "padding of pooling", "maxpool", "nn.MaxPool2d(3, 2, pad_mode=\"pad\", padding=1)",
          "nn.MaxPool2d(3, 2, pad_mode=\"same\")", "padding", "pad_mode",
          ("pad_mode|padding", UNKNOWN, Either(("same", ((0, 1), (0, 1)))))),
    fault("resnet", "padding counted", "pool.avg", "pad_mode=\"pad\", padding=1)\n\n    def construct",
          "pad_mode=\"same\")\n\n    def construct", "padding", "pad_mode|count_include_pad",
          ("pad_mode|padding", UNKNOWN, Either(("same", ((0, 1), (0, 1)))))),
    fault("resnet", "bias left out", "fc", "nn.Dense(16, 7)", "nn.Dense(16, 7, has_bias=False)", "bias", "bias",
          kind=("structure", "attribute")),
    fault("resnet", "residual left out", "layer1.0 layer1.1 layer2.0 layer2.1", "return self.relu(y + shortcut)",
          "return self.relu(y)", "residual", "add|shortcut"),
    fault("resnet", "softmax axis", "pool", "height * width), -1)", "height * width), 0)", "axis", "softmax axis",
          ("axis|dim", Either((-1, 2)), 0)),
    fault("resnet", "stride of the shortcut", "layer2.0.shortcut.0", "channels, 1, stride, has_bias=False)",
          "channels, 1, stride, pad_mode=\"valid\", has_bias=True)", "bias", "bias",
          kind=("structure", "attribute")),
    fault("resnet", "norm of the features", ".", "ops.sqrt((x * x).sum(1, keepdims=True))",
          "ops.abs(x).sum(1, keepdims=True)", "norm", "norm|sqrt|abs"),
    fault("vit", "default eps", "norm", "self.norm = nn.LayerNorm((width,), epsilon=1e-6)",
          "self.norm = nn.LayerNorm((width,))", "eps", "epsilon", ("eps|epsilon", 1e-6, 1e-7)),
    fault("vit", "eps of torch", inside(BLOCKS, "norm1"), "self.norm1 = nn.LayerNorm((width,), epsilon=1e-6)",
          "self.norm1 = nn.LayerNorm((width,), epsilon=1e-5)", "eps", "epsilon", ("eps|epsilon", 1e-6, 1e-5)),
    fault("vit", "gelu approximated by default", inside(BLOCKS, "mlp.act"), "nn.GELU(approximate=False)", "nn.GELU()",
          "gelu", "approximate", ("approximate", "none", Either((True, "tanh")))),
    fault("vit", "dropout keeps", inside(BLOCKS, "attn.drop"), "nn.Dropout(p=0.1)", "nn.Dropout(0.1)", "dropout rate",
          "dropout|keep_prob|p", (ANY_NAME, Either((0.1, 0.9)), Either((0.1, 0.9))), train=True),
    fault("vit", "scale left out", inside(BLOCKS, "attn"), " * self.scale, -1)", ", -1)", "scale", "scale"),
    fault("vit", "softmax axis", inside(BLOCKS, "attn"), " * self.scale, -1)", " * self.scale, -2)", "axis",
          "softmax axis", ("axis|dim", Either((-1, 3)), Either((-2, 2)))),
    fault("vit", "q and k exchanged", inside(BLOCKS, "attn"), "q, k, v = qkv[0], qkv[1]", "k, q, v = qkv[0], qkv[1]",
          "q/k exchanged", "0|1|exchange"),
    fault("vit", "heads not brought back", inside(BLOCKS, "attn"), "v).swapaxes(1, 2).reshape", "v).reshape", "layout",
          "transpose|swap", kind=("layout", "structure")),
    fault("vit", "patches column by column", "patch_embed", "return x.reshape(x.shape[0], x.shape[1], -1)",
          "return x.swapaxes(2, 3).reshape(x.shape[0], x.shape[1], -1)", "layout", "transpose|swap|layout",
          kind=("layout", "structure")),
    fault("vit", "layer scale left out", BLOCKS, "x + self.gamma2 * self.mlp", "x + self.mlp", "factor", "gamma2|mul"),
    fault("vit", "norm left out", BLOCKS, "self.mlp(self.norm2(x))", "self.mlp(x)", "Cell left out", "norm2"),
    fault("vit", "residual left out", BLOCKS, "x = x + self.gamma1", "x = self.gamma1", "residual", "add"),
    fault("vit", "class token last", ".", "ops.concat((first, x), axis=1)", "ops.concat((x, first), axis=1)", "order",
          "concat|order"),
    fault("vit", "position left out", ".", "x = x + self.pos_embed", "x = x + self.pos_embed * 0", "position",
          "pos_embed|mul|0"),
    fault("vit", "activation left out", inside(BLOCKS, "mlp"), "self.fc2(self.act(self.fc1(x)))",
          "self.fc2(self.fc1(x))", "activation", "act|gelu"),
    fault("llama", "eps", inside(LAYERS, "input_norm"), "self.input_norm = RMSNorm(width)",
          "self.input_norm = RMSNorm(width, 1e-6)", "eps", "eps", (ANY_NAME, 1e-5, 1e-6)),
    fault("llama", "rotary base", inside(LAYERS, "self_attn.rotary"), "Rotary(self.head_size)",
          "Rotary(self.head_size, 1000.0)", "base", "base", ("base", 10000.0, 1000.0)),
    fault("llama", "rotary interleaved", inside(LAYERS, "self_attn.rotary"), "x[..., :half], x[..., half:]",
          "x[..., ::2], x[..., 1::2]", "interleaved", "interleav|slice|stride",
          kind=("layout", "structure", "attribute")),
    fault("llama", "rotation the other way", inside(LAYERS, "self_attn.rotary"), "first * cos - second * sin, second * "
          "cos + first * sin", "first * cos + second * sin, second * cos - first * sin", "sign", "sub|sign"),
    fault("llama", "mask off by one", inside(LAYERS, "self_attn"), "bool), 1))", "bool), 2))", "mask", "mask|triu"),
    fault("llama", "mask left out", inside(LAYERS, "self_attn"), "ops.masked_fill(scores, later, float(\"-inf\"))",
          "scores", "mask", "mask|triangle"),
    fault("llama", "scale of the whole width", inside(LAYERS, "self_attn"), "self.head_size**-0.5",
          "x.shape[-1] ** -0.5", "scale", "scale|mul", kind=("structure", "attribute")),
    fault("llama", "keys not rotated", inside(LAYERS, "self_attn"), "self.rotary(q), self.rotary(k)",
          "self.rotary(q), k", "Cell left out", "rotary"),
    fault("llama", "heads repeated in turn", inside(LAYERS, "self_attn"),
          "k = ops.repeat_interleave(k, self.heads // self.kv_heads, 1)",
          "k = ops.concat([k] * (self.heads // self.kv_heads), axis=1)", "grouping", "repeat|concat|tile",
          kind=("layout", "structure")),
    fault("llama", "gate and up exchanged", inside(LAYERS, "mlp"), "ops.silu(self.gate_proj(x)) * self.up_proj(x)",
          "ops.silu(self.up_proj(x)) * self.gate_proj(x)", "gate/up exchanged", "gate_proj|up_proj"),
    fault("llama", "gelu instead of silu", inside(LAYERS, "mlp"), "ops.silu(", "ops.gelu(", "activation", "gelu silu"),
    fault("llama", "gain of the norm left out", "layers.0.input_norm layers.0.post_norm layers.1.input_norm "
          "layers.1.post_norm norm", "return self.weight * (x * ops.rsqrt(variance + self.eps))",
          "return x * ops.rsqrt(variance + self.eps)", "factor", "weight|mul"),
    fault("llama", "last norm left out", ".", "self.lm_head(self.norm(x))", "self.lm_head(x)", "Cell left out", "norm"),
    fault("lstm_tagger", "padding row trained", "embedding", "return rows * (ids != 0).expand_dims(-1).astype("
          "rows.dtype)", "return rows", "padding_idx", "padding_idx",
          ("padding_idx|padding_index", 0, None), same_in_float64=True),
    fault("lstm_tagger", "default eps", "norm", "nn.LayerNorm((2 * width,), epsilon=1e-5)",
          "nn.LayerNorm((2 * width,))", "eps", "epsilon", ("eps|epsilon", 1e-5, 1e-7)),
    fault("lstm_tagger", "time first by default", "lstm", ", batch_first=True)", ")", "batch first", "batch_first",
          ("batch_first", True, False)),
    fault("lstm_tagger", "gates in another order", "character", "i, f, g, o =", "f, i, g, o =", "gates",
          "gate|order|exchange"),
    fault("lstm_tagger", "forget bias", "character", "ops.sigmoid(f) * c", "ops.sigmoid(f + 1.0) * c", "offset",
          "1|add"),
    fault("lstm_tagger", "cell not activated", "character", "ops.tanh(c)", "c", "activation", "tanh"),
    fault("lstm_tagger", "read from the right", "character", "in range(x.shape[1])", "in reversed(range(x.shape[1]))",
          "order", "order|revers|flip|element 6"),
    fault("lstm_tagger", "gate inverted", "highway.0 highway.1", "(1 - gate) * x", "gate * x", "gates", "sub|gate|1"),
    fault("lstm_tagger", "tanh instead of relu", "highway.0 highway.1", "ops.relu(", "ops.tanh(", "activation",
          "tanh relu"),
    fault("lstm_tagger", "residual left out", ".", "x = x + self.character(x)", "x = self.character(x)", "residual",
          "add"),
    fault("lstm_tagger", "softmax axis", ".", "(x)), -1)", "(x)), 1)", "axis", "softmax axis",
          ("axis|dim", Either((-1, 2)), 1)),
    fault("lstm_tagger", "gate without gradient", "highway.0 highway.1", "gate = ops.sigmoid(self.gate(x))",
          "gate = ops.stop_gradient(ops.sigmoid(self.gate(x)))", "detached", "gradient|stop_gradient|detach",
          kind=("gradient", "structure"), same_in_float64=True),
    fault("lstm_tagger", "half precision", "highway.0 highway.1", "gate = ops.sigmoid(self.gate(x))",
          "gate = ops.sigmoid(self.gate(x)).astype(\"float16\").astype(x.dtype)", "precision", "half|float16",
          kind=("precision",), same_in_float64=True),
]  # fmt: skip
