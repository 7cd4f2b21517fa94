"""The comparison of ONNX files, on several sides and with each other."""
