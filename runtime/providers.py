"""The execution providers of ONNX Runtime, by the names that users give them."""

from __future__ import annotations

from typing import Any

# float32 means float32: by default the CUDA provider multiplies matrices in TF32, with a mantissa of 10 bits
PROVIDERS: dict[str, list[Any]] = {
    "cpu": ["CPUExecutionProvider"],
    "cuda": [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"],
}
