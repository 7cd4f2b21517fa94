"""ONNX files held against themselves and against each other."""
