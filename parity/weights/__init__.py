"""Carrying weights from a torch module to Cells: the mapping of parameters and their layouts."""
