"""Causes of faults in ports: each is proved by the program that the port is traced to."""

from __future__ import annotations

import pytest

from cellbridge import parity
from cellbridge.parity.report.report import Report
from tests.parity.pairing.ports.faults import FAULTS
from tests.parity.pairing.ports.ports import made

pytestmark = pytest.mark.causes

CAUSES = {
    "eps of LayerNorm left as it is": "eps is 1e-07 in the candidate, 1e-05 in the reference",
    "GELU approximated": "approximate is 'tanh' in the candidate, 'none' in the reference",
    "LeakyReLU's slope left as it is": "negative_slope is 0.2 in the candidate, 0.01 in the reference",
    "same for 1 before and behind": "padding is ((0, 1), (0, 1)) in the candidate, ((1, 1), (1, 1)) in the reference",
    "max for average": "max_pool is computed in the candidate, avg_pool in the reference",
    "axis of softmax": "in softmax, axis is 2 in the candidate, 3 in the reference",
    "bias forgotten": "bias of conv is absent in the candidate, project.bias in the reference",
    "activation too many": "relu is computed in the candidate in addition",
    "stop_gradient forgotten": "a gradient is stopped (detach) in the reference only",
    "frozen part is trained": "backbone.0.weight is trained in the candidate only",
    "gradient only": "own_gradient is computed in the candidate in addition",
}


def report_on(name: str) -> Report:
    fault = FAULTS[name]
    module, cell, args = made(fault.port)
    fault.change(cell)
    return parity.compare(module, cell, args, grads=True, train=fault.train)


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.every(12)
def test_the_cause_is_named(name: str) -> None:
    (path,) = FAULTS[name].at
    causes = report_on(name).cells[path].causes
    assert CAUSES[name] in [cause.summary for cause in causes]
    assert all(cause.error < 1e-12 for cause in causes)


@pytest.mark.slow
def test_weights_in_another_layout_are_the_same_weights() -> None:
    causes = report_on("dilation").cells["conv"].causes
    assert [cause.attribute for cause in causes] == ["padding", "dilation"]
    assert [cause.together for cause in causes] == [2, 2]


@pytest.mark.parametrize(
    ("name", "path", "summary"),
    [
        ("pad_mode left as it is", "features.0", "padding is ((2, 2), (2, 2)) in the candidate, ((0, 0), (0, 0)) in"),
        (
            "stride of a pooling left as it is",
            "features.5",
            "stride is (1, 1) in the candidate, (2, 2) in the reference",
        ),
    ],
)
@pytest.mark.every(2)
def test_a_port_that_can_not_be_traced_is_explained_by_the_catalogue(name: str, path: str, summary: str) -> None:
    report = report_on(name)
    assert any("cell can't be read as a program" in note for note in report.notes)
    (cause,) = report.cells[path].causes
    assert summary in cause.summary
