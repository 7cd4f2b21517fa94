"""Cells that wrap a network for training."""
