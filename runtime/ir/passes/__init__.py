"""Passes over programs, one per file."""
