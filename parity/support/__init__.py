"""Utilities of commands and checks: files, processes, deadlines, progress, user code."""
