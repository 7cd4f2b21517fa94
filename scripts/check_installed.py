"""Checks an installed wheel: where its packages come from, their version, and that the runtime needs no torch."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path

version = importlib.metadata.version("cellbridge")
sys.modules["torch"] = None  # type: ignore[assignment]  # from here on, `import torch` is an ImportError
runtime = importlib.import_module("cellbridge.runtime")
tensor = runtime.Tensor([1.0, -2.0], runtime.float32)
gradient = runtime.grad(lambda x: runtime.ops.relu(x).sum())(tensor)
if gradient.asnumpy().tolist() != [1.0, 0.0]:
    raise SystemExit(f"the gradient of relu at [1, -2] is {gradient}, needed [1, 0]")
del sys.modules["torch"]

for room in ("runtime", "converter", "parity"):
    module = importlib.import_module(f"cellbridge.{room}")
    if module.__version__ != version:
        raise SystemExit(f"cellbridge.{room} has version {module.__version__}, the distribution {version}")
    if not Path(str(module.__file__)).is_relative_to(sys.prefix):
        raise SystemExit(f"cellbridge.{room} is {module.__file__}, which isn't the installed wheel")
sys.stdout.write(f"cellbridge {version} is installed; its runtime works without torch\n")
