"""From a program to an ONNX model."""
