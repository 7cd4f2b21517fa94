"""The functions that the graphs of `to_torch` call besides torch's own."""
