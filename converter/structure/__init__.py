"""A program as the tree of modules that it was captured from, for whatever is written module by module."""
