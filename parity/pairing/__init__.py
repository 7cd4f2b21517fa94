"""The correspondence between two networks: Cells, layers, results."""
