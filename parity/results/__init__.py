"""The results of comparisons, as data."""
