"""Whatever a script imports first, it gets the same functions."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "first",
    [
        "from cellbridge.runtime import grad",
        "from cellbridge.runtime import Tensor",
        "from cellbridge.runtime import amp",
        "import cellbridge.runtime.eager.backward",
        "import cellbridge.runtime.eager.derivatives",
        "import cellbridge.runtime.nn.cell_hooks",
        "from cellbridge.runtime.train.serialization import save_checkpoint",
    ],
)
def test_anything_can_be_imported_first(first: str) -> None:
    script = (
        f"{first}\n"
        "import cellbridge.runtime as ms\n"
        "from cellbridge.runtime import nn, ops\n"
        "assert ops.grad is ms.grad\n"
        "assert ms.grad(ops.relu)(ms.Tensor([2.0])).tolist() == [1.0]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
