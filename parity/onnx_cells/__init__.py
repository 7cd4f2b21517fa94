"""The Cells of a torch module in an ONNX file: the places of its boundaries, and the comparison Cell by Cell."""
