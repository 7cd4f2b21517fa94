"""The execution providers of ONNX Runtime, by the names that users give them."""

from __future__ import annotations

from typing import Any

# no TF32, in which the CUDA provider multiplies float32 matrices by default: its mantissa has only 10 bits
_ON_GPU = {"use_tf32": "0"}
PROVIDERS: dict[str, list[Any]] = {
    "cpu": ["CPUExecutionProvider"],
    "cuda": [("CUDAExecutionProvider", _ON_GPU), "CPUExecutionProvider"],
}

CUDA_GRAPH: list[Any] = [("CUDAExecutionProvider", _ON_GPU | {"enable_cuda_graph": "1"}), "CPUExecutionProvider"]
"""The GPU, where the first run of a model is recorded and later ones are started as a whole, with one call."""
