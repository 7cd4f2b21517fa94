"""Pairs the Cells of a torch module with places in another network's program by the values at their boundaries."""
