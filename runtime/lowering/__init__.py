"""From a program to one ONNX model of standard operators, by the `onnx` rules of its ops."""
