"""Pairs the calls of a torch module and of a Cell written as its port by their names."""
