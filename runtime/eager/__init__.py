"""Gradients of Python functions and Cells, computed as they run: a tape, the backward pass over it, `grad`."""
