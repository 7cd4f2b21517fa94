"""Ops on matrices: determinants, inverses, decompositions, functions of matrices."""
