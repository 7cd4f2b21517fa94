"""`parity init` writes a model file that runs, or says what is left to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from cellbridge.parity.cli import main
from cellbridge.parity.inputs.guessed_inputs import guess_inputs
from cellbridge.parity.inputs.model_file import load

NETWORKS = """
import torch
from torch import nn


class Images(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 2, 3), nn.Linear(2 * 26 * 26, classes)

    def forward(self, images):
        return self.head(self.conv(images).flatten(1))


class Needy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()

    def forward(self, x, y):
        return x + y


class Graphs(nn.Module):
    def forward(self, graph):
        return graph.nodes


def make():
    return Images(3)


def five():
    return 5


NUMBER = 3
"""


def _init(folder: Path, target: str, *options: str) -> Result:
    (folder / "networks_of_init.py").write_text(NETWORKS)
    return CliRunner().invoke(main, ["init", f"{folder / 'networks_of_init.py'}{target}", *options])


@pytest.mark.parametrize(("target", "classes"), [("Images", 5), ("make", 3)])
def test_the_written_file_runs(tmp_path: Path, target: str, classes: int) -> None:
    """28 x 28 is the only size that the head takes."""
    result = _init(tmp_path, f":{target}")
    assert result.exit_code == 0, result.output
    file = tmp_path / f"parity_{target.lower()}.py"
    assert f"wrote {file}, with inputs that the network takes" in result.output.replace("\n", "")
    model = load(str(file))
    assert model.module(*model.args).shape == (2, classes)
    assert model.args[0].shape == (2, 1, 28, 28)


@pytest.mark.parametrize(
    ("target", "points", "line"),
    [
        ("Needy", "the arguments of Needy (width, depth) and the inputs", "Needy(width=..., depth=...)  # to do"),
        ("Graphs", "the inputs", "# to do: graph"),
    ],
)
def test_what_is_not_known_is_marked(tmp_path: Path, target: str, points: str, line: str) -> None:
    """The message and the file say what to fill in."""
    result = _init(tmp_path, f":{target}", "-o", str(tmp_path / "mine.py"))
    assert result.exit_code == 0, result.output
    assert f"fill in {points}, marked `to do`" in result.output
    assert line in (tmp_path / "mine.py").read_text()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (":Absent", "defines no torch module Absent"),
        (":NUMBER", "defines no torch module NUMBER"),
        (":five", "five() must return a torch module; it returned int"),
        ("", "needed a class, package.module:Class or file.py:Class"),
    ],
)
def test_what_is_no_network_is_refused(tmp_path: Path, target: str, words: str) -> None:
    """One message, and no file."""
    result = _init(tmp_path, target)
    assert result.exit_code == 2
    assert words in result.output
    assert not list(tmp_path.glob("parity_*.py"))


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """Somebody may have edited it."""
    (tmp_path / "parity_images.py").write_text("mine\n")
    result = _init(tmp_path, ":Images")
    assert result.exit_code == 2
    assert "exists already; give another name with -o" in result.output.replace("\n", " ")
    assert (tmp_path / "parity_images.py").read_text() == "mine\n"


class Tokens(nn.Module):
    """Takes tokens and a mask; eight positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(50, 6), nn.Embedding(8, 6), nn.Linear(6, 3)

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return scores [batch, length, 3]."""
        embedded = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        scores: torch.Tensor = self.head(embedded) * attention_mask[..., None]
        return scores


class Sequence(nn.Module):
    """Takes vectors in a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(7, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores [batch, length, 2]."""
        scores: torch.Tensor = self.head(self.gru(x)[0])
        return scores


@pytest.mark.parametrize(
    ("network", "shapes"),
    [
        (Tokens(), [(2, 8), (2, 8)]),
        (Sequence(), [(2, 8, 7)]),
        (nn.Sequential(nn.Conv1d(3, 2, 3), nn.Flatten()), [(2, 3, 64)]),
        (nn.Sequential(nn.Conv3d(2, 2, 3)), [(2, 2, 8, 16, 16)]),
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [(2, 8, 8)]),
    ],
)
def test_inputs_are_guessed_from_the_layers(network: nn.Module, shapes: list[tuple[int, ...]]) -> None:
    """The first inputs with which the network runs; its mode and the random state stay."""
    before = torch.get_rng_state()
    draws = guess_inputs(network)
    assert draws is not None
    assert [draw.shape for draw in draws] == shapes
    assert network.training
    assert torch.equal(before, torch.get_rng_state())
    for draw in draws:
        assert eval(draw.source(), {"torch": torch}).shape == draw.shape


def test_a_mask_leaves_something_out() -> None:
    """A mask of ones wouldn't show whether it masks the right elements."""
    draws = guess_inputs(Tokens())
    assert draws is not None
    assert set(draws[1].tensor().unique().tolist()) == {0.0, 1.0}
