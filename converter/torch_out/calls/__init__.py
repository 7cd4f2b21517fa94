"""What the graphs of `to_torch` call beside functions of torch."""
