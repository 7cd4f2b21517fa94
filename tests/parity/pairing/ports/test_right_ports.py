"""Right ports of typical blocks: no alarm, in either mode, in any precision."""

from __future__ import annotations

import pytest

from cellbridge import parity
from cellbridge.parity.report.terminal import failure_text
from tests.parity.pairing.ports.ports import PORTS, made


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", PORTS)
@pytest.mark.every(6)
def test_right_port_passes(name: str, train: bool) -> None:
    module, cell, args = made(name)
    report = parity.compare(module, cell, args, grads=True, train=train)
    assert report.ok, failure_text(report)
    compared = [c for each in report.cells.values() for c in each.comparisons]
    assert {c.check for c in compared} == {"meaning", "rounding"}
    assert {c.feeding for c in compared} == {"isolated", "end to end", "second call"}
    assert {"output", "parameter gradient", "parameter"} <= {c.kind for c in compared}
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    assert {c.tensor for c in compared if c.kind == "parameter gradient"} == trained


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["residual", "encoder", "lstm", "mixer"])
@pytest.mark.every(6)
def test_right_port_passes_in_other_dtypes(name: str, dtype: str) -> None:
    module, cell, args = made(name)
    report = parity.compare(module, cell, args, dtype=dtype, train=True)
    assert report.ok, failure_text(report)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", ["inverted residual", "decoder", "pretrained", "seq2seq"])
@pytest.mark.every(9)
def test_right_port_passes_whatever_the_numbers(name: str, seed: int) -> None:
    module, cell, args = made(name, seed)
    report = parity.compare(module, cell, args, train=True, seed=seed)
    assert report.ok, failure_text(report)
