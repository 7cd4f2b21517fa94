"""The comparison of a torch module with its port."""
