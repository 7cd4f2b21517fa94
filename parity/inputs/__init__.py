"""The user's inputs: model files, ONNX files, arrays and sizes."""
