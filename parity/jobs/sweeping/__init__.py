"""Judging many models: each in a process of its own, the results in one SQLite file."""
