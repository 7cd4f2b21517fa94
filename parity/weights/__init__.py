"""Carrying weights from a torch module to Cells: which parameter becomes which, and how it is laid out."""
