"""Locks: what a network computes, kept as text, to be compared after an upgrade."""
