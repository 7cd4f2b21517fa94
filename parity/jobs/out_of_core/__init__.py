"""Judging a network that is larger than memory, in parts that are judged one after another."""
