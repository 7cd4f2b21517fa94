"""Further inputs, derived from the given ones, that would show what these hide."""
