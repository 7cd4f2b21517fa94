"""Runs torch modules, forward or in training, and writes what crosses the boundaries of their Cells."""
