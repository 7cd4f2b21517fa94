"""Views of a parity result."""
