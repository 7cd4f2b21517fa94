"""Finds what belongs together in two networks: Cells, values and parameters, by name, by value and by structure."""
