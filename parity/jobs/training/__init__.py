"""Training steps, compared with torch's."""
