"""Readers of checkpoints, a file for each format. A tensor's values are read when they are needed."""
