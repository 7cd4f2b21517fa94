"""`check` and `compare`: compare a network with its conversions, or with another network."""
