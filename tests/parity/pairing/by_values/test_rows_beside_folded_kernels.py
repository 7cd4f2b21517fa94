"""Rows in another order in a Cell that also has a kernel into which a norm was folded: the rows' Cell is at fault."""

from __future__ import annotations

import pytest

from benchmarks.twins.measuring import faults_of
from benchmarks.twins.twin import twins
from cellbridge import parity


@pytest.mark.slow
def test_halves_of_a_product_are_exchanged_before_a_folded_convolution() -> None:
    twin = twins()["conformer/folded"]
    reference = twin.reference()
    fault = faults_of(twin)["weights"]
    report = parity.compare(reference, twin.candidate(reference, [fault]), twin.arguments(), probe=False)
    assert tuple(sorted(report.failing)) == tuple(sorted(fault.cells)), str(report)
