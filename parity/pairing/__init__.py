"""What of one network belongs to what of another: Cells, layers, results."""
