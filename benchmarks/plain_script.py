"""The peer of `parity run`: a script that a user might write to run a model file and export it to ONNX.

    python benchmarks/plain_script.py MODEL_FILE

Imports torch, builds the model that the file defines, runs it forward and backward once and exports it with
`torch.onnx.export(dynamo=True)` to a temporary file. It imports nothing from this project.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

import torch


def main(model_file: str) -> None:
    torch.manual_seed(0)
    definitions = runpy.run_path(model_file)
    model, inputs = definitions["model"]().eval(), definitions["inputs"]()
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
    result = model(*args, **kwargs)
    leaves = torch.utils._pytree.tree_leaves(result)
    outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, args, Path(folder) / "model.onnx", kwargs=kwargs, dynamo=True, verbose=False)


if __name__ == "__main__":
    main(sys.argv[1])
