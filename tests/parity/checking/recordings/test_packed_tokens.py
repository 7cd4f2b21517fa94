"""A recording that has the tokens of all sequences one after another, where the reference has padded batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import UsageError

SIZE = 8
MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.mT).masked_fill(mask[:, None] == 0, -1e9)
        return self.out(scores.softmax(-1) @ v)


class Packed(nn.Module):
    """The same for tokens in one row, each of which sees those of its own sequence."""

    def __init__(self, attention: Attention, lengths: list[int]) -> None:
        super().__init__()
        self.qkv, self.out, self.lengths = attention.qkv, attention.out, lengths

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sequences = [part.chunk(3, -1) for part in self.qkv(x).split(self.lengths)]
        return self.out(torch.cat([(q @ k.mT).softmax(-1) @ v for q, k, v in sequences]))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attention, self.norm = nn.Embedding(20, SIZE), Attention(), nn.LayerNorm(SIZE)

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        return self.norm(x + self.attention(x, attention_mask))


class Engine(nn.Module):
    def __init__(self, network: Network, lengths: list[int], eps: float = 1e-5) -> None:
        super().__init__()
        self.embed, self.attention = network.embed, Packed(network.attention, lengths)
        self.norm = nn.LayerNorm(SIZE, eps=eps)
        self.norm.load_state_dict(network.norm.state_dict())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        return self.norm(x + self.attention(x))


def record(folder: Path, **settings: Any) -> tuple[Network, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    network, ids = Network().eval(), torch.randint(0, 20, MASK.shape)
    seed = torch.randn(*MASK.shape, SIZE) * MASK[..., None]
    parity.record(network, (ids, MASK), folder / "ref.rec", loss=lambda y: (y * seed).sum())
    lengths = MASK.sum(1).tolist()
    engine = Engine(network, lengths if settings.pop("apart", True) else [sum(lengths)], **settings).eval()
    with Recorder(folder / "engine.rec", framework="engine") as recorder, recorder.torch(engine):
        (engine(ids[MASK != 0]) * seed[MASK != 0]).sum().backward()
    (folder / "names.toml").write_text('[tokens]\nmask = "attention_mask"\n')
    return network, (ids, MASK)


@pytest.mark.parametrize(
    ("settings", "failing"),
    [({}, []), ({"eps": 1e-3}, ["norm"]), ({"apart": False}, ["attention"])],
    ids=["right", "eps", "sequences see each other"],
)
@pytest.mark.every(3)
def test_packed_tokens_are_judged_as_padded_batches(tmp_path: Path, settings: Any, failing: list[str]) -> None:
    network, inputs = record(tmp_path, **settings)
    names = tmp_path / "names.toml"
    for report in (
        parity.judge(tmp_path / "ref.rec", tmp_path / "engine.rec", names=names),
        parity.compare(network, tmp_path / "engine.rec", inputs, names=names),
    ):
        assert report.failing == failing, str(report)
        compared = {(c.kind, c.tensor) for cell in report.cells.values() for c in cell.comparisons}
        assert {("output", "result"), ("input gradient", "x"), ("parameter gradient", "norm.weight")} <= compared


def test_without_the_mask_the_inputs_differ(tmp_path: Path) -> None:
    record(tmp_path)
    with pytest.raises(UsageError, match=r"ids has the shape \[12\] in engine.rec, \[3, 5\] in ref.rec"):
        parity.judge(tmp_path / "ref.rec", tmp_path / "engine.rec")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tokens]\nmask = "nothing"\n', "there is none of that name; the reference's inputs: ids, attention_mask"),
        ("[tokens]\nmask = 3\n", "needed mask = "),
        ('[tokens]\nlengths = "x"\n', "needed mask = "),
    ],
)
@pytest.mark.every(3)
def test_a_mask_that_is_none_is_said(tmp_path: Path, text: str, message: str) -> None:
    record(tmp_path)
    (tmp_path / "names.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        parity.judge(tmp_path / "ref.rec", tmp_path / "engine.rec", names=tmp_path / "names.toml")
