"""Eager gradients of Python functions and Cells: a tape, the backward pass over it, and `grad`."""
