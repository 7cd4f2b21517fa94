"""Models in, models out."""
