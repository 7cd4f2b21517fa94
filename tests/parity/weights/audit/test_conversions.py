"""Conversions as people do them: what every tensor is made of is derived, and nothing is called wrong."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.parity.weights.audit.derivation import derive
from cellbridge.parity.weights.audit.findings import findings
from cellbridge.parity.weights.audit.findings.finding import WRONG
from fixtures.checkpoints.catalogue import conversions
from tests.parity.weights.audit.test_derivation import checkpoint

CONVERSIONS = conversions()
WHOLE_NUMBERS = "quantized/int8"
"""Its values and scales are apart; a reader that knows the layout puts them together."""


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_right_conversion_is_derived_completely(name: str) -> None:
    conversion = CONVERSIONS[name]
    inputs = conversion.inputs()
    after = conversion.after(inputs)
    result = derive(checkpoint(inputs), checkpoint(after))
    assert [finding.text for finding in findings(result) if finding.rank == WRONG] == []
    if name == WHOLE_NUMBERS:
        assert all(n.endswith((".weight", ".weight_scale")) for n in result.unknown)
        return
    assert result.unknown == []
    for tensor, sources in conversion.made_of.items():
        origin = result.origins[tensor]
        has_all = {*origin.sources, *origin.equals} >= {*sources}
        assert has_all or _is_exact(origin.join.assembly.assemble(inputs), after[tensor])


def _is_exact(array: np.ndarray, tensor: np.ndarray) -> bool:
    """Whether fewer tensors give the same numbers: a weight norm whose gain is still the length of its direction."""
    return bool(np.allclose(array, tensor, rtol=1e-6, atol=0))


LOSSY = (
    "average", "batch_norm", "image/video", "layer_norm", "lora/merged", "lstm/flax", "lstm/keras", "quantized",
    "teacher/pruned", "weight_norm",
)  # fmt: skip
"""Conversions that leave values out, or compute some from which the first ones don't follow."""


@pytest.mark.parametrize("name", [name for name in CONVERSIONS if not name.startswith(LOSSY)])
def test_the_way_back_is_derived_too(name: str) -> None:
    conversion = CONVERSIONS[name]
    inputs = conversion.inputs()
    used = dict.fromkeys(source for sources in conversion.made_of.values() for source in sources)
    result = derive(checkpoint(conversion.after(inputs)), checkpoint({n: inputs[n] for n in used}))
    assert result.unknown == []
    assert [finding.text for finding in findings(result) if finding.rank == WRONG] == []
