"""Files for deployment that are smaller than the model: quantized by ONNX Runtime's tools, and judged."""
