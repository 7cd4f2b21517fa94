"""The faults of step-by-step code as data: what is written differently in a file of `decoders`."""

from __future__ import annotations

from .source_edits import edit

FIRST, SECOND = "layers.0.self_attn", "layers.1.self_attn"
START = "start = 0 if state is None else state[0][0].shape[2]"
KEPT = "kept = k, v\n"
JOINED = "torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)"
REPEATED = "k, v = (t.repeat_interleave(HEADS // GROUPS, 1) for t in (k, v))"
MASKED = "        if mask is not None:\n            seen"
SHIFTED = (
    "        if mask is not None:\n            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]\n"
)
CARRIED = "(sums[:, -1:], counts[:, -1:])"
END = "whole[:, 1 - KERNEL :]"


def kept(number: int, keys: str, values: str) -> tuple[str, str]:
    """Return a change of what one layer of the Llama keeps."""
    return KEPT, f"kept = ({keys}, {values}) if self.number == {number} else (k, v)\n"


EDITS = [
    edit("llama", "positions begin again", ".", (START, "start = 0")),
    edit("llama", "positions off by one", ".", (START, f"{START} + 1")),
    edit("llama", "positions of the padding", ".", ("[:, -tokens.shape[1] :]", "[:, : tokens.shape[1]]")),
    edit(
        "llama", "cache of five", SECOND,
        kept(1, "k[:, :, -5:]", "v[:, :, -5:]"), ("mask[:, None, None, :]", "mask[:, None, None, -length:]"),
    ),
    edit("llama", "keys rotated again", SECOND, kept(1, "rotate(k, cos[:, :, -1:], sin[:, :, -1:])", "v")),
    edit("llama", "oldest values lost", FIRST, kept(0, "k", "torch.cat([v[:, :, :1] * 0, v[:, :, 1:]], 2)")),
    edit("llama", "keys and values exchanged", SECOND, kept(1, "v", "k")),
    edit("llama", "cache in half precision", SECOND, kept(1, "k.half().to(k.dtype)", "v")),
    edit("llama", "cache of the other sequence", FIRST, kept(0, "k", "v.flip(0)")),
    edit(
        "llama", "new values before the cache", FIRST,
        ("torch.cat([cache[1], v], 2)", "torch.cat([cache[1], v] if self.number else [v, cache[1]], 2)"),
    ),
    edit(
        "llama", "the token itself isn't seen", FIRST,
        (".tril(length - new)", ".tril(length - new if self.number or cache is None else length - new - 1)"),
    ),
    edit(
        "llama", "chunks see their own future", SECOND,
        (".tril(length - new)", ".tril(length - new if self.number == 0 or cache is None else length)"),
    ),
    edit(
        "llama", "padding is seen", FIRST,
        (MASKED, MASKED.replace("not None", "not None and self.number")),
    ),
    edit(
        "llama", "padding is seen after the prompt", SECOND,
        (MASKED, MASKED.replace("not None", "not None and (self.number == 0 or cache is None)")),
    ),
    edit(
        "llama", "another scale after the prompt", SECOND,
        ("** -0.5)", "** -0.5 * (1.0 if self.number == 0 or cache is None else 1.01))"),
    ),
    edit("llama", "cache of the other layer", ".", ("zip(self.layers, caches, ", "zip(self.layers, caches[::-1], ")),
    edit("stream", "convolution keeps one too few", "conv", (END, f"{END} * torch.tensor([0, 1, 1])[None, :, None]")),
    edit(
        "stream", "convolution begins again", "conv",
        (" if state is None else state\n        whole", "\n        whole"),
    ),
    edit("stream", "convolution keeps the beginning", "conv", (END, "whole[:, : KERNEL - 1]")),
    edit(
        "stream", "convolution sees the future", "conv",
        ("self.conv(whole.mT).mT", "self.conv(torch.cat([whole[:, 1:], whole[:, -1:]], 1).mT).mT"),
    ),
    edit("stream", "number not kept", "mean", (CARRIED, "(sums[:, -1:], counts[:, -1:] * 0)")),
    edit("stream", "number off by one", "mean", (CARRIED, "(sums[:, -1:], counts[:, -1:] + 1)")),
    edit("stream", "sum of the last chunk", "mean", (CARRIED, "(x.sum(1, keepdim=True), counts[:, -1:])")),
    edit("stream", "mean of the chunk", "mean", ("sums / counts", "x.mean(1, keepdim=True)")),
    edit("stream", "GRU begins again", ".", ("self.gru(x, of_gru)", "self.gru(x)")),
    edit(
        "stream", "state of the first sequence", ".",
        ("(of_conv, of_mean, of_gru)\n", "(of_conv, of_mean, of_gru[:, :1].expand(-1, len(x), -1).contiguous())\n"),
    ),
    edit("llama", "as it is", ""),
    edit("llama", "padding counts as positions, which are relative", "", (SHIFTED, "")),
    edit(
        "llama", "values before keys", "",
        (KEPT, "kept = v, k\n"), (JOINED, JOINED.replace("[0]", "[2]").replace("[1]", "[0]").replace("[2]", "[1]")),
        ("state[0][0].shape", "state[0][1].shape"),
    ),
    edit(
        "llama", "keys repeated in the cache", "",
        (f"        {REPEATED}\n        scores", "        scores"),
        ("        if cache is not None:\n", f"        {REPEATED}\n        if cache is not None:\n"),
    ),
    edit(
        "llama", "a window of five", "",
        (KEPT, "kept = k[:, :, -5:], v[:, :, -5:]\n"),
        (".tril(length - new)", ".tril(length - new).triu(length - new - 4)"),
        ("mask[:, None, None, :]", "mask[:, None, None, -length:]"),
        (START, "start, state = (0, None) if state is None else (int(state[1]), state[0])"),
        ("self.norm(x)), kept", "self.norm(x)), (kept, torch.tensor(start + tokens.shape[1]))"),
    ),
    edit(
        "llama", "caches in a dict", "",
        (KEPT, 'kept = {"k": k, "v": v}\n'), (JOINED, JOINED.replace("[0]", '["k"]').replace("[1]", '["v"]')),
        ("state[0][0].shape", 'state[0]["k"].shape'),
    ),
    edit("stream", "as it is", ""),
    edit(
        "stream", "a longer state than needed", "",
        (END, "whole[:, -KERNEL:]"), ("KERNEL - 1, CHANNELS", "KERNEL, CHANNELS"),
        ("self.conv(whole.mT)", "self.conv(whole[:, 1:].mT)"),
    ),
    edit(
        "stream", "the mean in place of the sum", "",
        (CARRIED, "(sums[:, -1:] / counts[:, -1:], counts[:, -1:])"),
        ("cumsum(1) + total", "cumsum(1) + total * count"),
    ),
]  # fmt: skip
