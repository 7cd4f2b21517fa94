"""Mistakes in conversions as people make them: those that other layers contradict are shown, with the right tensor."""

from __future__ import annotations

import pytest

from cellbridge.parity.weights.audit.derivation import derive
from cellbridge.parity.weights.audit.findings import findings
from cellbridge.parity.weights.audit.findings.finding import LOOK, WRONG
from fixtures.checkpoints.catalogue import conversions, faults
from fixtures.checkpoints.fault import Fault
from tests.parity.weights.audit.test_derivation import checkpoint

CONVERSIONS = conversions()
FAULTS = [fault for fault in faults() if not fault.everywhere]
NOT_SHOWN = {
    "albert/unshared: no bias in a layer",
    "cnn/flax: a kernel flipped",
    "cnn/flax: channels last in the wrong order",
    "cnn/flax: flattened as in torch",
    "cnn/flax: the first norm's scale in the bias",
    "initial/renamed: a bias of ones",
    "lstm/flax: cell and output gates",
    "lstm/flax: no kernel of the forget gate",
    "mixtral/fused: an expert twice",
    "mobile/keras: statistics of two blocks",
    "quantized/int8: a row's sign",
    "quantized/int8: whole numbers of another layer",
}
"""What isn't shown yet, by conversion and name."""


def _name(fault: Fault) -> str:
    return f"{fault.conversion}: {fault.name}"


def _parameters() -> list[object]:
    missed = pytest.mark.xfail(strict=True, reason="nothing contradicts it that is looked at")
    return [pytest.param(f, marks=[missed] if _name(f) in NOT_SHOWN else [], id=_name(f)) for f in FAULTS]


@pytest.mark.every(4)
@pytest.mark.parametrize("fault", _parameters())
def test_a_fault_is_shown(fault: Fault) -> None:
    conversion = CONVERSIONS[fault.conversion]
    inputs = conversion.inputs()
    result = derive(checkpoint(inputs), checkpoint(fault.change(conversion.after(inputs))))
    shown = {name for f in findings(result) if f.rank in (WRONG, LOOK) for name in f.tensors}
    assert not shown.isdisjoint(fault.tensors)
