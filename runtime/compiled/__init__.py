"""The compiled executor: programs and gradient programs as ONNX models that ONNX Runtime runs."""

from __future__ import annotations

from ..onnxruntime_package import require_intact

require_intact()
