"""What a library's attention does and a port of it doesn't: the mask, the scale or the positions, with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.converter.capture import places
from cellbridge.parity.results.cause import Cause

pytestmark = pytest.mark.causes


def rotate_half(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    return (x * cosines) + (rotate_half(x) * sines)


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    scores = torch.matmul(q, k.mT) * scale
    scores = scores + mask
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, left_out: str = "", fused: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self._left_out, self._fused = nn.Linear(8, 24), left_out, fused

    def forward(self, x: Tensor, positions: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        if self._left_out != "positions":
            q, k = rotated(q, *positions), rotated(k, *positions)
        if self._fused:
            return nn.functional.scaled_dot_product_attention(q, k, v, mask)
        if self._left_out == "mask":
            return (torch.matmul(q, k.mT) * 8**-0.5).softmax(-1) @ v
        if self._left_out == "scale":
            return (torch.matmul(q, k.mT) + torch.full((5, 5), -1e9).triu(1)).softmax(-1) @ v
        return attended(q, k, v, mask, 8**-0.5)


class Network(nn.Module):
    def __init__(self, *how: Any) -> None:
        super().__init__()
        self.attention = Attention(*how)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(5)[:, None] * torch.tensor([1.0, 0.5, 0.25, 0.1, 1.0, 0.5, 0.25, 0.1])
        mask = torch.full((5, 5), -1e9).triu(1)
        return self.attention(x, (angles.cos(), angles.sin()), mask)


POSITIONS = "the positions, the input positions[0] and the input positions[1], aren't applied in the candidate"
WORDS = {
    "mask": ("the attention mask isn't added in the candidate", "scores = scores + mask"),
    "scale": ("the scale 0.353553 isn't applied in the candidate", "scores = torch.matmul(q, k.mT) * scale"),
    "positions": (POSITIONS, ""),
}


def cause_of(reference: nn.Module, candidate: nn.Module) -> Cause:
    report = parity.compare(reference, candidate, (torch.randn(2, 5, 8),), probe=False)
    assert report.failing == ["attention"]
    (cause,) = report.cells["attention"].causes
    return cause


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
@pytest.mark.every(2)
def test_what_the_port_leaves_out_is_named(name: str) -> None:
    words, line = WORDS[name]
    cause = cause_of(Network(), Network(name))
    assert cause.summary.startswith(words)
    assert line in cause.summary


def test_positions_are_named_where_the_library_has_one_operator() -> None:
    assert cause_of(Network("", True), Network("positions")).summary.startswith(POSITIONS)


def test_one_operator_and_its_port_agree() -> None:
    assert parity.compare(Network("", True), Network(), (torch.randn(2, 5, 8),), probe=False).ok


def test_the_line_is_the_one_of_the_library_around_which_the_users_own_call_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "library.py").write_text(
        "import torch\n\nclass Layer(torch.nn.Module):\n    def forward(self, x):\n        return helped(x.sin())\n\n"
        "def helped(x):\n    return x + 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from library import Layer  # type: ignore[import-not-found]

    class Users(nn.Module):
        def __init__(self, number: float) -> None:
            super().__init__()
            self.layer, self._number = Layer(), number

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x * self._number)

    installed = places._is_installed
    monkeypatch.setattr(places, "_is_installed", lambda name: "library.py" in name or installed(name))
    from cellbridge.converter import from_torch

    program = from_torch(Users(2.0), (torch.randn(2),))
    lines = {node.op: node.source.text for node in program.nodes if node.source is not None and node.op != "boundary"}
    assert lines["mul"] == "return self.layer(x * self._number)"
    assert (lines["sin"], lines["add"]) == ("return helped(x.sin())", "return x + 1.0")
