"""What a written source looks like: two small networks, word for word."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cellbridge.converter import from_torch, to_cell_source
from cellbridge.parity.inputs import model_file
from tests.converter.cell_source.writing import assert_port

FIXTURES = Path(__file__).parents[3] / "fixtures"


class Block(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class ImageNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 8, 1), Block(8, 16, 2), Block(16, 16, 1))
        self.head = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        features = self.blocks(images)
        return self.head(features.mean((2, 3)))


IMAGE_NET = '''
    """ImageNet as Cells, written from a captured program: the first draft of a port.

    The weights are in the checkpoint that `cellbridge.converter.to_cell_checkpoint` writes:

        network = ImageNet()
        load_param_into_net(network, load_checkpoint("imagenet.ckpt"))
    """

    from cellbridge.runtime import nn, ops


    class Block(nn.Cell):
        def __init__(self, in_channels, out_channels, stride):
            super().__init__()
            self.conv = nn.Conv2d(
                in_channels, out_channels, 3, stride=stride, pad_mode="pad", padding=1
            )
            self.norm = nn.BatchNorm2d(out_channels)

        def construct(self, x):
            return ops.relu(self.norm(self.conv(x)))


    class ImageNet(nn.Cell):
        def __init__(self):
            super().__init__()
            self.blocks = nn.SequentialCell(
                [
                    Block(in_channels=3, out_channels=8, stride=1),
                    Block(in_channels=8, out_channels=16, stride=2),
                    Block(in_channels=16, out_channels=16, stride=1),
                ]
            )
            self.head = nn.Dense(16, 10)

        def construct(self, images):
            features = self.blocks(images)
            return self.head(features.mean(axis=(2, 3)))
'''


class Mixer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return x + weights @ x * self.scale


class TextNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.layers = nn.ModuleList(Mixer(8) for _ in range(3))
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        x = self.embedding(tokens)
        length = tokens.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return {"scores": self.head(x)}


TEXT_NET = '''
    """TextNet as Cells, written from a captured program: the first draft of a port.

    The weights are in the checkpoint that `cellbridge.converter.to_cell_checkpoint` writes:

        network = TextNet()
        load_param_into_net(network, load_checkpoint("textnet.ckpt"))
    """

    import cellbridge.runtime as ms
    from cellbridge.runtime import Parameter, nn, ops
    from cellbridge.runtime.common.initializer import initializer


    class Mixer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.query = nn.Dense(8, 8)
            self.key = nn.Dense(8, 8)
            self.scale = Parameter(initializer("zeros", (8,)))

        def construct(self, x, mask):
            scores = self.query(x) @ self.key(x).swapaxes(1, 2) / 2.8284271247461903
            weights = ops.softmax(ops.where(mask, float("-inf"), scores), axis=2)
            return x + weights @ x * self.scale


    class TextNet(nn.Cell):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(50, 8)
            self.layers = nn.CellList([Mixer() for _ in range(3)])
            self.head = nn.Dense(8, 50, has_bias=False)
            self.head.weight = self.embedding.embedding_table

        def construct(self, tokens):
            length = tokens.shape[1]
            x = self.embedding(tokens)
            mask = ops.full((length, length), True, dtype=ms.bool_)
            mask = ops.triu(mask.astype(ms.int32), diagonal=1).astype(ms.bool_)
            for layer in self.layers:
                x = layer(x, mask)
            return {"scores": self.head(x)}
'''


@pytest.mark.slow
def test_image_network() -> None:
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert to_cell_source(from_torch(ImageNet(), (images,), train=True)) == expected(IMAGE_NET)
    captured_in_eval_mode = to_cell_source(from_torch(ImageNet(), (images,)))
    assert captured_in_eval_mode.partition("\nfrom ")[2] == expected(IMAGE_NET).partition("\nfrom ")[2]
    assert_port(ImageNet(), images)


@pytest.mark.slow
def test_text_network() -> None:
    tokens = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]])
    shapes: Any = ({1: torch.export.Dim("length", min=2, max=16)},)
    assert to_cell_source(from_torch(TextNet(), (tokens,), dynamic_shapes=shapes)) == expected(TEXT_NET)
    assert_port(TextNet(), tokens, dynamic_shapes=shapes)


def expected(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


@pytest.mark.parametrize("name", ["transformer_encoder_mha", "lstm_classifier", "unet"])
@pytest.mark.every(3)
def test_lines_are_broken_as_a_formatter_does(name: str, tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    model = model_file.load(str(FIXTURES / f"{name}.py"))
    written = tmp_path / "cells.py"
    written.write_text(to_cell_source(from_torch(model.module, model.args, model.kwargs)))
    for command in (["format", "--diff", "--isolated", "--line-length", "100"], ["check", "--isolated"]):
        done = subprocess.run([ruff, *command, str(written)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_what_eval_mode_does_not_tell_is_said(train: bool) -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.BatchNorm1d(4, momentum=0.3))
    source = to_cell_source(from_torch(network.train(train), (torch.ones(2, 4),), train=train))
    assert ("- the rates of Dropout (0.5 here)\n- the momentum of BatchNorm (0.9 here)" in source) is not train
    assert ("nn.Dropout(p=0.1)" in source) is train
    assert ("momentum=0.7" in source) is train
