"""`check` and `compare`: a network and what it was converted to, or another network."""
