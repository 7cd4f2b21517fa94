"""Layers that code writes out in another form: lookups as products, sums in another order, heads one by one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.pairing.by_structure.loading import Loading, load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

WORDS, KINDS, LENGTH, SIZE = 11, 3, 6, 4


def load(reference: nn.Module, candidate: nn.Module, args: tuple[Tensor, ...]) -> Loading:
    return load_by_structure(reference, ModulePort(candidate), args, {})


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(WORDS, SIZE), nn.Embedding(KINDS, SIZE)
        self.positions, self.norm = nn.Embedding(LENGTH, SIZE), nn.LayerNorm(SIZE)

    def forward(self, ids: Tensor, kinds: Tensor) -> Tensor:
        result: Tensor = self.norm(self.words(ids) + self.kinds(kinds) + self.positions(torch.arange(ids.shape[1])))
        return result


class InAnotherOrder(nn.Module):
    """Positions before kinds, whose rows are products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.words = nn.LayerNorm(SIZE), nn.Embedding(WORDS, SIZE)
        self.places, self.kinds = nn.Parameter(torch.zeros(LENGTH, SIZE)), nn.Parameter(torch.zeros(KINDS, SIZE))

    def forward(self, ids: Tensor, kinds: Tensor) -> Tensor:
        rows = self.one_hot(kinds).to(self.kinds.dtype)
        result: Tensor = self.norm(self.words(ids) + self.places[: ids.shape[1]] + rows @ self.kinds)
        return result

    def one_hot(self, kinds: Tensor) -> Tensor:
        return F.one_hot(kinds, KINDS)


class FromTwo(InAnotherOrder):
    """A fault: kinds are counted from 2, so that no row is 1 for most of them."""

    def one_hot(self, kinds: Tensor) -> Tensor:
        return kinds[..., None] == torch.arange(2, 2 + KINDS)


def ids() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(0, WORDS, (2, LENGTH), generator=generator), torch.arange(2 * LENGTH).view(2, -1) // 2 % KINDS


def test_tables_are_found_whether_they_are_multiplied_or_looked_up_and_in_any_order() -> None:
    reference, candidate = drawn(Embeddings(), 0), drawn(InAnotherOrder(), 1)
    arrays, weights = load(reference, candidate, ids()).arrays, reference.state_dict()
    for name, of in (("words.weight", "words"), ("places", "positions"), ("kinds", "kinds")):
        assert torch.equal(torch.as_tensor(arrays[name]), weights[f"{of}.weight"]), name


def test_products_with_rows_of_other_numbers_are_no_lookups() -> None:
    assert parity.compare(drawn(Embeddings(), 0), drawn(FromTwo(), 1), ids(), load_weights=True, **QUICKLY).failed


class Scores(nn.Module):
    """A score for each row, from one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.vector = nn.Linear(SIZE, SIZE), nn.Parameter(torch.zeros(SIZE, 1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.up(x) @ self.vector
        return result.tanh()


class HeadsOfScores(nn.Module):
    """The same with one head."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.vectors = nn.Linear(SIZE, SIZE), nn.Parameter(torch.zeros(1, SIZE))

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x).unflatten(-1, (1, SIZE))
        return torch.einsum("nhi,hi->nh", y, self.vectors).tanh()


def test_a_product_of_one_head_is_a_product() -> None:
    reference, candidate = drawn(Scores(), 0), drawn(HeadsOfScores(), 1)
    arrays = load(reference, candidate, (torch.randn(5, SIZE),)).arrays
    assert torch.equal(torch.as_tensor(arrays["vectors"]), reference.state_dict()["vector"].T)


class Depthwise(nn.Module):
    """A kernel for each channel, and a norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(SIZE, SIZE, 3, padding=1, groups=SIZE), nn.BatchNorm1d(SIZE)
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.out(self.norm(self.conv(x.mT)).mT.relu())
        return result


class Windows(nn.Module):
    """The same with channels last and a product with each window; the offset is added to all channels at once."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.offset = nn.Parameter(torch.zeros(3, SIZE)), nn.Parameter(torch.zeros(SIZE))
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        windows = F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1)
        result: Tensor = self.out(F.relu(torch.einsum("btck,kc->btc", windows, self.kernel) + self.offset))
        return result


def test_an_offset_of_joined_products_is_the_bias_of_each() -> None:
    reference, candidate = drawn(Depthwise(), 0), drawn(Windows(), 1)
    x = torch.randn(2, 5, SIZE, generator=torch.Generator().manual_seed(4))
    loading = load(reference, candidate, (x,))
    assert "conv.bias" in loading.assemblies["offset"].names
    with ModulePort(candidate).given(loading.arrays):
        torch.testing.assert_close(candidate(x), reference(x))


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the first half of the features towards the second one."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


class TurnedBackwards(nn.Module):
    """Queries and keys are turned backwards, and are normed afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(SIZE, 2 * SIZE, bias=False), nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] * torch.tensor([1.0, 0.3])
        q = F.rms_norm(turned(self.q(x).unflatten(-1, (2, SIZE)).transpose(1, 2), -angles), (SIZE,), eps=1e-6)
        k = F.rms_norm(turned(self.k(x), -angles), (SIZE,), eps=1e-6)
        return (q @ k[:, None].mT).softmax(-1)


class NormedBefore(nn.Module):
    """One product, whose heads are normed before they are divided, and turned forwards."""

    def __init__(self) -> None:
        super().__init__()
        self.qk = nn.Linear(SIZE, 3 * SIZE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] * torch.tensor([1.0, 0.3])
        heads = self.qk(x).unflatten(-1, (3, SIZE)).transpose(1, 2)
        heads = heads * (heads.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        q, k = turned(heads[:, :2], angles), turned(heads[:, 2:], angles)
        return (q @ k.mT).softmax(-1)


def test_halves_that_are_turned_backwards_are_exchanged_and_heads_are_normed_by_themselves() -> None:
    reference, candidate = drawn(TurnedBackwards(), 0), drawn(NormedBefore(), 1)
    x = torch.randn(2, 5, SIZE, generator=torch.Generator().manual_seed(5))
    loading = load(reference, candidate, (x,))
    assert loading.assemblies["qk.weight"].names == ("q.weight", "k.weight")
    with ModulePort(candidate).given(loading.arrays):
        torch.testing.assert_close(candidate(x), reference(x))
