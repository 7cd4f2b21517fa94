"""Weights brought from a reference into a port by structure: what is found, what is said, and that nothing stays."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.pairing.by_structure.loading import Loading, load_by_map, load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

WIDTH, HEADS = 12, 2


class Fused(nn.Module):
    """One product for queries, keys and values, one for gate and up."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Linear(WIDTH, 16, bias=False)
        self.narrow = nn.Linear(8, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.wide(x).chunk(2, -1)
        return x + self.narrow(F.silu(gate) * up)


class Split(nn.Module):
    """A matrix for each, and the values first."""

    scale = (WIDTH // HEADS) ** -0.5

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.v, self.k, self.q, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.gate = nn.Parameter(torch.zeros(WIDTH, 8)), nn.Parameter(torch.zeros(WIDTH, 8))
        self.down = nn.Linear(8, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = x - x.mean(-1, keepdim=True)
        y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.gain + self.offset
        v, k, q = (m(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.v, self.k, self.q))
        scores = q @ k.mT * self.scale
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.down(x @ self.up * F.silu(x @ self.gate))


class Scaled(Split):
    """A fault: the scale of the scores is forgotten."""

    scale = 1.0


def x() -> tuple[Tensor, ...]:
    return (torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(7)),)


def load(reference: nn.Module, candidate: nn.Module, args: tuple[Tensor, ...] | None = None) -> Loading:
    return load_by_structure(reference, ModulePort(candidate), x() if args is None else args, {})


def expected_of_fused(reference: nn.Module) -> dict[str, Tensor]:
    w = reference.state_dict()
    expected = {"gain": w["norm.weight"], "offset": w["norm.bias"]}
    for part in ("weight", "bias"):
        for letter, rows in zip("qkv", w[f"qkv.{part}"].chunk(3), strict=True):
            expected[f"{letter}.{part}"] = rows
        expected[f"o.{part}"], expected[f"down.{part}"] = w[f"out.{part}"], w[f"narrow.{part}"]
    expected["gate"], expected["up"] = (rows.T for rows in w["wide.weight"].chunk(2))
    return expected


@pytest.mark.parametrize("candidate", [Split, Scaled])
def test_fused_weights_are_divided_although_the_code_has_a_fault(candidate: Callable[[], nn.Module]) -> None:
    reference = drawn(Fused(), 0)
    loading = load(reference, drawn(candidate(), 1))
    expected = expected_of_fused(reference)
    assert loading.arrays.keys() == expected.keys()
    assert [n for n, value in expected.items() if not torch.equal(torch.as_tensor(loading.arrays[n]), value)] == []
    assert loading.notes[0].startswith("14 of 14 parameters were loaded by structure")
    assert any("enters linear of o" in note for note in loading.notes) == (candidate is Scaled)


def test_split_weights_are_joined() -> None:
    reference, candidate = drawn(Split(), 0), drawn(Fused(), 1)
    loading = load(reference, candidate)
    with ModulePort(candidate).given(loading.arrays):
        torch.testing.assert_close(candidate(*x()), reference(*x()))
    assert loading.assemblies["qkv.weight"].names == ("q.weight", "k.weight", "v.weight")


def test_the_fault_is_judged_with_the_weights_loaded() -> None:
    reference, candidate = drawn(Fused(), 0), drawn(Scaled(), 1)
    before = copy.deepcopy(candidate.state_dict())
    report = parity.compare(reference, candidate, x(), load_weights=True, **QUICKLY)
    assert report.failed
    assert any("14 of 14 parameters were loaded by structure" in note for note in report.notes)
    assert all(torch.equal(before[name], value) for name, value in candidate.state_dict().items())
    assert parity.compare(reference, drawn(Split(), 1), x(), load_weights=True, **QUICKLY).ok


def test_without_loading_the_report_offers_it() -> None:
    reference, candidate = drawn(Fused(), 0), drawn(Split(), 1)
    advice = [note for note in parity.compare(reference, candidate, x(), **QUICKLY).notes if "--load-weights" in note]
    assert len(advice) == 1
    with ModulePort(candidate).given(load(reference, candidate).arrays), torch.no_grad():
        candidate.down.weight += 0.1  # type: ignore[union-attr, operator]
        assert not [
            note for note in parity.compare(reference, candidate, x(), **QUICKLY).notes if "--load-weights" in note
        ]


class NormedConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.last = nn.ConvTranspose2d(6, 4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.conv(x))))


class StatisticsByHand(nn.Module):
    """A batch norm that is written out, with its statistics in buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(6, 3, 3, 3))
        self.gamma, self.beta = nn.Parameter(torch.ones(6, 1, 1)), nn.Parameter(torch.zeros(6, 1, 1))
        self.register_buffer("mean", torch.zeros(6, 1, 1))
        self.register_buffer("variance", torch.ones(6, 1, 1))
        self.grow = nn.ConvTranspose2d(6, 4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = (F.conv2d(x, self.kernel) - self.mean) * torch.rsqrt(self.variance + 1e-5) * self.gamma + self.beta
        return self.grow(y.relu())


class Folded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3), nn.ConvTranspose2d(6, 4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


@pytest.mark.parametrize("candidate", [StatisticsByHand, Folded])
def test_a_batch_norm_brings_its_statistics(candidate: Callable[[], nn.Module]) -> None:
    reference, port = drawn(NormedConv(), 0), drawn(candidate(), 1)
    images = (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3)),)
    loading = load(reference, port, images)
    with ModulePort(port).given(loading.arrays):
        torch.testing.assert_close(port(*images), reference(*images), rtol=1e-4, atol=1e-5)


def test_norms_that_the_reference_has_folded_are_said_with_what_to_do() -> None:
    images = (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3)),)
    folded, normed = drawn(Folded(), 0), drawn(NormedConv(), 1)
    (note,) = [note for note in load(folded, normed, images).notes if "no statistics of norms" in note]
    assert "norm.running_mean" in note
    assert "load weights from before they were folded, or fold the candidate's norms" in note
    for pair in ((normed, folded), (normed, drawn(NormedConv(), 2))):
        assert not [note for note in load(*pair, images).notes if "no statistics" in note]


class LayerScaled(nn.Module):
    """Layer scales, of a convolution and of a layer, which ports have in the weights."""

    def __init__(self, is_folded: bool) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.Linear(7, 7)
        self.of_conv = None if is_folded else nn.Parameter(torch.ones(3, 1, 1))
        self.of_fc = None if is_folded else nn.Parameter(torch.ones(7))

    def forward(self, x: Tensor) -> Tensor:
        for layer, factor in ((self.conv, self.of_conv), (self.fc, self.of_fc)):
            x = x + (layer(x) if factor is None else factor * layer(x))
        return x


def test_layer_scales_are_folded_into_weights_and_biases() -> None:
    reference, port = drawn(LayerScaled(False), 0), drawn(LayerScaled(True), 1)
    images = (torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(3)),)
    loading = load(reference, port, images)
    assert '"scaled"' in loading.text()
    with ModulePort(port).given(loading.arrays):
        torch.testing.assert_close(port(*images), reference(*images))


class Parallel(nn.Module):
    """Two branches whose sum is the same if they are exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.one(x)) + torch.tanh(self.other(x))


def test_what_nothing_distinguishes_is_said() -> None:
    loading = load(drawn(Parallel(), 0), drawn(Parallel(), 1))
    sentence = "nothing distinguishes one.weight and other.weight"
    assert any(sentence in note for note in loading.notes)
    assert f"# {sentence}" in loading.text()


def test_tables_of_other_lengths_and_what_has_no_counterpart() -> None:
    """A longer table isn't guessed; a shorter one is taken from the beginning."""

    class Table(nn.Module):
        def __init__(self, rows: int, with_more: bool = False) -> None:
            super().__init__()
            self.words = nn.Embedding(rows, WIDTH)
            self.head = nn.Linear(WIDTH, 3)
            if with_more:
                self.more = nn.Linear(WIDTH, 7)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.words(ids).tanh())

    ids = (torch.randint(0, 8, (2, 5), generator=torch.Generator().manual_seed(3)),)
    reference = drawn(Table(10), 0)
    longer = load(reference, drawn(Table(12), 1), ids)
    assert longer.arrays.keys() == {"head.weight", "head.bias"}
    assert any("not loaded" in note and "words.weight" in note for note in longer.notes)
    shorter = load(reference, drawn(Table(9, True), 1), ids)
    torch.testing.assert_close(
        torch.as_tensor(shorter.arrays["words.weight"]), reference.state_dict()["words.weight"][:9]
    )
    assert any("more.weight" in note and "not loaded" in note for note in shorter.notes)
    with pytest.raises(UsageError, match="since a network can't be followed: op embedding"):
        load(reference, drawn(Table(3), 1), ids)  # the words have numbers that it hasn't


def test_the_map_is_text_that_does_the_same(tmp_path: Path) -> None:
    reference, candidate = drawn(Fused(), 0), drawn(Split(), 1)
    path = tmp_path / "map.toml"
    report = parity.compare(reference, candidate, x(), load_weights=True, write_map=path, **QUICKLY)
    assert report.ok
    text = path.read_text(encoding="utf-8")
    assert '"q.weight" = { from = ["qkv.weight"], rows = [[0, 12]] }' in text
    assert '"norm.weight" = "gain"' in text
    by_map = load_by_map(reference, ModulePort(candidate), path)
    by_structure = load(reference, candidate)
    assert all((by_map.arrays[name] == array).all() for name, array in by_structure.arrays.items())
    with pytest.raises(UsageError, match="somebody may have edited"):
        parity.compare(reference, candidate, x(), load_weights=True, write_map=path)
    path.write_text(text.replace('"norm.weight" = "gain"', '"norm.weight" = "offset"').replace(
        '"norm.bias" = "offset"', '"norm.bias" = "gain"'
    ))  # fmt: skip
    assert parity.compare(reference, candidate, x(), load_weights=path, **QUICKLY).failed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"nothing.weight" = "gain"', "'nothing.weight': the reference has no such tensor"),
        ('"norm.weight" = "nothing"', "'norm.weight': the candidate has no nothing"),
        ('"gain" = { from = ["nothing"] }', "'gain': the reference has no nothing"),
        ('"norm.weight" = "gain"\n"norm.bias" = "gain"', "both 'norm.weight' and 'norm.bias' make gain"),
        (
            '"qkv.weight" = "q.weight"',
            r"'q.weight': the candidate's has shape \[12, 12\], and the line makes \[36, 12\]\n  what to do: say",
        ),
        ('"q.weight" = { from = ["qkv.weight"], rows = [[30, 42]] }', "'q.weight': there are rows 0 to 35"),
        ('"q.weight" = { from = ["qkv.weight", "wide.weight", "narrow.weight"] }', "their rows differ in length"),
        ('"gain" = { from = [{ computed = "exec", of = ["norm.weight"] }] }', "`computed` must be one of weight_norm"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(line)
    with pytest.raises(UsageError, match=message) as caught:
        parity.compare(drawn(Fused(), 0), drawn(Split(), 1), x(), load_weights=path)
    assert str(path) in str(caught.value)


def test_what_can_not_be_loaded_is_refused(tmp_path: Path) -> None:
    class Stochastic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x + torch.randn_like(x))

    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(UsageError, match="the candidate can't be followed: it draws random numbers"):
        parity.compare(drawn(Fused(), 0), drawn(Stochastic(), 1), x(), load_weights=True)
    with pytest.raises(UsageError, match="the reference can't be followed") as caught:
        parity.compare(Branching(), drawn(Split(), 1), x(), load_weights=True)
    said = re.escape("  what to do: write a map file (docs/howto/port.md), and give it as --map\n  or: the model's")
    assert re.search(r"\n  at .*return x if x.sum\(\) > 0.*\n" + said, str(caught.value)), caught.value
    with pytest.raises(UsageError, match="write_map needs load_weights=True"):
        parity.compare(drawn(Fused(), 0), drawn(Split(), 1), x(), write_map=tmp_path / "map.toml")
    with pytest.raises(UsageError, match="into a torch module, a Cell or a network in JAX, given Fused and str"):
        parity.compare(drawn(Fused(), 0), str(tmp_path / "model.onnx"), x(), load_weights=True)


def test_networks_that_have_nothing_in_common() -> None:
    loading = load(drawn(Fused(), 0), drawn(nn.Sequential(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, 3)), 1))
    assert loading.notes[0].startswith("0 of 4 parameters were loaded by structure")


class Words(nn.Module):
    """A table whose rows are multiplied by a number, and experts in one tensor or in several."""

    def __init__(self, factor: float, stacked: bool) -> None:
        super().__init__()
        self.factor = factor
        self.table = nn.Embedding(9, WIDTH)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, 4, bias=False) for _ in range(0 if stacked else 3))
        self.wide = nn.Parameter(torch.zeros(3, WIDTH, 4)) if stacked else None
        self.head = nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) * self.factor
        if self.wide is not None:
            return self.head(torch.einsum("bti,eio->ebto", x, self.wide).tanh().sum(0))
        return self.head(torch.stack([expert(x).tanh() for expert in self.experts]).sum(0))


@pytest.mark.parametrize("stacked", [False, True])
def test_a_scaled_table_and_stacked_experts(stacked: bool) -> None:
    ids = (torch.randint(0, 9, (2, 5), generator=torch.Generator().manual_seed(3)),)
    reference, candidate = drawn(Words(1.0, stacked), 0), drawn(Words(4.0, not stacked), 1)
    loading = load(reference, candidate, ids)
    with ModulePort(candidate).given(loading.arrays):
        torch.testing.assert_close(candidate(*ids), reference(*ids))
    assert "times = 0.25" in loading.text()


def test_biases_that_are_joined_with_zeros_are_divided() -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.all, self.last = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, 3)
            self.first, self.third = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            bias = torch.cat((self.first, torch.zeros_like(self.first), self.third))
            a, b, c = F.linear(x, self.all.weight, bias).chunk(3, -1)
            result: Tensor = self.last(a.sigmoid() * b.tanh() + c)
            return result

    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value, self.gate, self.rest = (nn.Linear(WIDTH, WIDTH, bias=bias) for bias in (False, True, True))
            self.end = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.end(self.value(x).tanh() * self.gate(x).sigmoid() + self.rest(x))
            return result

    report = parity.compare(drawn(Joined(), 0), drawn(Apart(), 1), x(), load_weights=True, **QUICKLY)
    assert report.ok, report
