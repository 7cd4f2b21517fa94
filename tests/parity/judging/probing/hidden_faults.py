"""Faults that the given inputs hide: pairs of a right and a wrong network, with inputs on which both agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Hidden:
    """A hidden fault.

    Attributes:
        make: makes one side, given whether it is the right one.
        inputs: makes the inputs that hide the fault.
        probe: what the name of the probe that shows it contains.
        cell: path of the wrong Cell.
    """

    make: Callable[[bool], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    probe: str
    cell: str = ""

    def pair(self) -> tuple[nn.Module, nn.Module, tuple[Any, ...]]:
        """The right network, the wrong one with its weights, and inputs."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            right, wrong, args = self.make(True).eval(), self.make(False).eval(), self.inputs()
        wrong.load_state_dict(right.state_dict())
        return right, wrong, args


class Function(nn.Module):
    """A linear layer before, or after, a function that is right or wrong."""

    def __init__(self, function: Callable[[Tensor, bool], Tensor], *, right: bool, before: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.function, self.right, self.before = function, right, before

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            return self.function(self.linear(x), self.right)
        y: Tensor = self.linear(self.function(x, self.right))
        return y


class Normalized(Function):
    """A function that is given normalized values, however large the inputs are."""

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(F.layer_norm(x, (6,))), self.right)


class Attention(nn.Module):
    """Attention with a mask: true, or 1, where a position is seen."""

    def __init__(self, *, hides: float | None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.key = nn.Linear(8, 8)
        self.hides = hides

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids)
        scores = x @ self.key(x).transpose(1, 2)
        if self.hides is not None:
            scores = scores.masked_fill(mask[:, None, :] == 0, self.hides)
        return scores.softmax(-1) @ x


class MeanOfSeen(nn.Module):
    """The mean of the positions that the mask shows."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.embedding, self.right = nn.Embedding(20, 8), right

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids) * mask[..., None]
        return x.sum(1) / (mask.sum(1, keepdim=True) if self.right else ids.shape[1])


class Table(nn.Module):
    """An embedding of indices up to a largest one."""

    def __init__(self, largest: int, *, hides_zero: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.largest, self.hides_zero = largest, hides_zero

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embedding(ids.clamp(max=self.largest))
        return x * (ids != 0)[..., None] if self.hides_zero else x


class Types(nn.Module):
    """Adds an embedding of token types."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.words, self.types, self.right = nn.Embedding(20, 8), nn.Embedding(2, 8), right

    def forward(self, ids: Tensor, token_type_ids: Tensor) -> Tensor:
        types = self.types(token_type_ids) if self.right else self.types.weight[0]
        result: Tensor = self.words(ids) + types
        return result


class Positions(nn.Module):
    """Adds an embedding of up to 16 positions, or of one fewer."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.words, self.positions, self.right = nn.Embedding(20, 8), nn.Embedding(16, 8), right

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.words(ids) + self.positions(
            torch.arange(ids.shape[1]).clamp(max=99 if self.right else 14)
        )
        return result


class Causal(nn.Module):
    """Attention to earlier positions, by a table that is wrong from row 9 on."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        table = torch.ones(32, 32).tril().bool()
        table[9:] |= not right
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        scores = self.linear(x) @ x.transpose(1, 2)
        return scores.masked_fill(~self.table[:length, :length], -1e9).softmax(-1) @ x  # type: ignore[index]


class PaddedAtTheEnd(nn.Module):
    """A convolution whose padding is divided as TensorFlow's "same" divides it, or evenly."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.conv, self.right = nn.Conv2d(3, 4, 3, stride=2), right

    def forward(self, x: Tensor) -> Tensor:
        total = [max((-(-n // 2) - 1) * 2 + 3 - n, 0) for n in reversed(x.shape[2:])]
        before = [1, 1] if self.right else [n // 2 for n in total]
        after = [1, 1] if self.right else [n - n // 2 for n in total]
        result: Tensor = self.conv(F.pad(x, (before[0], after[0], before[1], after[1])))
        return result


class Exchanged(nn.Module):
    """Height and width in each other's place, which are equal in the given images."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.conv, self.right = nn.Conv2d(3, 4, 1), right

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        y: Tensor = self.conv(x).flatten(2)
        return y.view(batch, 4, *((height, width) if self.right else (width, height)))


class Conditioned(nn.Module):
    """A signal, and a condition for each four of its values."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.conv, self.right = nn.ConvTranspose1d(2, 3, 4, stride=4), right

    def forward(self, signal: Tensor, condition: Tensor) -> Tensor:
        y: Tensor = self.conv(condition)
        return torch.cat([signal, y if self.right else y[..., torch.arange(y.shape[-1]).clamp(max=15)]], dim=1)


class Causes(nn.Module):
    """Each word with those before it, or with all."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.embedding, self.right = nn.Embedding(20, 8), right

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embedding(ids)
        return x.cumsum(1) if self.right else x.sum(1, keepdim=True).expand_as(x)


class Counter(nn.Module):
    """Another function from the third call on."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.linear, self.right, self.calls = nn.Linear(6, 6), right, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = self.linear(x)
        return y if self.right or self.calls < 3 else y * 2


class Cached(nn.Module):
    """Keeps the angles of its first call, whatever the length of the next."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.linear, self.right = nn.Linear(8, 8), right
        self.angles: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if self.angles is None or self.right:
            self.angles = torch.arange(length).to(x)
        angles = F.pad(self.angles[:length], (0, max(0, length - len(self.angles))))
        result: Tensor = self.linear(x) * angles[None, :, None].cos()
        return result


def network(right: nn.Module, wrong: nn.Module) -> Callable[[bool], nn.Module]:
    """A side with one of two activations."""
    return lambda is_right: nn.Sequential(nn.Linear(6, 6), right if is_right else wrong, nn.Linear(6, 3))


def function(
    of: Callable[[Tensor, bool], Tensor], kind: type[Function] = Function, *, before: bool = False
) -> Callable[[bool], nn.Module]:
    """A side with a function that is right or wrong."""
    return lambda is_right: kind(of, right=is_right, before=before)


def normal(*shape: int, times: float = 1.0) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randn(*shape) * times,)


def positive(*shape: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.rand(*shape) + 0.1,)


def ids(*more: Tensor) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randint(1, 15, (2, 7)), *more)


SEEN = torch.ones(2, 7, dtype=torch.long)

QUICK = frozenset({
    "bound behind a norm", "slope of LeakyReLU", "greater, not greater or equal", "smallest norm",
    "share of equal maxima",
    "nan_to_num left out", "padding mask ignored", "last row of a table", "last position", "padding at the end",
    "squeezed at batch 1", "first sample only", "height and width exchanged", "sixteen values", "later words seen",
    "rate of dropout", "counter", "cache of the first length",
})  # fmt: skip
"""The faults that are planted in every run of the tests."""

FAULTS: dict[str, Hidden] = {
    # values
    "bound of ReLU6": Hidden(network(nn.ReLU6(), nn.Hardtanh(0, 5)), normal(4, 6), "from 0.001 to 1000", "1"),
    "bound behind a norm": Hidden(
        function(lambda x, right: x.clamp(0, 6 if right else 5), Normalized), normal(4, 6), "numbers inside"
    ),
    "bound of a clamp": Hidden(
        function(lambda x, right: x.clamp(-20, 20 if right else 10)), normal(4, 6), "from 0.001 to 1000"
    ),
    "slope of LeakyReLU": Hidden(
        lambda right: nn.Sequential(nn.LeakyReLU(0.01 if right else 0.2), nn.Linear(6, 3)),
        positive(4, 6),
        "from 0.001 to 1000",
        "0",
    ),
    "threshold of softplus": Hidden(
        network(nn.Softplus(), nn.Softplus(threshold=3)), normal(4, 6, times=0.3), "from 0.001 to 1000", "1"
    ),
    "absolute value left out": Hidden(
        function(lambda x, right: x.abs() if right else x), positive(4, 6), "from 0.001 to 1000"
    ),
    "large value of where": Hidden(
        function(lambda x, right: torch.where(x > (5e4 if right else 5e5), x * 2, x), before=True),
        normal(4, 6),
        "at which operations switch",
    ),
    "greater, not greater or equal": Hidden(
        function(lambda x, right: torch.where(x >= 0.5 if right else x > 0.5, x, -x)),
        normal(4, 6),
        "at which operations switch",
    ),
    "smallest norm": Hidden(
        function(lambda x, right: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-3 if right else 1e-6)),
        normal(4, 6),
        "times 0.000001",
    ),
    "softmax that overflows": Hidden(
        function(lambda x, right: x.softmax(-1) if right else x.exp() / x.exp().sum(-1, keepdim=True)),
        normal(4, 6, times=10),
        "from 0.001 to 1000|times 100|around 200",
    ),
    "share of equal maxima": Hidden(
        function(lambda x, right: _share_of_maximum(x, right)), normal(4, 6), "all zero|all equal|repeated"
    ),
    "nan_to_num left out": Hidden(
        function(lambda x, right: torch.nan_to_num(x) if right else x), normal(4, 6), "NaN in x"
    ),
    # masks and indices
    "padding mask ignored": Hidden(
        lambda right: Attention(hides=-1e9 if right else None), ids(SEEN > 0), "mask padded"
    ),
    "padding mask of integers ignored": Hidden(
        lambda right: Attention(hides=-1e9 if right else None), ids(SEEN), "mask padded"
    ),
    "mask too weak": Hidden(lambda right: Attention(hides=-1e9 if right else -10.0), ids(SEEN > 0), "mask padded"),
    "mean of all positions": Hidden(lambda right: MeanOfSeen(right=right), ids(SEEN), "mask padded"),
    "last row of a table": Hidden(lambda right: Table(19 if right else 18), ids(), "ids up to 19"),
    "row of padding": Hidden(lambda right: Table(19, hides_zero=right), ids(), "ids with 0"),
    "token types ignored": Hidden(lambda right: Types(right=right), ids(SEEN * 0), "token_type_ids up to 1"),
    # sizes
    "last position": Hidden(lambda right: Positions(right=right), ids(), "size 16 in place of 7"),
    "causal mask of longer sequences": Hidden(lambda right: Causal(right=right), normal(2, 8, 8), "in place of 8"),
    "padding at the end": Hidden(
        lambda right: PaddedAtTheEnd(right=right), normal(2, 3, 9, 9), "size 10 in place of 9"
    ),
    "rounded down": Hidden(lambda right: nn.AvgPool1d(2, ceil_mode=right), normal(2, 3, 8), "size 9 in place of 8"),
    "squeezed at batch 1": Hidden(
        function(lambda x, right: x if right else x.squeeze(), before=True), normal(4, 6), "size 1 in place of 4"
    ),
    "batch size in the code": Hidden(
        function(lambda x, right: x / (x.shape[0] if right else 4)), normal(4, 6), "size 5 in place of 4"
    ),
    "first sample only": Hidden(
        function(lambda x, right: x if right else x[:1], before=True), normal(1, 6), "size 2 in place of 1"
    ),
    "height and width exchanged": Hidden(
        lambda right: Exchanged(right=right), normal(2, 3, 8, 8), r"size 10 in place of 8 \(axis"
    ),
    "sixteen values": Hidden(
        lambda right: Conditioned(right=right),
        lambda: (torch.randn(2, 3, 16), torch.randn(2, 2, 4)),
        "size 20, 5 in place of 16, 4",
    ),
    "later words seen": Hidden(
        lambda right: Causes(right=right), lambda: (torch.tensor([[1], [2]]),), r"size 2 in place of 1 \(axis 1"
    ),
    # modes and calls
    "rate of dropout": Hidden(network(nn.Dropout(0.5), nn.Dropout(0.1)), normal(4, 6), "train mode", "1"),
    "momentum of a batch norm": Hidden(
        network(nn.BatchNorm1d(6), nn.BatchNorm1d(6, momentum=0.2)), normal(4, 6), "train mode", "1"
    ),
    "counter": Hidden(lambda right: Counter(right=right), normal(4, 6), "other calls before"),
    "cache of the first length": Hidden(lambda right: Cached(right=right), normal(2, 7, 8), "in place of 7"),
}


def _share_of_maximum(x: Tensor, right: bool) -> Tensor:
    largest = (x == x.amax(-1, keepdim=True)).to(x)
    return largest / largest.sum(-1, keepdim=True) if right else largest
