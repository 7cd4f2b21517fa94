"""Programs as ONNX files: names, axes, metadata; the lowering itself is `runtime.lowering`."""
