"""What makes ONNX Runtime compute a wrong result: its optimizer, node and the session option that avoids it."""
