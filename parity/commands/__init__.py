"""The commands of `parity`, one per file, and their common parts."""
