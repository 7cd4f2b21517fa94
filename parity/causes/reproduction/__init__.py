"""Minimal reproductions of failing Cells."""
