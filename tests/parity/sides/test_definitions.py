"""The statements that make Cells, which stand for calls that read alike on both sides."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.sides.definitions import construction_of


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act = nn.LayerNorm(4), nn.GELU()
        self.body = nn.Sequential(
            nn.Linear(4, 4),  # the first
            nn.Tanh(),
        )
        self.made: nn.Module = nn.Identity()
        given = nn.ReLU()
        self.given = given
        if self.training:
            self.twice = nn.ReLU()
        else:
            self.twice = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.act(self.norm(x)))  # type: ignore[no-any-return]


def decorated(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def wrapper(*arguments: object) -> None:
        function(*arguments)

    return wrapper


class Decorated(nn.Module):
    @decorated
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)


class Inherited(Block):
    pass


class Elsewhere(Block):
    """What `__init__` makes isn't what stands there, but it has no other line."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.GELU("tanh")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("0.norm", "self.norm, self.act = nn.LayerNorm(4), nn.GELU()"),
        ("0.body", "self.body = nn.Sequential(nn.Linear(4, 4), nn.Tanh())"),
        ("0.body.1", "self.body = nn.Sequential(nn.Linear(4, 4), nn.Tanh())"),
        ("0.made", "self.made: nn.Module = nn.Identity()"),
        ("0.given", None),
        ("0.twice", None),
        ("0.absent.weight", None),
        ("0", None),
        ("", None),
    ],
)
def test_the_statement_is_that_of_the_class(path: str, text: str | None) -> None:
    line = construction_of(dict(nn.Sequential(Inherited()).named_modules()), path)
    assert (line and line.text) == text
    if line is not None:
        with open(line.file) as file:
            assert file.read().splitlines()[line.line - 1].strip().startswith(line.text[:20])


def test_the_statement_is_that_of_the_decorated_function() -> None:
    line = construction_of({"": Decorated()}, "norm")
    assert line is not None
    assert line.text == "self.norm = nn.LayerNorm(4)"


@pytest.mark.causes
def test_calls_that_read_alike_are_shown_by_what_makes_the_cell() -> None:
    reference, candidate = Block(), Elsewhere()
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (torch.randn(2, 4),), grads=False, probe=False)
    lines = [line.split(maxsplit=2) for line in str(report).splitlines()]
    signs = {line[0]: line[2] for line in lines if line and line[0] in ("-", "+")}
    assert signs == {"-": "self.norm, self.act = nn.LayerNorm(4), nn.GELU()", "+": 'self.act = nn.GELU("tanh")'}
