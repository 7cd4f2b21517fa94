"""Lowering of a program to an ONNX model of standard operators, by the `onnx` rules of its ops."""
