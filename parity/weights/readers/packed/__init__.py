"""Layouts in which several tensors of a checkpoint hold one quantized weight, a file for each."""
