"""Rewrites of programs for ONNX Runtime: ops for which it has no kernel, or a wrong one, in terms of others."""
