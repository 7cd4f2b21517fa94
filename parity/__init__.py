"""Runs a model on several sides and judges, Cell by Cell, whether they agree."""
