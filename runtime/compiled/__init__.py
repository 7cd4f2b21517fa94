"""The compiled executor: programs, gradients and training steps as ONNX models that ONNX Runtime runs."""

from __future__ import annotations

from ..onnxruntime_package import require_whole

require_whole()
