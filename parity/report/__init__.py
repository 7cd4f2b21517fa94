"""Views of one parity result."""
