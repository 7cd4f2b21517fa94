"""Program transformations, one a file."""
