"""Faults that the given inputs hide: sides that agree until other inputs, another mode or a further call are tried."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .cases import Case, Fault
from .kinds_of_fault import attribute, replaced, weight, written
from .networks import NETWORKS
from .pairs import Pair
from .planting import copy_of, editing
from .proving import strongest_of_modules
from .running import double_arguments, run_module

Arguments = tuple[Tensor, ...]


@dataclass(frozen=True)
class HiddenFault:
    """A fault, inputs that hide it, and inputs that show it.

    Attributes:
        network: name of the network.
        fault: what is wrong.
        given: returns the inputs that a user compares with; None for the network's own.
        calls: return the inputs of calls in order, the last of which shows the fault; None for the network's own.
        in_training: the fault shows in train mode.
        factor: of the inputs of the wrong Cell, for faults that only other weights before it can show.
    """

    network: str
    fault: Fault
    given: Callable[[], Arguments] | None
    calls: Sequence[Callable[[], Arguments] | None] = (None,)
    in_training: bool = False
    factor: float = 1.0


def _ids(length: int, words: int, batch: int = 2, least: int = 0) -> Tensor:
    return (torch.arange(batch * length) * 7 % (words - least) + least).reshape(batch, length)


def _images(height: int, width: int, batch: int = 2, size: float = 1.0) -> Callable[[], Arguments]:
    return lambda: (size * torch.randn(batch, 3, height, width),)


def _text(length: int, words: int, batch: int = 2, least: int = 0) -> Callable[[], Arguments]:
    return lambda: (_ids(length, words, batch, least),)


def _bert(length: int = 9, words: int = 40, types: bool = True) -> Callable[[], Arguments]:
    return lambda: (_ids(length, words, least=1), (_ids(length, 2) if types else 0 * _ids(length, 2)),
                    torch.ones(2, length, dtype=torch.long))  # fmt: skip


def _t5(length: int = 10, target: int = 6, words: int = 25) -> Callable[[], Arguments]:
    return lambda: (_ids(length, 25), torch.ones(2, length, dtype=torch.bool), _ids(target, words))


def _noisy(height: int, width: int, *times: float) -> Callable[[], Arguments]:
    return lambda: (torch.randn(len(times), 3, height, width), torch.tensor(times))


def _kept_state() -> Fault:
    """The hidden state of the last call is where the next one starts."""
    first = ("h = c = x.new_zeros(x.shape[0], self.width)",
             "c = x.new_zeros(x.shape[0], self.width)\n    h = getattr(self, 'last', c)\n"
             "    if h.shape != c.shape or h.dtype != c.dtype:\n        h = c")  # fmt: skip
    last = ("return torch.stack(states, dim=1)", "self.last = h.detach()\n    return torch.stack(states, dim=1)")
    plant = editing("character", (f"{first[0]}", first[1]))

    def both(network: nn.Module) -> None:
        plant(network)
        editing("character", last)(network)

    words = ("call|state",)
    return Fault("state kept between calls", ("character",), "state", {"kind": ("state", "structure"), "words": words},
                 both, words)  # fmt: skip


HIDDEN = [
    HiddenFault("bert", written("mask left out", "layers.0.attention", "scores = scores + mask", "scores = scores",
                                "mask"), _bert()),
    HiddenFault("bert", written("mask of the wrong axis", "", "[:, None, None, :]", "[:, None, :, None]", "mask",
                "mask|reshape"),
                _bert()),
    HiddenFault("bert", attribute("padding row trained", "embeddings.word", "padding_idx", 0, None), _bert()),
    HiddenFault("bert", written("last word unknown", "embeddings", "self.word(ids)", "self.word(ids.clamp(max=38))",
                                "clamp", "clamp|maximum|38"), _bert(words=39), [_bert(words=40)]),
    HiddenFault("bert", written("types ignored", "embeddings", "self.token_type(types)", "self.token_type(types * 0)",
                                "types", "mul|0"), _bert(types=False)),
    HiddenFault("bert", written("positions stop", "embeddings", "torch.arange(ids.shape[1])",
                                "torch.arange(ids.shape[1]).clamp(max=8)", "position", "clamp|8"), _bert(),
                [_bert(length=12)]),
    HiddenFault("llama", written("window", "layers.0.self_attn", ".triu(1)", ".triu(1) | torch.ones(length, length, "
                                 "dtype=torch.bool).tril(-8)", "mask", "mask|tri|or"), None, [_text(12, 30)]),
    HiddenFault("llama", written("rotary positions stop", "layers.1.self_attn.rotary", "torch.arange(x.shape[-2], "
                                 "dtype=x.dtype)", "torch.arange(x.shape[-2], dtype=x.dtype).clamp(max=6)", "position",
                                 "clamp|6"), None, [_text(12, 30)]),
    HiddenFault("llama", written("last word unknown", "", "self.embed_tokens(ids)", "self.embed_tokens(ids.clamp(max="
                                 "28))", "clamp", "clamp|minimum|28"), _text(7, 29), [_text(7, 30, 5)]),
    HiddenFault("llama", written("first text only", "", "self.embed_tokens(ids)", "self.embed_tokens(ids[:1])", "batch",
                                 "slice|batch|shape"), _text(7, 30, 1)),
    HiddenFault("llama", written("positions of the first call", "layers.0.self_attn.rotary", "positions = torch.arange("
                                 "x.shape[-2], dtype=x.dtype)", "positions = self.__dict__.setdefault('positions', "
                                 "torch.arange(x.shape[-2])).to(x.dtype)", "state", "call|state|shape"), None,
                [None, _text(5, 30)]),
    HiddenFault("gpt2", written("late word seen", "h.0.attn", "self.causal[:length, :length]",
                                "self.causal[:length, :length] | (torch.arange(length) == 9)", "mask", "mask|or|9"),
                None, [_text(12, 30)]),
    HiddenFault("gpt2", weight("late positions", "wpe.weight", lambda w: torch.cat([w[:9], w[9:].flip(0)]), "permuted",
                               "permut|order|element"), None, [_text(12, 30)]),
    HiddenFault("gpt2", written("positions start again", "", "torch.arange(ids.shape[1])",
                                "torch.arange(ids.shape[1]) % 8", "position", "8|remainder|mod"), None,
                [_text(12, 30)]),
    HiddenFault("gpt2", attribute("dropout rate", "h.1.mlp.dropout", "p", 0.1, 0.5), None, in_training=True),
    HiddenFault("lstm_tagger", attribute("padding row trained", "embedding", "padding_idx", 0, None),
                _text(7, 30, 3, least=1)),
    HiddenFault("lstm_tagger", written("seven steps", "character", "range(x.shape[1])", "range(min(x.shape[1], 7))",
                                       "length", "length|shape|7"), None, [_text(9, 30)]),
    HiddenFault("lstm_tagger", written("relu6", "highway.0", "F.relu(self.transform(x))",
                                       "F.relu6(self.transform(x))", "clamp", "clamp|relu6|hardtanh"), None,
                factor=30.0),
    HiddenFault("lstm_tagger", _kept_state(), None, [None, _text(7, 30, 3)]),
    HiddenFault("mamba", written("threshold of the softplus", "layers.0.mixer.scan", "F.softplus(self.dt_proj(dt))",
                                 "F.softplus(self.dt_proj(dt), threshold=8.0)", "threshold", "threshold|softplus"),
                None, factor=30.0),
    HiddenFault("mamba", written("state clamped", "layers.1.mixer.scan", "state = decay[:, t] * state + drive[:, t]",
                                 "state = (decay[:, t] * state + drive[:, t]).clamp(-50, 50)", "clamp", "clamp|50"),
                None, factor=30.0),
    HiddenFault("mamba", written("length fixed", "layers.0.mixer", "[..., :length]", "[..., :7]", "length",
                                 "slice|shape|7"), None, [_text(9, 20)]),
    HiddenFault("mobilenet", written("gate clamped", "blocks.0.se", "F.hardsigmoid(scale)",
                                     "F.hardsigmoid(scale.clamp(-2.5, 2.5))", "clamp", "clamp|2.5"), None,
                factor=1000.0),
    HiddenFault("mobilenet", written("pool of a fixed size", "", "x.mean((2, 3))", "F.avg_pool2d(x, 5)", "size",
                                     "mean|pool|shape"), None, [_images(32, 32)]),
    HiddenFault("mobilenet", attribute("momentum", "blocks.0.bn1", "momentum", 0.01, 0.99), None, in_training=True),
    HiddenFault("mobilenet", attribute("dropout rate", "dropout", "p", 0.2, 0.5), None, in_training=True),
    HiddenFault("resnet", attribute("ceiling of the first pool", "maxpool", "ceil_mode", False, True),
                _images(23, 23, 4), [None]),
    HiddenFault("resnet", attribute("ceiling of the last pool", "pool.avg", "ceil_mode", False, True),
                _images(20, 20, 4), [None]),
    HiddenFault("resnet", replaced("relu6", "layer1.0.relu", lambda _: nn.ReLU6(), "clamp", "relu6|clamp|6"),
                None, [_images(24, 24, 4, 100.0)]),
    HiddenFault("resnet", attribute("momentum", "layer2.0.bn1", "momentum", 0.1, 0.9), None, in_training=True),
    HiddenFault("seq2seq", written("four words", "", "range(target.shape[1])", "range(4)", "length", "length|shape|4"),
                None, [lambda: (_ids(6, 20), _ids(6, 20))]),
    HiddenFault("seq2seq", written("last word unknown", "", "self.source(source)", "self.source(source.clamp(max=18))",
                                   "clamp", "clamp|18"), lambda: (_ids(6, 19), _ids(4, 20)),
                [lambda: (_ids(6, 20, 4), _ids(4, 20, 4))]),
    HiddenFault("t5", attribute("largest distance", "encoder_bias", "max_distance", 16, 32), _t5(length=3), [None]),
    HiddenFault("t5", written("mask left out", "", "masked_fill(~mask, -1e9)", "masked_fill(~mask, 0.0)", "mask",
                              "mask|0|where"), _t5()),
    HiddenFault("t5", written("mask of the memory left out", "", "memory, padding)", "memory, padding * 0)", "mask",
                              "mul|0|mask"), _t5()),
    HiddenFault("t5", written("causal mask left out", "", "+ causal", "", "mask", "add|causal|mask"), _t5(target=1)),
    HiddenFault("t5", written("last word unknown", "", "self.shared(decoder_ids)",
                              "self.shared(decoder_ids.clamp(max=23))", "clamp", "clamp|23"), _t5(target=6, words=24),
                [_t5(target=12)]),
    HiddenFault("unet", replaced("size of the upsampling", "upsample", lambda _: nn.Upsample(size=(12, 12),
                                 mode="bilinear", align_corners=False), "size", "size|scale|shape"), None,
                [_noisy(16, 16, 3.0, 250.0)]),
    HiddenFault("unet", written("late times", "time", "t[:, None] *", "t.clamp(max=500)[:, None] *", "clamp",
                                "clamp|500"), None, [_noisy(12, 12, 3.0, 900.0)]),
    HiddenFault("unet", written("height and width exchanged", "attention", "view(batch, channels, height, width)",
                                "view(batch, channels, width, height)", "layout", "reshape|view|shape"), None,
                [_noisy(12, 16, 3.0, 250.0)]),
    HiddenFault("unet", attribute("dropout rate", "down2.dropout", "p", 0.1, 0.3), None, in_training=True),
    HiddenFault("vit", written("scores clamped", "blocks.1.attn", "(q @ k.transpose(-2, -1) * self.scale)",
                               "(q @ k.transpose(-2, -1) * self.scale).clamp(-30, 30)", "clamp", "clamp|30"), None,
                factor=100.0),
    HiddenFault("vit", written("one image", "", "self.cls_token.expand(x.shape[0], -1, -1), x",
                               "self.cls_token, x[:1]", "batch", "slice|batch|shape"), _images(16, 16, 1), [None]),
    HiddenFault("vit", attribute("dropout rate", "blocks.1.attn.drop", "p", 0.1, 0.2), None, in_training=True),
    HiddenFault("wavenet", written("sixteen steps", "layers.2", "features = self.conv(x)",
                                   "features = self.conv(x)[..., :16]", "length", "slice|shape|16"), None,
                [lambda: (torch.randn(2, 1, 32), torch.randn(2, 3, 8))]),
    HiddenFault("wavenet", written("gate clamped", "layers.0", "torch.sigmoid(gate)",
                                   "torch.sigmoid(gate.clamp(-8, 8))", "clamp", "clamp|8"), None, factor=100.0),
    HiddenFault("convnext", written("pool of a fixed size", "", "x.mean((-2, -1))",
                                    "F.avg_pool2d(x, 3)[..., 0, 0]", "size", "mean|pool"), None, [_images(48, 48)]),
    HiddenFault("convnext", written("sizes rounded up", "", "self.stem(images)", "self.stem(F.pad(images, (0, -images."
                                    "shape[-1] % 4, 0, -images.shape[-2] % 4)))", "padding", "pad"), None,
                [_images(26, 26)]),
    HiddenFault("efficientnet", written("padding at the left", "stem", "[total // 2, total - total // 2]",
                                        "[total - total // 2, total // 2]", "padding", "pad"), _images(17, 17, 3),
                [None]),
    HiddenFault("efficientnet", attribute("depth rate", "blocks.0.drop", "rate", 0.2, 0.5), None, in_training=True),
    HiddenFault("efficientnet", replaced("pool of a fixed size", "pool", lambda _: nn.AvgPool2d(5), "size",
                                         "pool|size|shape"), None, [_images(32, 32, 3)]),
    HiddenFault("moe", written("expert clamped", "layers.0.mixture.shared", "F.relu(self.w1(x)).square()",
                               "F.relu(self.w1(x)).clamp(max=40).square()", "clamp", "clamp|40"), None, factor=100.0),
    HiddenFault("moe", written("far words as near", "layers.1.attention", "positions[None, :] - positions[:, None]",
                               "(positions[None, :] - positions[:, None]).clamp(min=-7)", "clamp", "clamp|7"), None,
                [_text(12, 20)]),
]  # fmt: skip


def cases() -> list[Case]:
    """Return one case for each fault that is hidden."""
    return [
        Case(
            f"{one.network}/{one.fault.label}", one.network, "hidden", one.fault.cells, one.fault.cause,
            (one.fault.expected,), one.fault.words, functools.partial(_pair, one),
        )
        for one in HIDDEN
    ]  # fmt: skip


def _pair(one: HiddenFault) -> Pair:
    network = NETWORKS[one.network]
    reference = network.module()
    candidate = copy_of(reference)
    one.fault.plant(candidate)
    given = _made(one.given, one.network)
    return Pair(reference, candidate, given, options={"probe": True, "shows": functools.partial(_shows, one)})


def _made(make: Callable[[], Arguments] | None, network: str) -> Arguments:
    if make is None:
        return NETWORKS[network].inputs()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def _shows(one: HiddenFault, pair: Pair) -> float:
    """The largest relative difference in the last call that the case says to show the fault; infinite if it raises."""
    *before, last = (_made(call, one.network) for call in one.calls)
    there, here = copy_of(pair.reference).double(), copy_of(pair.candidate).double()
    for side in (there, here):
        for arguments in before:
            run_module(side, double_arguments(arguments), one.in_training)
        if one.factor != 1.0:
            cell = side.get_submodule(one.fault.cells[0])
            cell.register_forward_pre_hook(lambda _, inputs: tuple(one.factor * x for x in inputs))
    return strongest_of_modules(there, here, last, one.in_training)
