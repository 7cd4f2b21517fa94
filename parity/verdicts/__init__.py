"""Verdicts on single tensors and Python values."""
