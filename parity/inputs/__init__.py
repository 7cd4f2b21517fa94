"""What is judged, as people give it: model files, ONNX files, arrays and sizes."""
