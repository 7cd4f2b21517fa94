"""Recordings: what crossed the boundaries of a network's Cells somewhere else, read and judged here."""
