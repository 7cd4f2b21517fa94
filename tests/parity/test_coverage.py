"""How many of the reference's parameters were compared: what a report says of it, and what tests ask for."""

from __future__ import annotations

import re
import textwrap

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity import assert_parity
from cellbridge.parity.results.coverage import Coverage
from cellbridge.runtime import nn as cell_nn
from cellbridge.runtime.errors import ParityError, UsageError

pytest_plugins = ["pytester"]

torch.manual_seed(0)
X = torch.randn(3, 4)


class Reference(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())  # type: ignore[no-any-return]


class Opaque(nn.Module):
    """The same under other names, by way of a function that has no program."""

    def __init__(self, reference: Reference) -> None:
        super().__init__()
        self.inner, self.outer = reference.first, reference.second

    def forward(self, x: Tensor) -> Tensor:
        y = self.outer(self.inner(x).tanh())
        return y + 0 * torch.as_tensor(y.detach().numpy().sum()).to(y)


@pytest.fixture
def pair() -> tuple[Reference, Opaque]:
    reference = Reference()
    return reference, Opaque(reference)


@pytest.mark.filterwarnings("ignore::cellbridge.parity.assertions.UnpairedWarning")
def test_parity_of_results_alone_fails_a_test_without_a_word(pair: tuple[Reference, Opaque]) -> None:
    report = parity.compare(*pair, (X,))
    assert report.ok
    assert report.to_dict()["conditions"]["in_words"] == ["with the gradients of 0 of 4 parameters"]
    with pytest.raises(ParityError) as caught:
        assert_parity(*pair, (X,))
    message = str(caught.value)
    assert message.startswith("Parity holds with the gradients of 0 of 4 parameters")
    assert "needed: at least 50% of them (min_coverage=0.5)" in message
    assert "not compared: first.weight, first.bias, second.weight, second.bias" in message
    assert "min_coverage=0" in message.splitlines()[-1]
    assert assert_parity(*pair, (X,), min_coverage=0).ok
    assert assert_parity(*pair, (X,), grads=False).ok


@pytest.mark.filterwarnings("ignore::cellbridge.parity.assertions.UnpairedWarning")
def test_parameters_that_the_user_pairs_count(pair: tuple[Reference, Opaque]) -> None:
    report = assert_parity(*pair, (X,), cells={"inner": "first"})
    assert report.coverage["candidate"] == Coverage(2, ["second.weight", "second.bias"])
    with pytest.raises(ParityError, match="only 2 of 4 parameters"):
        assert_parity(*pair, (X,), cells={"inner": "first"}, min_coverage=0.75)


def test_parameters_without_a_gradient_do_not_count() -> None:
    class Experts(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            setattr(self, name, nn.ModuleList(nn.Linear(4, 4) for _ in range(3)))

        def forward(self, x: Tensor) -> Tensor:
            return self.first(x)  # type: ignore[no-any-return]

    reference, port = Experts("experts"), Experts("others")
    port.load_state_dict(reference.state_dict(), strict=False)
    report = parity.compare(reference, port, (X,))
    assert report.coverage["candidate"] == Coverage(2, [])


def test_a_reference_that_computes_no_gradients_needs_no_word(pair: tuple[Reference, Opaque]) -> None:
    class Classes(Reference):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).argmax(-1)

    class OpaqueClasses(Opaque):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).argmax(-1)

    pair[0].__class__, pair[1].__class__ = Classes, OpaqueClasses
    report = parity.compare(*pair, (X,))
    assert report.ok
    assert report.coverage["candidate"].missing == []


def test_parameters_of_cells_that_are_left_out_do_not_count() -> None:
    module = Reference()
    report = assert_parity(module, module, (X,), only=["second"])
    assert report.coverage["candidate"] == Coverage(2, [])


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), "half", True])
def test_what_is_no_share(share: float) -> None:
    with pytest.raises(UsageError, match=re.escape(f"min_coverage must be a number from 0 to 1, given {share!r}")):
        assert_parity(nn.Tanh(), nn.Tanh(), (X,), min_coverage=share)


def test_a_ported_cell_is_covered() -> None:
    report = parity.check(nn.Linear(4, 2), (X,), cell=cell_nn.Dense(4, 2), sides=["cell"])
    assert report.coverage == {"cell": Coverage(2, [])}


RECORDED = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))

    def inputs():
        return torch.randn(3, 4)

    recording = "other.rec"
"""


@pytest.mark.parametrize(
    ("arguments", "failed"), [([], 1), (["--parity-min-coverage", "0"], 0)], ids=["without", "with the word"]
)
def test_a_model_file_whose_recording_lacks_parameters(
    pytester: pytest.Pytester, arguments: list[str], failed: int
) -> None:
    class Renamed(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.a, self.b = inner[0], inner[2]  # type: ignore[index]

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x).tanh())  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    parity.record(Renamed(model), (x,), pytester.path / "other.rec")
    text = textwrap.dedent(RECORDED).replace("return torch", "torch.manual_seed(1)\n    return torch")
    (pytester.path / "parity_net.py").write_text(text)
    result = pytester.runpytest_inprocess("parity_net.py", *arguments)
    assert result.parseoutcomes().get("failed", 0) == failed, result.stdout.str()
    if failed:
        result.stdout.fnmatch_lines(["*only 0 of 4 parameters were compared*", "*parity_min_coverage=0.5, a setting*"])


def test_a_setting_that_is_no_share(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--parity-min-coverage", "2")
    result.stderr.fnmatch_lines(["*parity_min_coverage must be a number from 0 to 1, given 2.0*"])
