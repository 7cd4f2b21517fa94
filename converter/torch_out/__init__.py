"""A program as a torch module: modules nested as they were captured, each a graph of torch functions."""
