"""Stored tensors that a port uses at other places than the reference: biases by heads, learned queries, no bias."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.pairing.by_structure.loading import Loading, load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

WIDTH, HEADS, QUERIES = 12, 3, 4


class Attention(nn.Module):
    """Attention of learned queries, keys and values in one product, and positions of rows and columns in one tensor."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.rows, self.columns = nn.Parameter(torch.zeros(2, WIDTH)), nn.Parameter(torch.zeros(3, WIDTH))
        self.queries, self.norm = nn.Parameter(torch.zeros(QUERIES, WIDTH)), nn.LayerNorm(WIDTH)
        self.q, self.kv = nn.Linear(WIDTH, 2 * WIDTH, bias=bias), nn.Linear(WIDTH, 4 * WIDTH, bias=bias)
        self.out = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + (self.rows[:, None] + self.columns).flatten(0, 1)
        queries = self.norm(self.queries).expand(len(x), -1, -1)
        k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
        y = F.scaled_dot_product_attention(self.q(queries).unflatten(-1, (HEADS, -1)).transpose(1, 2), k, v)
        return queries + self.out(y.transpose(1, 2).flatten(2)).tanh()


class ByHeads(nn.Module):
    """Weights and biases of (heads, ...), and positions by row and column that are added one after the other."""

    power = 0.5

    def __init__(self) -> None:
        super().__init__()
        size = 2 * WIDTH // HEADS
        for name in "qkv":
            self.register_parameter(f"w_{name}", nn.Parameter(torch.zeros(HEADS, WIDTH, size)))
            self.register_parameter(f"b_{name}", nn.Parameter(torch.zeros(HEADS, size)))
        self.w_o, self.b_o = nn.Parameter(torch.zeros(HEADS, size, WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.row, self.column = nn.Parameter(torch.zeros(2, 1, WIDTH)), nn.Parameter(torch.zeros(1, 3, WIDTH))
        self.learned, self.norm = nn.Parameter(torch.zeros(1, QUERIES, WIDTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = (x.unflatten(1, (2, 3)) + self.row + self.column).flatten(1, 2)
        z = self.norm(self.learned)
        q = torch.einsum("bqd,hds->bqhs", z, self.w_q) + self.b_q
        k = torch.einsum("bkd,hds->bkhs", x, self.w_k) + self.b_k
        v = torch.einsum("bkd,hds->bkhs", x, self.w_v) + self.b_v
        scores = torch.einsum("bqhs,bkhs->bhqk", q.expand(len(x), -1, -1, -1), k) / q.shape[-1] ** self.power
        y = torch.einsum("bhqk,bkhs->bqhs", scores.softmax(-1), v)
        return z + torch.tanh(torch.einsum("bqhs,hsd->bqd", y, self.w_o) + self.b_o)


class Scaled(ByHeads):
    """A fault: scores are divided by the size, not by its root."""

    power = 1.0


def x() -> tuple[Tensor, ...]:
    return (torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(5)),)


def load(reference: nn.Module, candidate: nn.Module) -> Loading:
    return load_by_structure(reference, ModulePort(candidate), x(), {})


def expected(reference: nn.Module) -> dict[str, Tensor]:
    w = reference.state_dict()
    k, v = w["kv.weight"].chunk(2)
    biases = dict(zip("kv", w["kv.bias"].chunk(2), strict=True)) | {"q": w["q.bias"]}
    tensors = {f"b_{name}": bias.unflatten(0, (HEADS, -1)) for name, bias in biases.items()}
    tensors |= {
        f"w_{n}": m.T.unflatten(1, (HEADS, -1)).transpose(0, 1)
        for n, m in zip("qkv", (w["q.weight"], k, v), strict=True)
    }
    tensors |= {"w_o": w["out.weight"].T.unflatten(0, (HEADS, -1)), "b_o": w["out.bias"]}
    tensors |= {"row": w["rows"][:, None], "column": w["columns"][None], "learned": w["queries"][None]}
    return tensors | {"norm.weight": w["norm.weight"], "norm.bias": w["norm.bias"]}


def test_tensors_by_heads_learned_queries_and_positions_are_loaded() -> None:
    reference, candidate = drawn(Attention(), 0), drawn(ByHeads(), 1)
    arrays = load(reference, candidate).arrays
    assert [n for n, t in expected(reference).items() if not torch.equal(torch.as_tensor(arrays[n]), t)] == []
    assert parity.compare(reference, candidate, x(), load_weights=True, **QUICKLY).ok


def test_the_other_way_tensors_by_heads_become_vectors() -> None:
    reference, candidate = drawn(ByHeads(), 0), drawn(Attention(), 1)
    arrays = load(reference, candidate).arrays
    assert torch.equal(torch.as_tensor(arrays["q.bias"]), reference.state_dict()["b_q"].flatten())
    assert parity.compare(reference, candidate, x(), load_weights=True, **QUICKLY).ok


def test_a_fault_beside_learned_queries_is_found() -> None:
    assert parity.compare(drawn(Attention(), 0), drawn(Scaled(), 1), x(), load_weights=True, **QUICKLY).failed


def test_a_bias_that_the_reference_lacks_is_zero() -> None:
    reference, candidate = drawn(Attention(bias=False), 0), drawn(Attention(), 1)
    loading = load(reference, candidate)
    assert not loading.arrays["q.bias"].any()
    assert not loading.arrays["kv.bias"].any()
    assert "zero, since the reference adds nothing there: q.bias and kv.bias" in loading.notes
    assert '"q.bias" = { from = [{ computed = "zeros", of = ["q.weight"] }] }' in loading.text()
    assert parity.compare(reference, candidate, x(), load_weights=True, **QUICKLY).ok


class Tempered(nn.Module):
    """A product times a single number, which is a tensor without axes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.first = nn.Parameter(torch.tensor(0.0)), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x).tanh() * self.scale.exp()


def test_a_tensor_without_axes_is_loaded() -> None:
    reference, candidate = drawn(Tempered(), 0), drawn(Tempered(), 1)
    assert float(load(reference, candidate).arrays["scale"]) == reference.state_dict()["scale"].item()


class KindFirst(nn.Module):
    """A vector is added, then positions."""

    places_first = False

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.places = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(6, WIDTH))
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.places + self.kind if self.places_first else x + self.kind + self.places
        result: Tensor = self.last(self.norm(x))
        return result


class PlacesFirst(KindFirst):
    """The other way round."""

    places_first = True


def test_a_vector_is_not_repeated_as_positions_where_a_port_adds_them_first() -> None:
    reference, candidate = drawn(KindFirst(), 0), drawn(PlacesFirst(), 1)
    arrays = load(reference, candidate).arrays
    wrong = [n for n, t in reference.state_dict().items() if not torch.equal(torch.as_tensor(arrays[n]), t)]
    assert wrong == []


class Shifted(nn.Module):
    """A number is added to the diagonal of a matrix that a product makes; or the bias of the product has it."""

    def __init__(self, has_diagonal: bool) -> None:
        super().__init__()
        self.matrix, self.last = nn.Linear(WIDTH, 9), nn.Linear(9, 2)
        self.register_buffer("diagonal", torch.eye(3), persistent=False)
        self.has_diagonal = has_diagonal

    def forward(self, x: Tensor) -> Tensor:
        y = self.matrix(x).unflatten(-1, (3, 3))
        result: Tensor = self.last((y + self.diagonal if self.has_diagonal else y).tanh().flatten(-2))
        return result


def test_numbers_behind_a_reshape_are_no_bias() -> None:
    reference, candidate = drawn(Shifted(True), 0), drawn(Shifted(False), 1)
    reference.get_buffer("diagonal").copy_(torch.eye(3))
    bias = load(reference, candidate).arrays["matrix.bias"]
    torch.testing.assert_close(torch.as_tensor(bias), reference.state_dict()["matrix.bias"] + torch.eye(3).flatten())


class Codes(nn.Module):
    """The nearest row of a table, by the product that is a part of the distance."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.rows = nn.Linear(4, 5), nn.Parameter(torch.zeros(7, 5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x)
        distances = (y**2).sum(-1, keepdim=True) + (self.rows**2).sum(-1) - 2 * (y @ self.rows.T)
        return F.one_hot(distances.argmin(-1), 7).to(y.dtype) @ self.rows


class CodesByDifference(Codes):
    def forward(self, x: Tensor) -> Tensor:
        return self.rows[((self.enter(x)[..., None, :] - self.rows) ** 2).sum(-1).argmin(-1)]


def test_rows_that_are_subtracted_are_those_of_the_product_in_a_distance() -> None:
    reference, candidate = drawn(Codes(), 1), drawn(CodesByDifference(), 2)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(6, 4),), {})
    assert torch.equal(torch.from_numpy(loading.arrays["rows"]), reference.state_dict()["rows"])
