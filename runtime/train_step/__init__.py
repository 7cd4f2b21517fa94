"""Training steps that ONNX Runtime runs: forward, loss scale, backward, optimizer in one ONNX model."""

from __future__ import annotations

from ..onnxruntime_package import require_intact

require_intact()
