"""The verdict on the network as a whole, beside those on its Cells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.comparison import NOT_KNOWN
from cellbridge.parity.results.network_verdict import LESS_PRECISE, NOT_SAME, SAME, network_verdict
from tests.parity.pairing.modules.networks import X, network
from tests.parity.reports import failing, passing

END = {"feeding": "end to end"}


def norm_inlined(self: Any, x: Tensor) -> Tensor:
    y = nn.functional.layer_norm(x, (4,), self.norm.weight, self.norm.bias, 1e-5)
    return x + self.down(self.act(self.up(y)))


def doubled(self: Any, x: Tensor) -> Tensor:
    return 2 * torch.tanh(x)


def halved(self: Any, x: Tensor) -> Tensor:
    return nn.functional.linear(x / 2, self.weight, self.bias)


def detached(self: Any, x: Tensor) -> Tensor:
    return self.head(self.blocks(x).mean(1).detach())


def rounded(self: Any, x: Tensor) -> Tensor:
    return torch.tanh(x) if x.dtype == torch.float64 else torch.tanh(x.bfloat16()).float()


def raises(self: Any, x: Tensor) -> Tensor:
    raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("forwards", "verdict", "because"),
    [
        ({}, SAME, "outputs and gradients"),
        ({"blocks_0": norm_inlined}, SAME, "outputs and gradients"),
        ({"blocks_0_act": doubled}, NOT_SAME, "output result"),
        ({"blocks_0_act": doubled, "blocks_0_down": halved}, SAME, "outputs and gradients"),
        ({"root": detached}, NOT_SAME, "gradient"),
        ({"blocks_1": raises}, NOT_SAME, "blocks.1 raises ValueError: no such thing"),
    ],
)
@pytest.mark.every(6)
def test_of_two_modules(forwards: dict[str, Any], verdict: str, because: str) -> None:
    candidate = network(**forwards)
    report = parity.compare(network(), candidate, (X,))
    judgement = report.network_verdict
    assert judgement.verdict == verdict
    assert because in judgement.because
    assert f"the network as a whole: {judgement.sentence}" in " ".join(str(report).split())
    assert report.to_dict()["network_verdict"]["verdict"] == verdict


def test_cells_may_be_wrong_in_a_network_that_is_right() -> None:
    report = parity.compare(network(), network(blocks_0_act=doubled, blocks_0_down=halved), (X,))
    assert report.failing == ["blocks.0.act", "blocks.0.down"]
    assert report.network_verdict.verdict == SAME


@pytest.mark.slow
def test_a_network_that_is_less_precise() -> None:
    report = parity.compare(network(), network(blocks_0_act=rounded), (X,))
    assert report.network_verdict.verdict == LESS_PRECISE, report.network_verdict


def test_a_bias_that_nothing_replaces_is_another_function() -> None:
    reference, candidate = network(), network()
    nn.init.zeros_(reference.get_parameter("head.bias"))
    candidate.get_submodule("head").bias = None  # type: ignore[assignment]
    assert parity.compare(reference, candidate, (X,)).network_verdict.verdict == NOT_SAME


def test_conversions_are_the_same_function() -> None:
    report = parity.check(network(), (X,))
    assert report.network_verdict.verdict == SAME
    assert report.network_verdict.sentence == "the same function, by its outputs and gradients"


@pytest.mark.parametrize(
    ("comparisons", "verdict"),
    [
        ([passing(**END)], SAME),
        ([passing()], NOT_KNOWN),
        ([], NOT_KNOWN),
        ([passing(**END), failing(**END)], NOT_SAME),
        ([passing(**END), failing()], SAME),
        ([passing(**END), failing(feeding="second call")], NOT_SAME),
        ([passing(**END, check="meaning"), failing(**END, check="rounding")], LESS_PRECISE),
        ([failing(**END, check="rounding")], NOT_KNOWN),
        ([failing(**END, check="rounding", index=None)], NOT_SAME),
        ([passing(**END), failing(**END, kind="parameter gradient", status="not compared")], NOT_KNOWN),
    ],
)
def test_what_decides(comparisons: list[Any], verdict: str) -> None:
    assert network_verdict(["interpreter"], [("", c) for c in comparisons]).verdict == verdict


def test_the_worst_side_counts() -> None:
    comparisons = [("", passing(**END)), ("", failing(**END, side="onnxruntime", check="meaning"))]
    judgement = network_verdict(["interpreter", "onnxruntime"], comparisons)
    assert (judgement.verdict, judgement.side) == (NOT_SAME, "onnxruntime")


def test_boundaries_of_inner_cells_do_not_count() -> None:
    comparisons = [("", passing(**END)), ("0", failing(**END)), ("0", failing(**END, kind="buffer update"))]
    assert network_verdict(["interpreter"], comparisons[:2]).verdict == SAME
    assert network_verdict(["interpreter"], comparisons).verdict == NOT_SAME


def test_strict_fails_for_another_structure() -> None:
    candidate = network(blocks_0=norm_inlined)
    report = parity.compare(network(), candidate, (X,), strict=True)
    assert not report.ok
    assert not report.failing
    shown = " ".join(str(report).split())
    assert (
        "✗ The structure differs, which strict doesn't allow: blocks.0.norm is never called in the candidate" in shown
    )
    assert report.network_verdict.verdict == SAME
    assert parity.compare(network(), candidate, (X,)).ok
    assert parity.compare(network(), network(), (X,), strict=True).ok
