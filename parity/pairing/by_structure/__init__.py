"""Weights that a candidate doesn't have yet, brought over from the reference by the structure of both networks."""
