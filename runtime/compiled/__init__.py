"""The compiled executor: programs, gradients and training steps as ONNX models that ONNX Runtime runs."""
