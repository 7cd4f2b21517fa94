"""The comparison of quantized ONNX files with their float files."""
