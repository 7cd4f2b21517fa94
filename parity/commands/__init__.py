"""The commands of `parity`, one a file, and what they have in common."""
